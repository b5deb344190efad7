"""The manifests of a preflight: objects to apply, without those that only tests of Helm create."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.entries import CONFIGURATIONS
from policies.kubernetes.objects import generate_name_of, name_of
from policies.kubernetes.paths import lookup
from webhook.cli.manifest_reader import ManifestReader
from webhook.cli.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.kubernetes.objects import Object

__all__ = ["read_manifests"]

_HOOK = ("metadata", "annotations", "helm.sh/hook")


def read_manifests(files: Sequence[str]) -> list[Object]:
    """The objects of files; `-` is standard input.

    Raises:
        UnreadableInputError: A file cannot be read, or none has a webhook configuration of gpu-admission.
    """
    reader = ManifestReader()
    objects = [each.object for each in reader.manifests(files)]
    kept = [each for each in objects if "test" not in str(lookup(each, _HOOK) or "").split(",")]
    if not any((each.get("kind"), name_of(each)) in CONFIGURATIONS for each in kept):
        names = " and no ".join(f"{kind} {name}" for kind, name in CONFIGURATIONS)
        reader.problems.append(Problem(", ".join(files), f"no {names}; give all manifests of gpu-admission"))
    for each in kept:
        if not name_of(each):
            what = f"{each.get('kind')} {generate_name_of(each)}".strip()
            reader.problems.append(Problem(", ".join(files), f"{what} has no name, so it cannot be applied"))
    reader.check()
    return kept
