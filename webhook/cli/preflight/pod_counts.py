"""One pass over all pods: which would be reviewed, and which components of NVIDIA run."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from policies.dra.cel import CelCompileError
from policies.kubernetes.objects import has_ended, namespace_of
from policies.kubernetes.paths import items_at, lookup, mappings_at
from policies.preflight.component_versions import component_of
from policies.view import UNKNOWN, Unknown
from webhook.cluster.kind_reads import Unreadable, read_list
from webhook.cluster.resources import RESOURCES
from webhook.cluster.watched_kinds import Watched
from webhook.sandbox.admission.expressions import compile_condition, value_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.kubernetes.objects import Object
    from policies.preflight.covered_pods import Coverage
    from webhook.cli.progress import Progress
    from webhook.cluster.client import APIClient

__all__ = ["conditions_hold", "count_pods"]


async def count_pods(
    client: APIClient, coverage: Coverage | None, progress: Progress
) -> Mapping[tuple[str, str], int] | Unknown:
    """Count all pods in the coverage; returns the components of NVIDIA that run, with their tags.

    Unknown if pods may not be listed in all namespaces.
    """
    images: Counter[tuple[str, str]] = Counter()

    def add(pod: Object) -> None:
        if coverage is not None:
            coverage.add(pod)
        if not has_ended(pod):
            images.update(dict.fromkeys(_components(pod), 1))

    def show(count: int) -> None:
        progress.show(f"reading pods: {count:,}")

    found = await read_list(client, Watched(RESOURCES["Pod"]), add, show=show)
    return UNKNOWN if isinstance(found, Unreadable) else images


def _components(pod: Object) -> set[tuple[str, str]]:
    images = (lookup(each, ("image",)) for each in items_at(pod, ("spec", "containers")))
    return {found for image in images if isinstance(image, str) and (found := component_of(image)) is not None}


def conditions_hold(webhook: Object, pod: Object) -> bool:
    """True if the matchConditions of a webhook hold for a new pod, or cannot be evaluated."""
    request: dict[str, Any] = {
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "namespace": namespace_of(pod),
        "userInfo": {"username": "", "groups": []},
    }
    variables: Any = value_of({"object": pod, "oldObject": None, "request": request, "namespaceObject": None})
    for condition in mappings_at(webhook, ("matchConditions",)):
        try:
            verdict, _ = compile_condition(str(condition.get("expression"))).holds(variables)
        except CelCompileError:
            continue
        if verdict is False:
            return False
    return True
