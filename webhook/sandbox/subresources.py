"""Subresources of pods that are created: binding and eviction."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from policies.kubernetes.paths import lookup
from webhook.cluster.resources import Resource
from webhook.sandbox.deletion import delete
from webhook.sandbox.kinds import Kind
from webhook.sandbox.metadata import check_shape, with_namespace
from webhook.sandbox.statuses import Cause, conflict, invalid, success

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object
    from webhook.sandbox.cluster import Call, Cluster
    from webhook.sandbox.routing import Target

__all__ = ["CREATED", "create_subresource"]

CREATED = {
    "binding": Kind(Resource("", "v1", "pods", "Binding", namespaced=True)),
    "eviction": Kind(Resource("policy", "v1", "pods", "Eviction", namespaced=True)),
}
"""The kinds of these subresources."""


async def create_subresource(cluster: Cluster, call: Call, target: Target, document: Any) -> Object:
    """Bind or evict a pod; returns the Status of success.

    Raises:
        Refused: The pod is not bound or evicted.
    """
    part = with_namespace(check_shape(CREATED[target.subresource], document), target.namespace)
    place = target.namespace, target.name
    cluster.entry_of(target.kind, *place)
    attempt = call.attempt("CREATE", target.resource, place, part, None, target.subresource)
    await cluster.admission.mutate(attempt, call.warn)
    await cluster.admission.validate(attempt, call.warn)
    if target.subresource == "binding":
        _bind(cluster, call, target, part)
    else:
        given = part.get("deleteOptions")
        options = {**(given if isinstance(given, dict) else {}), "kind": "DeleteOptions", "apiVersion": "v1"}
        await delete(cluster, replace(call, options=options), target.kind, place)
    return {**success(target.resource, target.name), "code": 201, "details": None}


def _bind(cluster: Cluster, call: Call, target: Target, binding: Object) -> None:
    node = lookup(binding, ("target", "name"))
    if not isinstance(node, str) or not node:
        raise invalid("Binding", "", target.name, [Cause("target.name", "Required", "")])
    pod = cluster.entry_of(target.kind, target.namespace, target.name).decode(target.kind)
    why = ""
    if bound := lookup(pod, ("spec", "nodeName")):
        why = f'pod {target.name} is already assigned to node "{bound}"'
    elif lookup(pod, ("spec", "schedulingGates")):
        why = f"pod {target.name} has non-empty .spec.schedulingGates"
    if why:
        raise conflict(Resource("", "v1", "pods/binding", "Binding", namespaced=True), target.name, why)
    if call.dry_run:
        return
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": cluster.now()}
    status = pod.get("status") or {}
    others = [condition for condition in status.get("conditions") or () if condition.get("type") != "PodScheduled"]
    pod["spec"] = {**(pod.get("spec") or {}), "nodeName": node}
    cluster.commit(target.kind, {**pod, "status": {**status, "conditions": [*others, scheduled]}})
