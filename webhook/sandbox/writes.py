"""Creates objects (decodes, defaults, mutates, names, validates, stores); binds and evicts pods."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from policies.kubernetes.objects import lookup
from webhook.cluster.resources import Resource
from webhook.sandbox import metadata
from webhook.sandbox.defaults import decode, decode_mutated, with_defaults
from webhook.sandbox.deletion import delete, end_if_final
from webhook.sandbox.kinds import CLAIMS_OF_GROUPS, CREATED, GROUPS, Kind
from webhook.sandbox.metadata import check_shape, with_identity, with_namespace, without_server_fields
from webhook.sandbox.patches import BadPatch, PatchFailed, apply_json_patch, apply_merge_patch, apply_strategic_patch
from webhook.sandbox.statuses import (
    Cause,
    already_exists,
    bad_request,
    conflict,
    failure,
    forbidden,
    invalid,
    not_found,
    patch_rejected,
    success,
)
from webhook.sandbox.store import Adopt, Place

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.kubernetes.objects import Object
    from webhook.sandbox.kinds import Target
    from webhook.sandbox.statuses import Attempt
    from webhook.sandbox.store import Call, Cluster


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
    ready = metadata.prepare_create(kind, _without_disabled(kind, decoded, cluster.feature_gates))
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
        metadata.check(kind, named)
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
    prepared = metadata.prepare_create(kind, new)
    own = {key: given["metadata"][key] for key in _OWN if given["metadata"].get(key)}
    status = {"status": given["status"]} if "status" in given else {}
    seeded = {**prepared, "metadata": {**prepared["metadata"], **own}, **status}
    metadata.check(kind, seeded)
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


_TRIES = 5
"""The number of times that a change without a resourceVersion is applied again after a concurrent write."""


async def update(cluster: Cluster, call: Call, target: Target, change: Callable[[Object], Any]) -> Object:
    """Change an object; returns it as stored. It is validated even if nothing changes.

    Source: k8s.io/apiserver pkg/registry/generic/registry/store.go Update, pkg/storage/etcd3/store.go GuaranteedUpdate.

    Args:
        cluster: The cluster.
        call: The user and the options.
        target: The object, and the subresource.
        change: Returns the new document for the old one, without changing it in place. It is called again after a
            concurrent write, as in the API server.

    Raises:
        Refused: The object is not changed.
    """
    kind = target.kind
    for _ in range(_TRIES):
        entry = cluster.entry_of(kind, target.namespace, target.name)
        old = entry.decode(kind)
        new = await _prepare_update(cluster, call, target, old, change(old))
        metadata.check_update(kind, old, new, whole=not target.subresource)
        await cluster.admission.validate(_update_attempt(call, target, old, new), call.warn)
        if call.dry_run or new == old:
            return new
        if cluster.store.get(kind, *entry.name) is entry:
            written = cluster.commit(kind, new)
            if "deletionTimestamp" in new["metadata"]:
                # The deletion may have waited for the last finalizer.
                end_if_final(cluster, kind, entry.name)
            return written
    raise conflict(kind.resource, target.name)


async def _prepare_update(cluster: Cluster, call: Call, target: Target, old: Object, document: Any) -> Object:
    """The object to be stored."""
    kind = target.kind
    sent = with_namespace(decode(kind, check_shape(kind, document), call), target.namespace)
    check_name(target, sent)
    _check_uid(target, old, sent)
    attempt = _update_attempt(call, target, old, with_defaults(kind.resource, sent))
    mutated = await cluster.admission.mutate(attempt, call.warn)
    new = with_namespace(decode_mutated(kind, check_shape(kind, mutated)), target.namespace)
    check_name(target, new)
    version = old["metadata"]["resourceVersion"]
    if not sent["metadata"].get("resourceVersion") and not kind.unconditional:
        why = Cause("metadata.resourceVersion", "Invalid", "0: must be specified for an update")
        # The API server names the resource here, not the kind as everywhere else.
        raise invalid(kind.resource.plural, kind.resource.group, target.name, [why])
    if sent["metadata"].get("resourceVersion") not in (None, "", "0", version):
        raise conflict(kind.resource, target.name)
    new = {**new, "metadata": {**new["metadata"], "resourceVersion": version}}
    return _WRITES.get(target.subresource, metadata.prepare_update)(kind, old, new)


def _ephemeral_containers(kind: Kind, old: Object, new: Object) -> Object:
    containers = (new.get("spec") or {}).get("ephemeralContainers")
    spec = {key: value for key, value in old["spec"].items() if key != "ephemeralContainers"}
    return {**old, "spec": {**spec, "ephemeralContainers": containers} if containers else spec}


_WRITES: dict[str, Callable[[Kind, Object, Object], Object]] = {
    "status": metadata.prepare_status_update,
    "ephemeralcontainers": _ephemeral_containers,
    # A write to `/finalize` of a namespace may change labels and annotations too.
    "finalize": lambda kind, old, new: {**metadata.prepare_update(kind, old, new), "spec": new.get("spec") or {}},
}


def check_name(target: Target, document: Object) -> None:
    """Check that an object has the name in its path.

    Raises:
        Refused: It has another name.
    """
    name = document["metadata"].get("name", "")
    if not name:
        raise bad_request(
            f"the name of the object ({target.name} based on URL) was undeterminable: name must be provided"
        )
    if name != target.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({target.name})")


def _check_uid(target: Target, old: Object, sent: Object) -> None:
    uid, found = sent["metadata"].get("uid") or "", old["metadata"]["uid"]
    if uid not in ("", found):
        resource = target.resource
        key = "/".join(part for part in ("/registry", resource.plural, target.namespace, target.name) if part)
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {found}"
        raise conflict(
            resource,
            target.name,
            f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {why}",
        )


def _update_attempt(call: Call, target: Target, old: Object, new: Object) -> Attempt:
    return call.attempt("UPDATE", target.resource, (target.namespace, target.name), new, old, target.subresource)


JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
_MOST_OPERATIONS = 10_000
"""Source: k8s.io/apiserver pkg/endpoints/handlers/patch.go maxJSONPatchOperations."""


def change_of(content_type: str, patch: Any) -> Callable[[Object], Any]:
    """The function that patches an object.

    Raises:
        Refused: The body is not a patch. The function raises it if the patch does not apply.
    """
    merges = {MERGE_PATCH: apply_merge_patch, STRATEGIC_PATCH: apply_strategic_patch}
    if content_type in merges and not isinstance(patch, dict):
        raise bad_request("error decoding patch: a merge patch is a JSON object")
    if content_type not in merges and isinstance(patch, list) and len(patch) > _MOST_OPERATIONS:
        most = f"The allowed maximum operations in a JSON patch is {_MOST_OPERATIONS}, got {len(patch)}"
        raise failure(413, "RequestEntityTooLarge", f"Request entity too large: {most}")
    apply = merges.get(content_type, apply_json_patch)

    def change(document: Object) -> Any:
        try:
            return apply(document, patch)
        except BadPatch as error:
            raise bad_request(f"error decoding patch: {error}") from error
        except PatchFailed as error:
            raise patch_rejected() from error

    return change
