"""Changes objects by PUT or PATCH, as a whole or one subresource."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from webhook.sandbox import strategies
from webhook.sandbox.decoding import decode, decode_mutated
from webhook.sandbox.defaults import with_defaults
from webhook.sandbox.deletion import end_if_final
from webhook.sandbox.metadata import check_shape, with_namespace
from webhook.sandbox.patches import BadPatch, PatchFailed, apply_json_patch, apply_merge_patch
from webhook.sandbox.statuses import Cause, bad_request, conflict, failure, invalid, patch_rejected
from webhook.sandbox.strategic import apply_strategic_patch

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.kubernetes.objects import Object
    from webhook.sandbox.attempt import Attempt
    from webhook.sandbox.cluster import Call, Cluster
    from webhook.sandbox.kinds import Kind
    from webhook.sandbox.routing import Target
    from webhook.sandbox.store import Entry

__all__ = ["JSON_PATCH", "MERGE_PATCH", "STRATEGIC_PATCH", "change_of", "check_name", "update"]

_TRIES = 5
"""How often a change without a resourceVersion is applied again after a concurrent write."""


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
        strategies.check_update(kind, old, new, whole=not target.subresource)
        await cluster.admission.validate(_attempt(call, target, old, new), call.warn)
        if call.dry_run or new == old:
            return new
        if cluster.store.get(kind, *entry.name) is entry:
            return _commit(cluster, kind, entry, new)
    raise conflict(kind.resource, target.name)


async def _prepare_update(cluster: Cluster, call: Call, target: Target, old: Object, document: Any) -> Object:
    """The object to be stored."""
    kind = target.kind
    sent = with_namespace(decode(kind, check_shape(kind, document), call), target.namespace)
    check_name(target, sent)
    _check_uid(target, old, sent)
    attempt = _attempt(call, target, old, with_defaults(kind.resource, sent))
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
    return _WRITES.get(target.subresource, strategies.prepare_update)(kind, old, new)


def _ephemeral_containers(kind: Kind, old: Object, new: Object) -> Object:
    containers = (new.get("spec") or {}).get("ephemeralContainers")
    spec = {key: value for key, value in old["spec"].items() if key != "ephemeralContainers"}
    return {**old, "spec": {**spec, "ephemeralContainers": containers} if containers else spec}


def _finalize(kind: Kind, old: Object, new: Object) -> Object:
    """A namespace after a write to `/finalize`, which may change labels and annotations too."""
    return {**strategies.prepare_update(kind, old, new), "spec": new.get("spec") or {}}


_WRITES: dict[str, Callable[[Kind, Object, Object], Object]] = {
    "status": strategies.prepare_status_update,
    "ephemeralcontainers": _ephemeral_containers,
    "finalize": _finalize,
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


def _attempt(call: Call, target: Target, old: Object, new: Object) -> Attempt:
    return call.attempt("UPDATE", target.resource, (target.namespace, target.name), new, old, target.subresource)


def _commit(cluster: Cluster, kind: Kind, entry: Entry, new: Object) -> Object:
    """Store a change; removes an object whose deletion waited for the last finalizer."""
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
    """The function that patches an object.

    Raises:
        Refused: The body is not a patch. The function raises it if the patch does not apply.
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
