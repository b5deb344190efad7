"""The resourceclaim controller: creates claims of pods and PodGroups, and names them in the status.

Allocation, reservation and deletion of claims belong to the scheduler, the kubelet and the garbage collector.
Source: k8s.io/kubernetes pkg/controller/resourceclaim/controller.go; what a real 1.36.2 was seen to do.
"""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from policies.devices.pod_groups import POD_GROUP, PodGroup, pod_group_name
from policies.kubernetes.objects import has_ended, lookup
from webhook.sandbox.deletion import collect
from webhook.sandbox.kinds import CLAIMS_OF_GROUPS, Target
from webhook.sandbox.statuses import Refused, User, not_found
from webhook.sandbox.store import Call, TooOldError
from webhook.sandbox.writes import create, update

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object
    from webhook.sandbox.kinds import Kind
    from webhook.sandbox.store import Cluster


CONTROLLER = User(
    "system:serviceaccount:kube-system:resource-claim-controller",
    ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"),
)
"""The user that creates claims, by which webhooks recognize them."""

_POD_CLAIM = "resource.kubernetes.io/pod-claim-name"
_LONGEST_BASE = 57
"""Of the prefix of generated names; with five random characters they stay below the 63 of a label."""
_FIRST_WAIT, _LONGEST_WAIT = 0.005, 1000.0
"""Seconds between two tries, doubled each time, as client-go's work queue does."""

Key = tuple[str, str, str]
"""Kind, namespace and name of a pod or a PodGroup."""


class _Problem(Exception):  # noqa: N818 - the message of an event
    """A claim could not be created."""


class ClaimController:
    """Creates claims for new pods and PodGroups, and when missing templates appear."""

    def __init__(self, cluster: Cluster) -> None:
        """The claims pass the admission of the cluster."""
        self._cluster = cluster
        self._pods = _kind(cluster, "Pod")
        self._groups = cluster.kinds.find(POD_GROUP) if cluster.feature_gates >= CLAIMS_OF_GROUPS else None
        self._templates = _kind(cluster, "ResourceClaimTemplate")
        self._seen = -1
        self._due: dict[Key, float] = {}
        """When a pod or a group is processed again, by the loop's clock."""
        self._failures: dict[Key, int] = {}

    async def run(self) -> None:
        """Run until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            self._take_changes(loop.time())
            for key in [key for key, due in self._due.items() if due <= loop.time()]:
                del self._due[key]
                await self._look_at(key)
            self._take_changes(loop.time())
            await self._wait(loop.time())

    def _take_changes(self, now: float) -> None:
        """Queue changed objects, pods of changed groups, and failures in namespaces with new templates."""
        changed = [("Pod", *name) for name in self._changed_names(self._pods)]
        if self._groups is not None and (groups := self._changed_names(self._groups)):
            changed += [(POD_GROUP, *name) for name in groups]
            changed += [
                ("Pod", pod["metadata"]["namespace"], pod["metadata"]["name"])
                for pod in self._cluster.objects("Pod")
                if (pod["metadata"]["namespace"], pod_group_name(pod)) in groups
            ]
        for key in changed:
            if key not in self._failures:
                self._due[key] = now
        namespaces = {namespace for namespace, _ in self._changed_names(self._templates)}
        for key in self._failures:
            if key[1] in namespaces:
                self._due[key] = now
        self._seen = self._cluster.store.version

    def _changed_names(self, kind: Kind) -> list[tuple[str, str]]:
        collection = self._cluster.store.collection(kind)
        try:
            changes = collection.history.after(self._seen) if self._seen >= 0 else None
        except TooOldError:
            changes = None
        return list(collection.names) if changes is None else [change.entry.name for change in changes]

    async def _wait(self, now: float) -> None:
        """Wait until something changes or a retry is due."""
        pause = min(self._due.values(), default=now + _LONGEST_WAIT) - now
        if pause <= 0:
            return
        kinds = [kind for kind in (self._pods, self._groups, self._templates) if kind is not None]
        histories = (self._cluster.store.collection(kind).history for kind in kinds)
        waits = [asyncio.ensure_future(history.wait_for_change()) for history in histories]
        try:
            await asyncio.sleep(0)  # from here on the waits see every change
            if self._cluster.store.version == self._seen:
                await asyncio.wait(waits, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _look_at(self, key: Key) -> None:
        """Create the missing claims of a pod or a group; after a failure, write an event and retry later."""
        kind, namespace, name = key
        owner = self._cluster.get(kind, name, namespace)
        try:
            if owner is not None and _needs_claims(owner):
                await self._make_claims(owner)
        except (Refused, _Problem) as error:
            failures = self._failures[key] = self._failures.get(key, 0) + 1
            wait = min(_FIRST_WAIT * 2 ** min(failures - 1, 32), _LONGEST_WAIT)
            self._due[key] = asyncio.get_running_loop().time() + wait
            if owner is not None and isinstance(error, _Problem):
                await self._write_event(owner, str(error))
        else:
            self._failures.pop(key, None)
        await collect(self._cluster)

    async def _make_claims(self, owner: Object) -> None:
        statuses: list[dict[str, Any]] = lookup(owner, ("status", "resourceClaimStatuses")) or []
        known = {status["name"]: status.get("resourceClaimName") or "" for status in statuses}
        names = dict(known)
        group = self._group(owner)
        for entry in owner["spec"].get("resourceClaims") or []:
            template = entry.get("resourceClaimTemplateName")
            if not template or entry["name"] in known:
                continue
            if group is not None and group.shares(entry):
                found = self._find_claim(group.document, entry["name"])
            else:
                found = await self._claim(owner, entry["name"], template)
            names |= {entry["name"]: found} if found else {}
        if names != known:
            await self._write_names(owner, names)

    def _group(self, owner: Object) -> PodGroup | None:
        """The PodGroup of a pod.

        Raises:
            Refused: it does not exist yet.
        """
        name = pod_group_name(owner) if self._groups is not None else ""
        namespace = owner["metadata"]["namespace"]
        document = self._cluster.get(POD_GROUP, name, namespace) if name else None
        if name and self._groups is not None and document is None:
            raise not_found(self._groups.resource, name)
        return None if document is None else PodGroup(name, document["metadata"]["uid"], namespace, document)

    async def _claim(self, owner: Object, entry: str, template_name: str) -> str:
        """The name of the claim of a pod or a group, which is created if it is missing."""
        if found := self._find_claim(owner, entry):
            return found
        where = f"{owner['kind']}ResourceClaim {entry}"
        namespace = owner["metadata"]["namespace"]
        template = self._cluster.get("ResourceClaimTemplate", template_name, namespace)
        if template is None:
            missing = f'resourceclaimtemplate.resource.k8s.io "{template_name}" not found'
            raise _Problem(f'{where}: resource claim template "{template_name}": {missing}')
        kind = _kind(self._cluster, "ResourceClaim")
        try:
            claim = await create(
                self._cluster, _call("Create"), kind, namespace, _from_template(owner, entry, template)
            )
        except Refused as refusal:
            raise _Problem(f"{where}: create ResourceClaim : {refusal}") from None
        return str(claim["metadata"]["name"])

    def _find_claim(self, owner: Object, entry: str) -> str:
        """A claim that exists although the owner's status does not name it; empty without one."""
        for place in self._cluster.store.dependents(owner["metadata"]["uid"]):
            claim = self._cluster.get("ResourceClaim", place.name[1], place.name[0])
            if lookup(claim, ("metadata", "annotations", _POD_CLAIM)) == entry:
                return place.name[1]
        return ""

    async def _write_names(self, owner: Object, names: dict[str, str]) -> None:
        metadata = owner["metadata"]
        statuses = [{"name": name, "resourceClaimName": claim} for name, claim in names.items()]

        def change(old: Object) -> Object:
            return {**old, "status": {**(old.get("status") or {}), "resourceClaimStatuses": statuses}}

        target = Target(_kind(self._cluster, owner["kind"]), metadata["namespace"], metadata["name"], "status")
        await update(self._cluster, _call("Update"), target, change)

    async def _write_event(self, owner: Object, message: str) -> None:
        """Write an event, once for the same message and object."""
        metadata = owner["metadata"]
        digest = hashlib.sha256(f"{metadata['uid']} {message}".encode()).hexdigest()[:16]
        name = f"{metadata['name']}.{digest}"
        if self._cluster.get("Event", name, metadata["namespace"]) is not None:
            return
        now = self._cluster.now()
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": metadata["namespace"]},
            "involvedObject": {
                "kind": owner["kind"],
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
                "apiVersion": owner["apiVersion"],
            },
            "reason": "FailedResourceClaimCreation",
            "message": message,
            "source": {"component": "resource_claim"},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "type": "Warning",
        }
        with suppress(Refused):  # events are best effort: a terminating namespace refuses them
            await create(self._cluster, _call("Create"), _kind(self._cluster, "Event"), metadata["namespace"], event)


def _kind(cluster: Cluster, name: str) -> Kind:
    kind = cluster.kinds.find(name)
    if kind is None:
        raise LookupError(f"the sandbox serves no {name}")
    return kind


def _call(verb: str) -> Call:
    return Call(CONTROLLER, {"kind": f"{verb}Options", "apiVersion": "meta.k8s.io/v1"})


def _needs_claims(owner: Object) -> bool:
    return (
        "deletionTimestamp" not in owner["metadata"]
        and not has_ended(owner)
        and bool(lookup(owner, ("spec", "resourceClaims")))
    )


def _from_template(owner: Object, entry: str, template: Object) -> Object:
    """The claim, with the labels and annotations of the template."""
    metadata, of_template = owner["metadata"], lookup(template, ("spec", "metadata")) or {}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "generateName": generate_name(metadata["name"], entry),
            "namespace": metadata["namespace"],
            **({"labels": of_template["labels"]} if of_template.get("labels") else {}),
            "annotations": {**(of_template.get("annotations") or {}), _POD_CLAIM: entry},
            "ownerReferences": [
                {
                    "apiVersion": owner["apiVersion"],
                    "kind": owner["kind"],
                    "name": metadata["name"],
                    "uid": metadata["uid"],
                    "controller": True,
                }
            ],
        },
        "spec": template["spec"]["spec"],
    }


def generate_name(owner: str, entry: str) -> str:
    """The prefix of the names of an owner's claims; if it is too long, both parts are shortened."""
    whole = f"{owner}-{entry}-"
    if len(whole) <= _LONGEST_BASE:
        return whole
    return "-".join(part[: len(part) * _LONGEST_BASE // len(whole)] for part in (owner, entry))
