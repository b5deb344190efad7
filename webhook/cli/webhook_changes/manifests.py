"""The webhook configurations in the manifests of a version, and the image of its Deployment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.admission.entries import CONFIGURATIONS
from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import mappings_at
from webhook.cli.manifest_reader import ManifestReader
from webhook.cli.problems import Problem
from webhook.replica.config import DEPLOYMENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.kubernetes.objects import Object

__all__ = ["VersionManifests", "image_of", "read_version_manifests"]


@dataclass(frozen=True, slots=True)
class VersionManifests:
    """What a file has of a version."""

    configurations: tuple[Object, ...]
    """Both webhook configurations of gpu-admission."""
    image: str
    """The image that runs gpu-admission; empty if the file has no Deployment of it."""


def read_version_manifests(file: str) -> VersionManifests:
    """Read a file, or standard input if it is `-`; other objects are ignored.

    Raises:
        UnreadableInputError: The file cannot be read, or does not have each webhook configuration of gpu-admission once, with
            webhooks.
    """
    reader = ManifestReader()
    objects = [manifest.object for manifest in reader.manifests([file])]
    found = [each for each in objects if (each.get("kind"), name_of(each)) in CONFIGURATIONS]
    reader.problems += [Problem(file, text) for text in _problems(found)]
    reader.check()
    deployments = [each for each in objects if (each.get("kind"), name_of(each)) == ("Deployment", DEPLOYMENT)]
    return VersionManifests(tuple(found), next(filter(None, map(image_of, deployments)), ""))


def image_of(deployment: Object) -> str:
    """The image of the container gpu-admission of a Deployment; empty if it has none.

    An overlay may put other containers before it.
    """
    containers = mappings_at(deployment, ("spec", "template", "spec", "containers"))
    images = (each.get("image") for each in containers if each.get("name") == DEPLOYMENT)
    return next((image for image in images if isinstance(image, str)), "")


def _problems(found: list[Object]) -> Iterator[str]:
    """Why configurations cannot be applied; half of a version leaves webhooks that nothing answers."""
    kinds = [each["kind"] for each in found]
    if missing := [f"{kind} {name}" for kind, name in CONFIGURATIONS if kind not in kinds]:
        yield f"has no {' and no '.join(missing)}; give the manifests of one version of gpu-admission"
    if len({*kinds}) < len(kinds):
        yield "has a webhook configuration twice; give the manifests of one version"
    for each in found:
        webhooks = each.get("webhooks")
        if not isinstance(webhooks, list) or not webhooks or not all(isinstance(webhook, dict) for webhook in webhooks):
            yield (
                f"{each['kind']} {name_of(each)}: webhooks: must be a list of at least one webhook, because applying it would "
                "delete those that are installed; to delete them, use `gpu-admission delete-webhooks`"
            )
