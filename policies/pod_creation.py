"""Pods as the API server has completed them before it asks a webhook, for pods that come from files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.kubernetes.defaults import with_defaults, with_limit_ranges
from policies.priorities import default_class
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object
    from policies.view import ClusterView

__all__ = ["created_pod"]


def created_pod(pod: Object, namespace: str, view: ClusterView) -> Object:
    """The pod with missing requests, the defaults of LimitRanges and the default PriorityClass.

    LimitRanges and PriorityClasses that the view does not know are left out. `priority` itself is not filled in: a
    manifest that is kept with it would be refused once the value of its class changes.

    Source: k8s.io/kubernetes pkg/kubeapiserver/options/plugins.go: LimitRanger and Priority come before webhooks.
    """
    ranges = view.list("LimitRange", namespace)
    filled, _ = with_limit_ranges(with_defaults(pod), () if ranges is UNKNOWN else ranges)
    spec = filled.get("spec")
    default = default_class(view)
    if not default or default is UNKNOWN or not isinstance(spec, dict) or spec.get("priorityClassName"):
        return filled
    return {**filled, "spec": {**spec, "priorityClassName": default}}
