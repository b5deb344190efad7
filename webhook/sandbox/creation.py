"""Creates objects (decodes, defaults, mutates, names, validates, stores); binds and evicts pods."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from policies.kubernetes.paths import lookup
from webhook.cluster.resources import Resource
from webhook.sandbox import strategies
from webhook.sandbox.cluster import Adopt
from webhook.sandbox.decoding import decode, decode_mutated
from webhook.sandbox.defaults import with_defaults
from webhook.sandbox.deletion import delete
from webhook.sandbox.kinds import CLAIMS_OF_GROUPS, CREATED, GROUPS, Kind
from webhook.sandbox.metadata import check_shape, with_identity, with_namespace, without_server_fields
from webhook.sandbox.statuses import Cause, already_exists, conflict, failure, forbidden, invalid, not_found, success
from webhook.sandbox.store import Place

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object
    from webhook.sandbox.attempt import Attempt
    from webhook.sandbox.cluster import Call, Cluster
    from webhook.sandbox.routing import Target

__all__ = ["create", "create_subresource", "seed"]

_NAMES_TRIED = 8
_OWN = ("uid", "creationTimestamp", "deletionTimestamp")
_GATED_FIELDS = {"Pod": (GROUPS, "schedulingGroup"), "PodGroup": (CLAIMS_OF_GROUPS, "resourceClaims")}
"""By kind: feature gates, and the field of the spec that needs them."""


async def create(cluster: Cluster, call: Call, kind: Kind, namespace: str, document: Any) -> Object:
    """Create an object; returns it as stored.

    Args:
        cluster: The cluster.
        call: The user and the options.
        kind: The kind of the object.
        namespace: The namespace of the path; empty for cluster-scoped objects.
        document: The object as it was sent.

    Raises:
        Refused: The object is not created.
    """
    sent = without_server_fields(with_namespace(decode(kind, check_shape(kind, document), call), namespace))
    if sent["metadata"].pop("resourceVersion", "") not in ("", "0"):
        raise failure(500, "", "resourceVersion should not be set on objects to be created")
    if kind.resource.namespaced:
        _check_namespace(cluster, kind, namespace, sent["metadata"].get("name", ""))
    attempt = _attempt(call, kind, namespace, with_defaults(kind.resource, sent))
    mutated = await cluster.admission.mutate(attempt, call.warn)
    decoded = without_server_fields(with_namespace(decode_mutated(kind, check_shape(kind, mutated)), namespace))
    ready = strategies.prepare_create(kind, _without_disabled(kind, decoded, cluster.feature_gates))
    written = await _store(cluster, call, kind, ready)
    if written["metadata"].get("ownerReferences") and not call.dry_run:
        cluster.chores.append(Adopt(Place(kind.key, (namespace, written["metadata"]["name"]))))
    return written


async def _store(cluster: Cluster, call: Call, kind: Kind, ready: Object) -> Object:
    """Store an object under its name, or under the first free generated name."""
    generated = not ready["metadata"].get("name")
    for _ in range(_NAMES_TRIED):
        # Defaults once more, as some follow from the name.
        named = with_defaults(kind.resource, with_identity(ready, cluster.now(), cluster.random))
        strategies.check(kind, named)
        namespace, name = named["metadata"].get("namespace", ""), named["metadata"]["name"]
        await cluster.admission.validate(_attempt(call, kind, namespace, named), call.warn)
        found = cluster.store.get(kind, namespace, name)
        if found is None:
            return named if call.dry_run else cluster.commit(kind, named)
        if not generated:
            break
    ending = found is not None and "deletionTimestamp" in found.decode(kind)["metadata"]
    raise already_exists(kind.resource, name, ending=ending)


def _attempt(call: Call, kind: Kind, namespace: str, document: Object) -> Attempt:
    return call.attempt("CREATE", kind.resource, (namespace, document["metadata"].get("name", "")), document, None)


def _check_namespace(cluster: Cluster, kind: Kind, namespace: str, name: str) -> None:
    """Check that a namespace exists and is not terminating. Source: the NamespaceLifecycle plug-in."""
    namespaces = cluster.kinds.at("", "v1", "namespaces")
    found = cluster.get("Namespace", namespace)
    if found is None and namespaces is not None:
        raise not_found(namespaces.resource, namespace)
    if found is not None and "deletionTimestamp" in found["metadata"]:
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {namespace} is being terminated",
            "field": "metadata.namespace",
        }
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        raise forbidden(kind.resource, name, why, [cause])


def seed(cluster: Cluster, kind: Kind, document: Object) -> Object:
    """Store an object without admission, with its status, and with its UID if it has one.

    Raises:
        Refused: It is not valid, or an object of this name exists.
    """
    given = with_defaults(kind.resource, check_shape(kind, document))
    namespace = given["metadata"].get("namespace") or "default" if kind.resource.namespaced else ""
    new = with_identity(with_namespace(given, namespace), cluster.now(), cluster.random)
    prepared = strategies.prepare_create(kind, new)
    own = {key: given["metadata"][key] for key in _OWN if given["metadata"].get(key)}
    status = {"status": given["status"]} if "status" in given else {}
    seeded = {**prepared, "metadata": {**prepared["metadata"], **own}, **status}
    strategies.check(kind, seeded)
    name = seeded["metadata"]["name"]
    if cluster.store.get(kind, namespace, name) is not None:
        raise already_exists(kind.resource, name)
    return cluster.commit(kind, seeded)


def _without_disabled(kind: Kind, document: Object, feature_gates: frozenset[str]) -> Object:
    """The object without fields of disabled gates, as dropDisabledFields of the API server does."""
    needs, field = _GATED_FIELDS.get(kind.resource.kind, (frozenset(), ""))
    spec = document.get("spec")
    if needs <= feature_gates or not isinstance(spec, dict) or field not in spec:
        return document
    return {**document, "spec": {name: value for name, value in spec.items() if name != field}}


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
