"""Priorities of pods: what the API server fills in from PriorityClasses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import lookup
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object
    from policies.view import ClusterView, Unknown

__all__ = ["default_class", "lowest_priority", "pod_priority", "preempts"]

_NEVER = "Never"
_BUILT_IN = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""The classes that every cluster has. Source: k8s.io/kubernetes pkg/apis/scheduling/helpers.go."""


def pod_priority(spec: Any, view: ClusterView) -> int | Unknown:
    """The priority of a pod; if it is not filled in yet, that of its class or of the default class."""
    priority = lookup(spec, ("priority",))
    if isinstance(priority, int):
        return priority
    name = _class_of(spec, view)
    if name is UNKNOWN:
        return UNKNOWN
    if name in _BUILT_IN:
        return _BUILT_IN[name]
    return _value(view.get("PriorityClass", name)) if name else 0


def lowest_priority(view: ClusterView) -> int | Unknown:
    """The lowest priority that a pod can get now; 0 is that of pods without a class."""
    classes = view.list("PriorityClass")
    return UNKNOWN if classes is UNKNOWN else min([0, *map(_number, classes)])


def preempts(spec: Any, view: ClusterView) -> bool:
    """False if the `preemptionPolicy` of a pod with this spec, or of its class, is `Never`."""
    policy = lookup(spec, ("preemptionPolicy",))
    if not policy:
        name = _class_of(spec, view)
        policy = lookup(view.get("PriorityClass", name), ("preemptionPolicy",)) if isinstance(name, str) else None
    return bool(policy != _NEVER)


def default_class(view: ClusterView) -> str | Unknown:
    """The name of the default PriorityClass; the one with the lowest value if there are several.

    Empty if no class is the default.

    Source: k8s.io/kubernetes plugin/pkg/admission/priority getDefaultPriorityClass.
    """
    classes = view.list("PriorityClass")
    if classes is UNKNOWN:
        return UNKNOWN
    marked = [each for each in classes if each.get("globalDefault") is True]
    return name_of(min(marked, key=_number)) if marked else ""


def _class_of(spec: Any, view: ClusterView) -> str | Unknown:
    name = lookup(spec, ("priorityClassName",))
    return name if isinstance(name, str) and name else default_class(view)


def _value(priority_class: Object | Unknown | None) -> int | Unknown:
    return _number(priority_class) if isinstance(priority_class, dict) else UNKNOWN


def _number(priority_class: Object) -> int:
    value = priority_class.get("value")
    return value if isinstance(value, int) else 0
