"""The manifests of a preflight: the objects that would be applied, also those that a chart hides."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from policies.admission.entries import CONFIGURATIONS
from policies.kubernetes.objects import generate_name_of, name_of
from policies.kubernetes.paths import lookup
from webhook.cli.manifest_reader import ManifestReader
from webhook.cli.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from policies.kubernetes.objects import Object

__all__ = ["read_manifests"]

_HOOK = ("metadata", "annotations", "helm.sh/hook")
_APPLYING_HOOKS = {"pre-install", "post-install", "pre-upgrade", "post-upgrade", "crd-install"}
_WEBHOOKS = ("data", "webhooks.yaml")
"""Where the chart keeps the webhook configurations, which a Job applies after the service."""


def read_manifests(files: Sequence[str]) -> list[Object]:
    """The objects of files; `-` is standard input.

    Raises:
        UnreadableInputError: A file cannot be read, or none has a webhook configuration of gpu-admission.
    """
    reader = ManifestReader()
    objects = [each.object for each in reader.manifests(files)]
    place = ", ".join(files)
    kept = [each for each in objects if _is_applied(each)]
    try:
        kept += _hidden_webhooks(kept)
    except yaml.YAMLError as error:
        reader.problems.append(Problem(place, f"invalid YAML in webhooks.yaml of a ConfigMap: {error}"))
    if not any((each.get("kind"), name_of(each)) in CONFIGURATIONS for each in kept):
        names = " and no ".join(f"{kind} {name}" for kind, name in CONFIGURATIONS)
        reader.problems.append(Problem(place, f"no {names}; give all manifests of gpu-admission"))
    for each in kept:
        if not name_of(each):
            what = f"{each.get('kind')} {generate_name_of(each)}".strip()
            reader.problems.append(Problem(place, f"{what} has no name, so it cannot be applied"))
    reader.check()
    return kept


def _is_applied(document: Object) -> bool:
    """True unless the object is a hook of Helm that runs neither at an installation nor at an upgrade."""
    hooks = {each.strip() for each in str(lookup(document, _HOOK) or "").split(",")} - {""}
    return not hooks or not hooks.isdisjoint(_APPLYING_HOOKS)


def _hidden_webhooks(documents: Iterable[Object]) -> Iterator[Object]:
    """The webhook configurations in the ConfigMap of the chart."""
    for document in documents:
        text = lookup(document, _WEBHOOKS) if document.get("kind") == "ConfigMap" else None
        for found in yaml.safe_load_all(text) if isinstance(text, str) else ():
            if isinstance(found, dict) and (found.get("kind"), name_of(found)) in CONFIGURATIONS:
                yield found
