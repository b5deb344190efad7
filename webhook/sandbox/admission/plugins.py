"""Built-in admission plug-ins that change pods, before each round of mutating webhooks.

LimitRanger, ServiceAccount, Priority and DefaultTolerationSeconds, without parts that need a token, a node or a quota.
Source: k8s.io/kubernetes plugin/pkg/admission/{limitranger,serviceaccount,priority,defaulttolerationseconds}.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.kubernetes.defaults import with_limit_ranges
from policies.kubernetes.paths import lookup
from webhook.sandbox.statuses import forbidden

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.kubernetes.objects import Object
    from webhook.sandbox.attempt import Attempt, Objects

__all__ = ["with_plugins"]

_ANNOTATION = "kubernetes.io/limit-ranger"
_EVICTED_FROM = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_SECONDS_TO_STAY = 300


def with_plugins(attempt: Attempt, objects: Objects) -> Object | None:
    """The object of a write after the plug-ins; for updates of pods, only with new tolerations.

    Raises:
        Refused: The PriorityClass of a pod does not exist.
    """
    pod = attempt.object
    is_pod = (attempt.resource.kind, attempt.subresource) == ("Pod", "") and attempt.operation in ("CREATE", "UPDATE")
    if pod is None or not is_pod or not isinstance(pod.get("spec"), dict):
        return pod
    if attempt.operation == "UPDATE":
        return {**pod, "spec": {**pod["spec"], "tolerations": _tolerations(pod["spec"].get("tolerations") or [])}}
    pod = _with_limits(pod, objects.objects("LimitRange", attempt.namespace))
    priority = _priority(attempt, pod["spec"], objects)
    spec = {
        "serviceAccountName": "default",
        "preemptionPolicy": "PreemptLowerPriority",
        **pod["spec"],
        "priority": priority,
    }
    spec.setdefault("serviceAccount", spec["serviceAccountName"])
    spec["tolerations"] = _tolerations(spec.get("tolerations") or [])
    return {**pod, "spec": spec}


_SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def _priority(attempt: Attempt, spec: Object, objects: Objects) -> int:
    """The priority of a pod's class."""
    name = spec.get("priorityClassName")
    if not name:
        return 0
    found = objects.get("PriorityClass", name)
    if found is None and name not in _SYSTEM_PRIORITIES:
        raise forbidden(attempt.resource, attempt.name, f"no PriorityClass with name {name} was found")
    return int(found.get("value") or 0) if found is not None else _SYSTEM_PRIORITIES[name]


def _tolerations(given: list[Any]) -> list[Any]:
    """The tolerations of a pod, and the two defaults that keep it on an unreachable node for a while."""
    missing = [key for key in _EVICTED_FROM if not any(_tolerates(toleration, key) for toleration in given)]
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _SECONDS_TO_STAY}
        for key in missing
    ]
    return [*given, *added]


def _tolerates(toleration: dict[str, Any], key: str) -> bool:
    return (toleration.get("key") or key) == key and toleration.get("effect") in (None, "", "NoExecute")


def _with_limits(pod: Object, limit_ranges: Iterable[Object]) -> Object:
    """The pod with the defaults of the namespace's LimitRanges, and the annotation that lists them."""
    filled, notes = with_limit_ranges(pod, limit_ranges)
    if not notes:
        return pod
    annotations = lookup(pod, ("metadata", "annotations")) or {}
    annotations = {**annotations, _ANNOTATION: f"LimitRanger plugin set: {'; '.join(notes)}"}
    return {**filled, "metadata": {**pod.get("metadata", {}), "annotations": annotations}}
