"""Places a pod: where it may run by its wish, and by what the settings want of pods that wish nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.decision import Finding
    from policies.kubernetes.pods import Pod
    from policies.patch import Editor
    from policies.placement.wishes.wished import Wished
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["place"]


def place(
    pod: Pod, namespace: str, view: ClusterView, settings: GPUAdmissionPolicy, wishes: Wished, edits: Editor
) -> Iterator[Finding]:
    """Give a pod the conditions on nodes that its wish means, and tell what there is to say of the wish.

    A pod that has a node already is left alone.
    """
    if pod.past_scheduling:
        return
    if wishes.wish or wishes.findings or settings.placement.avoid_shared_gpus:
        # Most pods wish nothing, and importing what a wish needs takes longer than an offline review of theirs.
        from policies.placement.wishes.kept import keep_wish  # noqa: PLC0415

        yield from keep_wish(pod, namespace, view, settings, wishes, edits)
