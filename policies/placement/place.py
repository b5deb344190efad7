"""Places a pod: restricts its nodes by its wish or the settings, and adds tolerations for GPU nodes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from policies.kubernetes.names import DRA_LABEL, shown
from policies.kubernetes.nodes import REQUIRED, tolerates_key, tolerates_taint
from policies.kubernetes.objects import FieldPath, lookup, name_of
from policies.kubernetes.pods import SPEC
from policies.nvidia.identifiers import GPU_RESOURCE
from policies.rules.checks import Problem, RulesOn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.kubernetes.pods import Pod
    from policies.kubernetes.view import ClusterView
    from policies.placement.pod_wishes import PodWishes
    from policies.rules.decision import Finding
    from policies.rules.patch import Editor
    from policies.rules.request import Request
    from policies.rules.settings import GPUAdmissionPolicy, TaintTolerated


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
        from policies.placement.node_conditions import apply_wish

        yield from apply_wish(pod, view, settings, wishes, edits)


def own_conditions(pod: Pod, view: ClusterView, settings: GPUAdmissionPolicy, wishes: PodWishes) -> Pod:
    """The pod as before placement, without the conditions on nodes that its wish and the settings add."""
    if not _has_conditions(settings, wishes) or not (pod.spec.get("nodeSelector") or lookup(pod.spec, REQUIRED)):
        return pod
    from policies.placement.node_conditions import without_conditions

    return without_conditions(pod, view, settings, wishes)


def _has_conditions(settings: GPUAdmissionPolicy, wishes: PodWishes) -> bool:
    return bool(wishes.wish or settings.placement.avoid_shared_gpus)


TOLERATIONS = SPEC / "tolerations"
_GPU_NODES = {"key": GPU_RESOURCE, "operator": "Exists", "effect": "NoSchedule"}
_OPERATORS = (None, "", "Exists", "Equal")
"""Supported operators; `Gt` and `Lt` depend on a feature gate of the API server."""


def tolerate_gpu_nodes(pod: Pod, edits: Editor, namespace: str, settings: GPUAdmissionPolicy) -> None:
    """Let a GPU pod that is converted tolerate GPU nodes."""
    edits.extend(TOLERATIONS, missing_tolerations(pod, namespace, settings, is_opted_in=True))


def is_opted_in(namespace: str, view: ClusterView, settings: GPUAdmissionPolicy) -> bool:
    """True if GPU pods of a namespace tolerate the taint `nvidia.com/gpu` without a wish."""
    if settings.placement.tolerate_gpu_nodes == "Always":
        return True
    return bool(lookup(view.get("Namespace", namespace), ("metadata", "labels", DRA_LABEL)) == "enabled")


def missing_tolerations(
    pod: Pod, namespace: str, settings: GPUAdmissionPolicy, *, is_opted_in: bool
) -> list[dict[str, str]]:
    """The tolerations that a GPU pod lacks: of `nvidia.com/gpu`, and of the taints of the settings.

    The API server's own ExtendedResourceToleration adds them for extended resources where it is enabled, never for
    claims, and with the resource's name for the key, so that a pod that requests `nvidia.com/mig-1g.5gb` still does not
    tolerate `nvidia.com/gpu`. Taints of present nodes do not matter, because a later node may have one. Tolerations that
    the pod has already are neither repeated nor changed.

    Source: k8s.io/kubernetes plugin/pkg/admission/extendedresourcetoleration.
    """
    existing = [each for each in pod.spec.get("tolerations") or [] if each.get("operator") in _OPERATORS]
    missing: list[dict[str, str]] = []
    for toleration in _own_tolerations(namespace, settings, is_opted_in=is_opted_in):
        tolerated = [*existing, *missing]
        if not (
            tolerates_taint(tolerated, toleration)
            if "value" in toleration
            else tolerates_key(tolerated, toleration["key"], toleration["effect"])
        ):
            missing.append(toleration)
    return missing


def keep_tolerations(pod: Pod, stored: Pod, edits: Editor, namespace: str, settings: GPUAdmissionPolicy) -> None:
    """Restore our tolerations of a stored pod that was converted in an update that lacks them.

    The pod's own tolerations are left to the API server, which refuses to remove one.
    """
    there, before = pod.spec.get("tolerations") or [], stored.spec.get("tolerations") or []
    own = _own_tolerations(namespace, settings, is_opted_in=True)
    sent, ours = set(map(_canonical, there)), set(map(_canonical, own))
    if not any(_canonical(each) in ours - sent for each in before):
        return
    kept = [each for each in before if _canonical(each) in sent | ours]
    stored_ones = set(map(_canonical, kept))
    whole = [*kept, *(each for each in there if _canonical(each) not in stored_ones)]
    if whole[: len(there)] == there:
        edits.extend(TOLERATIONS, whole[len(there) :])
    else:
        edits.replace(TOLERATIONS, whole)


def _own_tolerations(namespace: str, settings: GPUAdmissionPolicy, *, is_opted_in: bool) -> list[dict[str, str]]:
    taints = (each for each in settings.placement.tolerations if each.holds_in(namespace))
    return [*([_GPU_NODES] if is_opted_in else []), *map(_toleration, taints)]


def _canonical(toleration: dict[str, Any]) -> str:
    """A toleration as text, for lookups."""
    return json.dumps(toleration, sort_keys=True)


def _toleration(taint: TaintTolerated) -> dict[str, str]:
    if not taint.value:
        return {"key": taint.key, "operator": "Exists", "effect": taint.effect}
    return {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect}


_HIGHEST = 1_000_000_000
_POLICIES = ("PreemptLowerPriority", "Never")


def validate_priority_class(request: Request) -> Iterator[Finding]:
    """Findings on a PriorityClass that is created or updated."""
    if request.operation != "DELETE" and isinstance(request.object, dict):
        yield from accepted_fields(request)


@RulesOn("PriorityClass", cluster_scoped=True).rule(
    "GA420",
    "A PriorityClass must have a value and a preemption policy that Kubernetes accepts",
    remedy="correct the field",
    source="k8s.io/kubernetes pkg/apis/scheduling/validation/validation.go ValidatePriorityClass",
)
def accepted_fields(request: Request) -> Iterator[Problem]:
    """The API server refuses other values, and pods that name the class are then refused too.

    Classes whose names begin with system- belong to Kubernetes and are not judged.
    """
    document = request.object or {}
    if name_of(document).startswith("system-"):
        return
    value, policy = document.get("value", 0), document.get("preemptionPolicy")
    if isinstance(value, bool) or not isinstance(value, int):
        yield Problem(FieldPath(["value"]), f"Invalid value: {shown(value)}: must be an integer")
    elif value > _HIGHEST:
        yield Problem(FieldPath(["value"]), f"maximum allowed value of a user defined priority is {_HIGHEST}")
    if policy is not None and policy not in _POLICIES:
        supported = ", ".join(f'"{each}"' for each in _POLICIES)
        text = f"Unsupported value: {shown(policy)}: supported values: {supported}"
        yield Problem(FieldPath(["preemptionPolicy"]), text)
