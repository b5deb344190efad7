"""Parts of pods that are created: the binding to a node, and the eviction from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.kubernetes.paths import lookup
from webhook.cluster.resources import Resource
from webhook.sandbox.attempt import Attempt
from webhook.sandbox.cluster import Call
from webhook.sandbox.deletion import delete
from webhook.sandbox.kinds import Kind
from webhook.sandbox.metadata import check_shape, placed
from webhook.sandbox.statuses import Cause, conflict, invalid, not_found, success

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object
    from webhook.sandbox.cluster import Cluster
    from webhook.sandbox.routing import Target

__all__ = ["CREATED", "create_part"]

CREATED = {
    "binding": Kind(Resource("", "v1", "pods", "Binding", namespaced=True)),
    "eviction": Kind(Resource("policy", "v1", "pods", "Eviction", namespaced=True)),
}
"""The kinds that are created as parts of pods, by subresource."""


async def create_part(cluster: Cluster, call: Call, target: Target, document: Any) -> Object:
    """Bind or evict a pod; returns the Status that says it was done.

    Raises:
        Refused: it was not done.
    """
    part = placed(CREATED[target.subresource], check_shape(CREATED[target.subresource], document), target.namespace)
    _find(cluster, target)
    attempt = Attempt(
        "CREATE",
        target.resource,
        target.subresource,
        target.namespace,
        target.name,
        part,
        None,
        call.user,
        call.dry_run,
        call.options,
    )
    await cluster.admission.mutate(attempt, call.warn)
    await cluster.admission.validate(attempt, call.warn)
    if target.subresource == "binding":
        _bind(cluster, call, target, part)
    else:
        asked = part.get("deleteOptions")
        options = {**(asked if isinstance(asked, dict) else {}), "kind": "DeleteOptions", "apiVersion": "v1"}
        evict = Call(call.user, options, call.warn, call.dry_run)
        await delete(cluster, evict, target.kind, (target.namespace, target.name))
    return {**success(target.resource, target.name), "code": 201, "details": None}


def _find(cluster: Cluster, target: Target) -> Object:
    entry = cluster.store.get(target.kind, target.namespace, target.name)
    if entry is None:
        raise not_found(target.resource, target.name)
    return entry.decode(target.kind)


def _bind(cluster: Cluster, call: Call, target: Target, binding: Object) -> None:
    node = lookup(binding, ("target", "name"))
    if not isinstance(node, str) or not node:
        raise invalid("Binding", "", target.name, [Cause("target.name", "Required", "")])
    pod = _find(cluster, target)
    bound = lookup(pod, ("spec", "nodeName"))
    if bound:
        why = f'pod {target.name} is already assigned to node "{bound}"'
        raise conflict(Resource("", "v1", "pods/binding", "Binding", namespaced=True), target.name, why)
    if lookup(pod, ("spec", "schedulingGates")):
        why = f"pod {target.name} has non-empty .spec.schedulingGates"
        raise conflict(Resource("", "v1", "pods/binding", "Binding", namespaced=True), target.name, why)
    if call.dry_run:
        return
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": cluster.now()}
    status = pod.get("status") or {}
    others = [condition for condition in status.get("conditions") or () if condition.get("type") != "PodScheduled"]
    pod["spec"] = {**(pod.get("spec") or {}), "nodeName": node}
    cluster.commit(target.kind, {**pod, "status": {**status, "conditions": [*others, scheduled]}})
