"""The webhook configurations in the manifests of a version, and the image of its Deployment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.entries import CONFIGURATIONS
from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import lookup
from webhook.cli.manifest_reader import ManifestReader
from webhook.cli.problems import Problem
from webhook.replica.config import DEPLOYMENT

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object

__all__ = ["IMAGE", "VersionManifests", "read_version_manifests"]

IMAGE = ("spec", "template", "spec", "containers", 0, "image")
"""The path of the image in the Deployment."""


@dataclass(frozen=True, slots=True)
class VersionManifests:
    """What a file has of a version."""

    configurations: tuple[Object, ...]
    """The webhook configurations of gpu-admission."""
    image: str
    """The image of the Deployment; empty if the file has no Deployment of gpu-admission."""


def read_version_manifests(file: str) -> VersionManifests:
    """Read a file, or standard input if it is `-`; other objects are ignored.

    Raises:
        UnreadableInputError: The file cannot be read, or has no webhook configuration of gpu-admission, or one twice.
    """
    reader = ManifestReader()
    objects = [manifest.object for manifest in reader.manifests([file])]
    found = [each for each in objects if (each.get("kind"), name_of(each)) in CONFIGURATIONS]
    if not found:
        names = " and no ".join(f"{kind} {name}" for kind, name in CONFIGURATIONS)
        reader.problems.append(Problem(file, f"has no {names}; give the manifests of one version of gpu-admission"))
    if len({each["kind"] for each in found}) < len(found):
        reader.problems.append(Problem(file, "has a webhook configuration twice; give the manifests of one version"))
    reader.check()
    images = [
        lookup(each, IMAGE) for each in objects if (each.get("kind"), name_of(each)) == ("Deployment", DEPLOYMENT)
    ]
    return VersionManifests(tuple(found), next((image for image in images if isinstance(image, str)), ""))
