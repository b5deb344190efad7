"""Deletes objects: preconditions, admission, finalizers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from webhook.sandbox.cluster import EndNamespace, Orphan
from webhook.sandbox.statuses import conflict, forbidden

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object
    from webhook.sandbox.cluster import Call, Cluster
    from webhook.sandbox.kinds import Kind
    from webhook.sandbox.stored_entries import Entry

__all__ = ["delete", "end_if_final"]

_IMMORTAL = frozenset(["default", "kube-system", "kube-public"])


async def delete(
    cluster: Cluster, call: Call, kind: Kind, name: tuple[str, str], *, in_collection: bool = False
) -> tuple[Object, bool]:
    """Delete an object. Pods are removed at once, because no kubelet has to stop them.

    Args:
        cluster: The cluster.
        call: The user, and DeleteOptions.
        kind: The kind of the object.
        name: Namespace and name.
        in_collection: True for objects of a collection, whose names admission does not get.

    Returns:
        The last state of the object, and whether it is gone; with finalizers, it is only marked.

    Raises:
        Refused: The object is not deleted.
    """
    if kind.resource.kind == "Namespace" and name[1] in _IMMORTAL:
        raise forbidden(kind.resource, name[1], "this namespace may not be deleted")
    old = cluster.entry_of(kind, *name).decode(kind)
    _check_preconditions(kind, old, call.options)
    attempt = call.attempt("DELETE", kind.resource, (name[0], "" if in_collection else name[1]), None, old)
    await cluster.admission.mutate(attempt, call.warn)
    await cluster.admission.validate(attempt, call.warn)
    # The object may have changed during admission.
    entry = cluster.entry_of(kind, *name)
    if call.dry_run:
        return old, True
    return _end_or_mark(cluster, kind, entry, call.options)


def _check_preconditions(kind: Kind, old: Object, options: Object) -> None:
    preconditions = options.get("preconditions") or {}
    for field, called, happened in (
        ("uid", "UID", "The object might have been deleted and then recreated"),
        ("resourceVersion", "ResourceVersion", "The object might have been modified"),
    ):
        found = old["metadata"][field]
        if (wanted := preconditions.get(field, found)) != found:
            why = f"the {called} in the precondition ({wanted}) does not match the {called} in record ({found}). {happened}"
            # The API server names the kind here, not the resource as everywhere else.
            named = replace(kind.resource, plural=kind.resource.kind)
            raise conflict(named, old["metadata"]["name"], why)


def _end_or_mark(cluster: Cluster, kind: Kind, entry: Entry, options: Object) -> tuple[Object, bool]:
    if options.get("propagationPolicy") == "Orphan" or options.get("orphanDependents") is True:
        cluster.chores.append(Orphan(entry.uid))
    document = entry.decode(kind)
    is_namespace = kind.resource.kind == "Namespace"
    if not is_namespace and not document["metadata"].get("finalizers"):
        return cluster.remove(kind, entry), True
    if is_namespace:
        cluster.chores.append(EndNamespace(entry.name[1]))
    if "deletionTimestamp" in document["metadata"]:
        return document, False
    marks: Object = {"deletionTimestamp": cluster.now(), "deletionGracePeriodSeconds": 0}
    if "generation" in document["metadata"]:
        marks["generation"] = document["metadata"]["generation"] + 1
    document["metadata"] |= marks
    if is_namespace:
        document["metadata"].pop("deletionGracePeriodSeconds")
        document["status"] = {**(document.get("status") or {}), "phase": "Terminating"}
    return cluster.commit(kind, document), False


def end_if_final(cluster: Cluster, kind: Kind, name: tuple[str, str]) -> None:
    """Remove an object that is marked as deleted and has no finalizers."""
    entry = cluster.store.get(kind, *name)
    if entry is None:
        return
    document = entry.decode(kind)
    held = document["metadata"].get("finalizers") or (
        kind.resource.kind == "Namespace" and (document.get("spec") or {}).get("finalizers")
    )
    if "deletionTimestamp" in document["metadata"] and not held:
        cluster.remove(kind, entry)
