"""Changing objects that exist, by PUT or by a patch, as a whole or one subresource."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from webhook.sandbox import strategies
from webhook.sandbox.attempt import Attempt
from webhook.sandbox.decoding import decoded, decoded_quietly
from webhook.sandbox.defaults import with_defaults
from webhook.sandbox.deletion import end_if_final
from webhook.sandbox.metadata import check_shape, placed
from webhook.sandbox.patches import BadPatch, PatchFailed, apply_json_patch, apply_merge_patch
from webhook.sandbox.statuses import Cause, bad_request, conflict, failure, invalid, not_found, patch_rejected
from webhook.sandbox.strategic import apply_strategic_patch

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.kubernetes.objects import Object
    from webhook.sandbox.cluster import Call, Cluster
    from webhook.sandbox.kinds import Kind
    from webhook.sandbox.routing import Target
    from webhook.sandbox.stored_entries import Entry

__all__ = ["JSON_PATCH", "MERGE_PATCH", "STRATEGIC_PATCH", "change_of", "check_name", "update"]

_TRIES = 5
"""How often a change that names no version is made again on what somebody else wrote in the meantime."""


async def update(cluster: Cluster, call: Call, target: Target, change: Callable[[Object], Any]) -> Object:
    """Change an object; returns it as stored, which is as before where nothing changed; that is validated all the same.

    Source: k8s.io/apiserver pkg/registry/generic/registry/store.go Update, pkg/storage/etcd3/store.go GuaranteedUpdate.

    Args:
        cluster: Where.
        call: In whose name.
        target: Which object, and which subresource of it.
        change: Gives the new document for the old one, which it does not change in place. It is asked again when
            another write came between, as the API server does.

    Raises:
        Refused: it is not changed.
    """
    kind = target.kind
    for _ in range(_TRIES):
        entry = cluster.store.get(kind, target.namespace, target.name)
        if entry is None:
            raise not_found(kind.resource, target.name)
        old = entry.decode(kind)
        new = await _changed(cluster, call, target, old, change(old))
        strategies.check_update(kind, old, new, whole=not target.subresource)
        await cluster.admission.validate(_attempt(call, target, old, new), call.warn)
        if call.dry_run or new == old:
            return new
        if cluster.store.get(kind, *entry.name) is entry:
            return _commit(cluster, kind, entry, new)
    raise conflict(kind.resource, target.name)


async def _changed(cluster: Cluster, call: Call, target: Target, old: Object, sent: Any) -> Object:
    """The object that shall be stored."""
    kind = target.kind
    asked = placed(kind, decoded(kind, check_shape(kind, sent), call), target.namespace)
    check_name(target, asked)
    _check_uid(target, old, asked)
    document = with_defaults(kind.resource, asked)
    mutated = await cluster.admission.mutate(_attempt(call, target, old, document), call.warn)
    new = placed(kind, decoded_quietly(kind, check_shape(kind, mutated)), target.namespace)
    check_name(target, new)
    version = old["metadata"]["resourceVersion"]
    if not asked["metadata"].get("resourceVersion") and not kind.unconditional:
        why = Cause("metadata.resourceVersion", "Invalid", "0: must be specified for an update")
        # The API server names the resource here, not the kind as everywhere else.
        raise invalid(kind.resource.plural, kind.resource.group, target.name, [why])
    if asked["metadata"].get("resourceVersion") not in (None, "", "0", version):
        raise conflict(kind.resource, target.name)
    new = {**new, "metadata": {**new["metadata"], "resourceVersion": version}}
    return _WRITES.get(target.subresource, strategies.updated)(kind, old, new)


def _ephemeral_containers(kind: Kind, old: Object, new: Object) -> Object:
    containers = (new.get("spec") or {}).get("ephemeralContainers")
    spec = {key: value for key, value in old["spec"].items() if key != "ephemeralContainers"}
    return {**old, "spec": {**spec, "ephemeralContainers": containers} if containers else spec}


def _finalized(kind: Kind, old: Object, new: Object) -> Object:
    """A namespace after a write to `/finalize`, which lets labels and annotations through."""
    return {**strategies.updated(kind, old, new), "spec": new.get("spec") or {}}


_WRITES: dict[str, Callable[[Kind, Object, Object], Object]] = {
    "status": strategies.status_updated,
    "ephemeralcontainers": _ephemeral_containers,
    "finalize": _finalized,
}


def check_name(target: Target, document: Object) -> None:
    """Whether an object has the name that its path says.

    Raises:
        Refused: it has not.
    """
    name = document["metadata"].get("name", "")
    if not name:
        raise bad_request(
            f"the name of the object ({target.name} based on URL) was undeterminable: name must be provided"
        )
    if name != target.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({target.name})")


def _check_uid(target: Target, old: Object, asked: Object) -> None:
    uid, found = asked["metadata"].get("uid") or "", old["metadata"]["uid"]
    if uid not in ("", found):
        resource = target.resource
        key = "/".join(part for part in ("/registry", resource.plural, target.namespace, target.name) if part)
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {found}"
        raise conflict(
            resource,
            target.name,
            f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {why}",
        )


def _attempt(call: Call, target: Target, old: Object, new: Object) -> Attempt:
    namespace = target.name if target.resource.kind == "Namespace" else target.namespace
    return Attempt(
        "UPDATE",
        target.resource,
        target.subresource,
        namespace,
        target.name,
        new,
        old,
        call.user,
        call.dry_run,
        call.options,
    )


def _commit(cluster: Cluster, kind: Kind, entry: Entry, new: Object) -> Object:
    """Store a change; it is the end of an object whose deletion waited for the last finalizer."""
    written = cluster.commit(kind, new)
    if "deletionTimestamp" in new["metadata"]:
        end_if_final(cluster, kind, entry.name)
    return written


JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
_MOST_OPERATIONS = 10_000
"""Source: k8s.io/apiserver pkg/endpoints/handlers/patch.go maxJSONPatchOperations."""


def change_of(content_type: str, patch: Any) -> Callable[[Object], Any]:
    """What gives the patched document for an object.

    Raises:
        Refused: it is no patch; the result raises it where the patch does not fit.
    """
    if content_type in (MERGE_PATCH, STRATEGIC_PATCH):
        if not isinstance(patch, dict):
            raise bad_request("error decoding patch: a merge patch is a JSON object")
        if content_type == MERGE_PATCH:
            return lambda document: apply_merge_patch(document, patch)
        return lambda document: _strategically_patched(document, patch)
    if isinstance(patch, list) and len(patch) > _MOST_OPERATIONS:
        raise failure(
            413,
            "RequestEntityTooLarge",
            "Request entity too large: The allowed maximum operations in a JSON patch is"
            f" {_MOST_OPERATIONS}, got {len(patch)}",
        )
    return lambda document: _json_patched(document, patch)


def _strategically_patched(document: Object, patch: Object) -> Any:
    try:
        return apply_strategic_patch(document, patch)
    except BadPatch as error:
        raise bad_request(f"error decoding patch: {error}") from error


def _json_patched(document: Object, patch: Any) -> Any:
    try:
        return apply_json_patch(document, patch)
    except BadPatch as error:
        raise bad_request(f"error decoding patch: {error}") from error
    except PatchFailed as error:
        raise patch_rejected() from error
