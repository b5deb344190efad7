"""Tolerations for GPU nodes, which are tainted so that nothing else runs there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from policies.kubernetes.pods import SPEC
from policies.kubernetes.taints import tolerates_key, tolerates_taint
from policies.nvidia.identifiers import GPU_RESOURCE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.kubernetes.pods import Pod
    from policies.patch import Editor
    from policies.settings import GPUAdmissionPolicy, TaintTolerated

__all__ = ["TOLERATIONS", "keep_tolerations", "missing_tolerations", "tolerate_gpu_nodes"]

TOLERATIONS = SPEC / "tolerations"
_GPU_NODES = {"key": GPU_RESOURCE, "operator": "Exists", "effect": "NoSchedule"}
_OPERATORS = (None, "", "Exists", "Equal")
"""Supported operators; `Gt` and `Lt` depend on a feature gate of the API server."""


def tolerate_gpu_nodes(pod: Pod, edits: Editor, namespace: str, settings: GPUAdmissionPolicy) -> None:
    """Let a GPU pod tolerate GPU nodes."""
    edits.extend(TOLERATIONS, missing_tolerations(pod, namespace, settings))


def missing_tolerations(pod: Pod, namespace: str, settings: GPUAdmissionPolicy) -> list[dict[str, str]]:
    """The tolerations that a GPU pod lacks: of `nvidia.com/gpu`, and of the taints of the settings.

    The API server's own ExtendedResourceToleration adds them for extended resources where it is enabled, never for
    claims, and with the resource's name for the key, so that a pod that requests `nvidia.com/mig-1g.5gb` still does not
    tolerate `nvidia.com/gpu`. Taints of present nodes do not matter, because a later node may have one. Tolerations that
    the pod has already are neither repeated nor changed.

    Source: k8s.io/kubernetes plugin/pkg/admission/extendedresourcetoleration.
    """
    existing = [each for each in pod.spec.get("tolerations") or [] if each.get("operator") in _OPERATORS]
    return _uncovered_tolerations(_own_tolerations(namespace, settings), existing)


def keep_tolerations(pod: Pod, stored: Pod, edits: Editor, namespace: str, settings: GPUAdmissionPolicy) -> None:
    """Restore our tolerations of a stored pod in an update that lacks them.

    The pod's own tolerations are left to the API server, which refuses to remove one.
    """
    there, before = pod.spec.get("tolerations") or [], stored.spec.get("tolerations") or []
    sent, ours = set(map(_canonical, there)), set(map(_canonical, _own_tolerations(namespace, settings)))
    if not any(_canonical(each) in ours - sent for each in before):
        return
    kept = [each for each in before if _canonical(each) in sent | ours]
    stored_ones = set(map(_canonical, kept))
    whole = [*kept, *(each for each in there if _canonical(each) not in stored_ones)]
    if whole[: len(there)] == there:
        edits.extend(TOLERATIONS, whole[len(there) :])
    else:
        edits.replace(TOLERATIONS, whole)


def _own_tolerations(namespace: str, settings: GPUAdmissionPolicy) -> list[dict[str, str]]:
    taints = (each for each in settings.placement.tolerations if each.holds_in(namespace))
    return [_GPU_NODES, *map(_toleration, taints)]


def _canonical(toleration: dict[str, Any]) -> str:
    """A toleration as text, for lookups."""
    return json.dumps(toleration, sort_keys=True)


def _toleration(taint: TaintTolerated) -> dict[str, str]:
    if not taint.value:
        return {"key": taint.key, "operator": "Exists", "effect": taint.effect}
    return {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect}


def _uncovered_tolerations(wanted: Iterable[dict[str, str]], existing: list[dict[str, Any]]) -> list[dict[str, str]]:
    """The tolerations, in order, that the pod's own and the preceding ones do not include."""
    missing: list[dict[str, str]] = []
    for toleration in wanted:
        tolerated = [*existing, *missing]
        if not (
            tolerates_taint(tolerated, toleration)
            if "value" in toleration
            else tolerates_key(tolerated, toleration["key"], toleration["effect"])
        ):
            missing.append(toleration)
    return missing
