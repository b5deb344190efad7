"""Deletes objects: preconditions, admission, finalizers, dependents and the content of namespaces.

In a real cluster, controllers collect garbage and empty namespaces a little later. Here it happens before the answer to
the write that causes it, so that tests need not wait. Their deletions pass admission in the names of the controllers.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from webhook.sandbox.statuses import Refused, User, conflict, forbidden
from webhook.sandbox.store import Adopt, Call, Clear, EndNamespace, Orphan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.kubernetes.objects import Object
    from webhook.sandbox.kinds import Kind
    from webhook.sandbox.store import Cluster, Entry, Place


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
    if kind.resource.kind == "Namespace" and name[1] in ("default", "kube-system", "kube-public"):
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


_GROUPS = ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated")
_COLLECTOR = User("system:serviceaccount:kube-system:generic-garbage-collector", _GROUPS)
_NAMESPACES = User("system:serviceaccount:kube-system:namespace-controller", _GROUPS)

_logger = logging.getLogger("gpu_admission.sandbox")


async def collect(cluster: Cluster) -> None:
    """Do the pending work of controllers, and what follows from it."""
    while cluster.chores:
        match cluster.chores.popleft():
            case Adopt(place):
                await _adopt(cluster, place)
            case Orphan(uid):
                for kind, entry in _stored_at(cluster, cluster.store.dependents(uid)):
                    _disown(cluster, kind, entry, {uid})
            case Clear(uid, namespace):
                await _clear(cluster, uid)
                _end_namespace(cluster, namespace)
            case EndNamespace(name):
                for kind, entry in _stored_at(cluster, cluster.store.in_namespace(name)):
                    await _delete(cluster, _NAMESPACES, kind, entry)
                _end_namespace(cluster, name)


def _stored_at(cluster: Cluster, places: Iterable[Place]) -> Iterator[tuple[Kind, Entry]]:
    """The objects that still exist when their turn comes."""
    for place in places:
        kind = cluster.kinds.of_key(place.kind)
        entry = None if kind is None else cluster.store.get(kind, *place.name)
        if kind is not None and entry is not None:
            yield kind, entry


async def _adopt(cluster: Cluster, place: Place) -> None:
    """Delete an object if none of its owners exists; owners of unknown kinds count as existing."""
    for kind, entry in _stored_at(cluster, [place]):
        owners = entry.decode(kind)["metadata"]["ownerReferences"]
        if all(
            cluster.store.place(owner["uid"]) is None and cluster.kinds.find(owner["kind"], owner["apiVersion"])
            for owner in owners
        ):
            await _delete(cluster, _COLLECTOR, kind, entry)


async def _clear(cluster: Cluster, uid: str) -> None:
    """Delete the dependents of an object, or remove its reference if they have other owners."""
    for kind, entry in _stored_at(cluster, cluster.store.dependents(uid)):
        gone = {owner for owner in entry.owners if cluster.store.place(owner) is None}
        if gone == set(entry.owners):
            await _delete(cluster, _COLLECTOR, kind, entry)
        else:
            _disown(cluster, kind, entry, gone)


def _disown(cluster: Cluster, kind: Kind, entry: Entry, owners: set[str]) -> None:
    document = entry.decode(kind)
    kept = [owner for owner in document["metadata"].pop("ownerReferences") if owner["uid"] not in owners]
    document["metadata"] |= {"ownerReferences": kept} if kept else {}
    cluster.commit(kind, document)


def _end_namespace(cluster: Cluster, name: str) -> None:
    """Remove a namespace that is marked as deleted and empty."""
    kind = cluster.kinds.find("Namespace", "v1")
    entry = None if kind is None or not name else cluster.store.get(kind, "", name)
    if kind is None or entry is None or cluster.store.in_namespace(name):
        return
    document = entry.decode(kind)
    if "deletionTimestamp" in document["metadata"]:
        cluster.commit(kind, {**document, "spec": {}})
        end_if_final(cluster, kind, entry.name)


async def _delete(cluster: Cluster, user: User, kind: Kind, entry: Entry) -> None:
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": entry.uid}}
    namespaced = user is _NAMESPACES
    try:
        await delete(cluster, Call(user, options), kind, entry.name, in_collection=namespaced)
    except Refused as refused:
        # A real controller would retry, and be refused again.
        _logger.warning("%s %s stays: %s", kind.resource.name, "/".join(entry.name).strip("/"), refused)
