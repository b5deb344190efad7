"""Places a pod: where it may run by its wish, and by what the settings want of pods that wish nothing.

Each review sees what the one before it wrote. So whoever judges a pod by its own conditions takes away what `place` wrote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.kubernetes.nodes import REQUIRED
from policies.kubernetes.paths import lookup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.decision import Finding
    from policies.kubernetes.pods import Pod
    from policies.patch import Editor
    from policies.placement.wishes.pod_wishes import PodWishes
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["own_conditions", "place"]


def place(
    pod: Pod, namespace: str, view: ClusterView, settings: GPUAdmissionPolicy, wishes: PodWishes, edits: Editor
) -> Iterator[Finding]:
    """Give a pod the conditions on nodes that its wish means, and tell what there is to say of the wish.

    A pod that has a node already is left alone.
    """
    if pod.past_scheduling:
        return
    if _has_conditions(settings, wishes) or wishes.findings:
        # Most pods wish nothing, and importing what a wish needs takes longer than an offline review of theirs.
        from policies.placement.wishes.node_conditions import apply_wish  # noqa: PLC0415

        yield from apply_wish(pod, namespace, view, settings, wishes, edits)


def own_conditions(pod: Pod, view: ClusterView, settings: GPUAdmissionPolicy, wishes: PodWishes) -> Pod:
    """The pod as it was before it was placed: without the conditions on nodes that its wish and the settings add."""
    if not _has_conditions(settings, wishes) or not (pod.spec.get("nodeSelector") or lookup(pod.spec, REQUIRED)):
        return pod
    from policies.placement.wishes.node_conditions import without_conditions  # noqa: PLC0415 - as above

    return without_conditions(pod, view, settings, wishes)


def _has_conditions(settings: GPUAdmissionPolicy, wishes: PodWishes) -> bool:
    return bool(wishes.wish or settings.placement.avoid_shared_gpus)
