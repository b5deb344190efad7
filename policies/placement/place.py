"""Places a pod: restricts its nodes by its wish, and by the settings for pods without a wish.

Each review sees what the one before it wrote. To judge a pod by its own conditions, remove what `place` wrote.
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
    pod: Pod, view: ClusterView, settings: GPUAdmissionPolicy, wishes: PodWishes, edits: Editor
) -> Iterator[Finding]:
    """Add the conditions on nodes that a pod's wish means, and return findings about the wish.

    A pod that has a node already is left alone.
    """
    if pod.is_past_scheduling:
        return
    if _has_conditions(settings, wishes) or wishes.findings:
        # Most pods wish nothing, and importing what a wish needs takes longer than an offline review of theirs.
        from policies.placement.wishes.node_conditions import apply_wish

        yield from apply_wish(pod, view, settings, wishes, edits)


def own_conditions(pod: Pod, view: ClusterView, settings: GPUAdmissionPolicy, wishes: PodWishes) -> Pod:
    """The pod as before placement, without the conditions on nodes that its wish and the settings add."""
    if not _has_conditions(settings, wishes) or not (pod.spec.get("nodeSelector") or lookup(pod.spec, REQUIRED)):
        return pod
    from policies.placement.wishes.node_conditions import without_conditions

    return without_conditions(pod, view, settings, wishes)


def _has_conditions(settings: GPUAdmissionPolicy, wishes: PodWishes) -> bool:
    return bool(wishes.wish or settings.placement.avoid_shared_gpus)
