"""Tolerations for GPU nodes, which are tainted so that nothing else runs there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.kubernetes.pods import SPEC
from policies.kubernetes.tolerations import tolerates_key

if TYPE_CHECKING:
    from policies.kubernetes.pods import Pod
    from policies.patch import Editor

__all__ = ["tolerate_gpu_nodes"]

_KEY = "nvidia.com/gpu"
_EFFECT = "NoSchedule"


def tolerate_gpu_nodes(pod: Pod, edits: Editor) -> None:
    """Let a GPU pod onto nodes tainted `nvidia.com/gpu`, whatever the taint's value.

    The API server's own ExtendedResourceToleration does this for extended resources where it is enabled, and never for
    claims. Whether a node carries the taint now does not matter: the next one may.
    """
    if not tolerates_key(pod.spec.get("tolerations") or [], _KEY, _EFFECT):
        edits.extend(SPEC / "tolerations", [{"key": _KEY, "operator": "Exists", "effect": _EFFECT}])
