"""Garbage collection and the deletion of namespaces, before the answer to the write that causes them.

In a real cluster, controllers do this a little later. Here it happens at once, so that tests need not wait. Deletions
pass admission in the names of the controllers.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from webhook.sandbox.attempt import Refused, User
from webhook.sandbox.cluster import Adopt, Call, Clear, EndNamespace, Orphan
from webhook.sandbox.deletion import delete, end_if_final

if TYPE_CHECKING:
    from webhook.sandbox.cluster import Cluster
    from webhook.sandbox.kinds import Kind
    from webhook.sandbox.store import Place
    from webhook.sandbox.stored_entries import Entry

__all__ = ["collect"]

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
                for place in cluster.store.dependents(uid):
                    _disown(cluster, place, {uid})
            case Clear(uid, namespace):
                await _clear(cluster, uid)
                _end_namespace(cluster, namespace)
            case EndNamespace(name):
                await _empty_namespace(cluster, name)
                _end_namespace(cluster, name)


def _look_up(cluster: Cluster, place: Place) -> tuple[Kind, Entry] | None:
    kind = cluster.kinds.of_key(place.kind)
    entry = None if kind is None else cluster.store.get(kind, *place.name)
    return None if kind is None or entry is None else (kind, entry)


async def _adopt(cluster: Cluster, place: Place) -> None:
    """Delete an object if none of its owners exists; owners of unknown kinds count as existing."""
    found = _look_up(cluster, place)
    if found is None:
        return
    kind, entry = found
    owners = entry.decode(kind)["metadata"]["ownerReferences"]
    if all(
        cluster.store.place(owner["uid"]) is None and cluster.kinds.find(owner["kind"], owner["apiVersion"])
        for owner in owners
    ):
        await _delete(cluster, _COLLECTOR, kind, entry)


async def _clear(cluster: Cluster, uid: str) -> None:
    """Delete the dependents of an object, or remove its reference if they have other owners."""
    for place in cluster.store.dependents(uid):
        found = _look_up(cluster, place)
        if found is None:
            continue
        kind, entry = found
        gone = {owner for owner in entry.owners if cluster.store.place(owner) is None}
        if gone == set(entry.owners):
            await _delete(cluster, _COLLECTOR, kind, entry)
        else:
            _disown(cluster, place, gone)


def _disown(cluster: Cluster, place: Place, owners: set[str]) -> None:
    found = _look_up(cluster, place)
    if found is None:
        return
    kind, entry = found
    document = entry.decode(kind)
    kept = [owner for owner in document["metadata"].pop("ownerReferences") if owner["uid"] not in owners]
    document["metadata"] |= {"ownerReferences": kept} if kept else {}
    cluster.commit(kind, document)


async def _empty_namespace(cluster: Cluster, name: str) -> None:
    for place in cluster.store.in_namespace(name):
        found = _look_up(cluster, place)
        if found is not None:
            await _delete(cluster, _NAMESPACES, *found)


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
