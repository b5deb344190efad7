"""Keeps the GPUQuotaGroups of ClusterGPUQuotas, by the leader, and says whether they hold."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from policies.kubernetes.objects import lookup, mappings_at, name_of, with_conditions
from policies.kubernetes.view import UNKNOWN
from policies.quota.ledger.ledger import Ledger
from policies.quota.ledger.recount import cluster_condition, unreadable_cluster_condition
from policies.quota.limits.cluster_quota import (
    CLUSTER_QUOTA,
    GUARD,
    is_guard,
    members,
    parse_cluster_quota,
    tenancy,
)
from policies.quota.limits.quota import API_VERSION, GROUP, QuotaError
from webhook.cluster.answers import APIError
from webhook.cluster.client import MERGE_PATCH
from webhook.cluster.clockwork import Clockwork, rfc3339
from webhook.cluster.lists import get_if_exists
from webhook.cluster.live import generation_of
from webhook.cluster.resources import RESOURCES
from webhook.controllers.metrics import IncompleteRound
from webhook.server.template_keeper import FIELD_MANAGER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.quota.limits.cluster_quota import ClusterQuota, Group, Tenancy
    from webhook.cluster.client import APIClient


_GUARD_SECONDS = 30.0
"""Between two looks at the policy that guards labels."""
_QUOTA, _GROUP = RESOURCES[CLUSTER_QUOTA], RESOURCES[GROUP]


@dataclass(eq=False)
class GroupUpkeep:
    """Keeps one GPUQuotaGroup for each group of namespaces."""

    client: APIClient
    """Writes GPUQuotaGroups, and the status of ClusterGPUQuotas."""
    view: ClusterView
    """The cluster."""
    clockwork: Clockwork = field(default_factory=Clockwork)
    """Time."""
    _looked: float = field(default=-math.inf, init=False)
    _is_guarded: bool = field(default=False, init=False)
    """True if the policy that guards labels was there at the last look."""

    async def round(self) -> None:
        """Make what is missing, change what differs, and delete what is empty.

        After a conflict, the next round tries again.

        Raises:
            ClusterError: The API server refused, or did not answer.
            IncompleteRound: ClusterGPUQuotas, GPUQuotaGroups or Namespaces are unknown.
        """
        found, listed, namespaces = tenancy(self.view), self.view.list(GROUP), self.view.list("Namespace")
        documents = self.view.list(CLUSTER_QUOTA)
        if found is UNKNOWN or listed is UNKNOWN or namespaces is UNKNOWN or documents is UNKNOWN:
            raise IncompleteRound("ClusterGPUQuotas, their groups or the Namespaces are unknown, so no group is kept")
        if not documents and not listed:
            return
        await self._look_for_guard()
        groups: dict[str, tuple[ClusterQuota, Group]] = {}
        by_name = {each.name: each for each in found.quotas}
        for namespace in namespaces:
            if (group := found.group_of(namespace)) is not None:
                groups[group.name] = by_name[group.quota], group
        stored = {name_of(each): each for each in listed}
        for name, (quota, group) in groups.items():
            await self._keep(name, quota, group, stored.get(name))
        for name in stored.keys() - groups.keys():
            if str(lookup(stored[name], ("spec", "quota"))) not in found.unreadable:
                await self._delete_if_empty(stored[name])
        for document in documents:
            await self._write_status(document, found, namespaces, groups, stored)

    async def _look_for_guard(self) -> None:
        """Read the policy that guards labels, and its binding, now and then."""
        now = self.clockwork.clock()
        if now < self._looked + _GUARD_SECONDS:
            return
        kinds = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
        found = [await get_if_exists(self.client, RESOURCES[kind].path(name=GUARD)) for kind in kinds]
        self._looked, self._is_guarded = now, is_guard(*found)

    async def _keep(self, name: str, quota: ClusterQuota, group: Group, stored: Object | None) -> None:
        if stored is None:
            uid = _uid(quota.document)
            reference = {"apiVersion": API_VERSION, "kind": CLUSTER_QUOTA, "name": quota.name, "uid": uid}
            document = {
                "apiVersion": API_VERSION,
                "kind": GROUP,
                "metadata": {"name": name, "ownerReferences": [reference]},
                "spec": quota.spec_of(group),
            }
            await self._try(self.client.post(_GROUP.path(), document, FIELD_MANAGER))
        elif (before := stored["spec"]) != quota.spec_of(group):
            # The caches of a new leader may still show limits from before the last one lowered them.
            owner = await get_if_exists(self.client, _QUOTA.path(name=quota.name))
            try:
                spec = before if owner is None else parse_cluster_quota(owner).spec_of(group)
            except QuotaError:
                return
            if spec == before:
                return
            change = {**dict.fromkeys(before), **spec}
            body = {"metadata": {"resourceVersion": _version(stored)}, "spec": change}
            await self._try(self.client.patch(_GROUP.path(name=name), body, FIELD_MANAGER, content_type=MERGE_PATCH))

    async def _delete_if_empty(self, stored: Object) -> None:
        """Delete a group without namespaces in which nothing counts; a charge meanwhile keeps it."""
        ledger = Ledger.read(stored)
        is_used = any(count.used != 0 for count in ledger.limits.values())
        if ledger.namespaces or ledger.reservations.places or is_used:
            return
        guard = {"preconditions": {"uid": _uid(stored), "resourceVersion": _version(stored)}}
        await self._try(self.client.delete(_GROUP.path(name=name_of(stored)), guard))

    async def _write_status(
        self,
        document: Object,
        found: Tenancy,
        namespaces: Sequence[Object],
        groups: Mapping[str, tuple[ClusterQuota, Group]],
        stored: Mapping[str, Object],
    ) -> None:
        """Write the status of a ClusterGPUQuota if it changes."""
        name, before = name_of(document), document.get("status") or {}
        status: dict[str, Any] = {"observedGeneration": generation_of(document)}
        if (error := found.unreadable.get(name)) is not None:
            conditions = [unreadable_cluster_condition(error)]
        else:
            own = [each for each, (quota, _) in groups.items() if quota.name == name]
            (quota,) = (each for each in found.quotas if each.name == name)
            status["groups"] = len(own)
            status["namespaces"] = sum(len(members(groups[each][1], self.view)) for each in own)
            labels = (lookup(each, ("metadata", "labels")) for each in namespaces)
            status["outside"] = sum(quota.leaves_out(each if isinstance(each, dict) else {}) for each in labels)
            said = {each: _enforced_condition(stored.get(each)) for each in own}
            unguarded = () if self._is_guarded else quota.guarded_keys
            conditions = [cluster_condition(said, found.overlaps(namespaces).get(name, {}), unguarded)]
        status["conditions"] = with_conditions(
            before.get("conditions") or [], conditions, generation_of(document), rfc3339(self.clockwork.now())
        )
        if all(before.get(key) == value for key, value in status.items()):
            return
        body = {"metadata": {"resourceVersion": _version(document)}, "status": status}
        path = _QUOTA.path(name=name, subresource="status")
        await self._try(self.client.patch(path, body, FIELD_MANAGER, content_type=MERGE_PATCH))

    async def _try(self, write: Any) -> None:
        try:
            await write
        except APIError as error:
            # Another leader did it, or the caches are behind; the next round decides again.
            if not (error.is_not_found or error.is_conflict or error.already_exists):
                raise


def _enforced_condition(group: Object | None) -> Object | None:
    """The condition Enforced of a GPUQuotaGroup."""
    found = mappings_at(group, ("status", "conditions"))
    return next((each for each in found if each.get("type") == "Enforced"), None)


def _uid(document: Object) -> Any:
    return lookup(document, ("metadata", "uid"))


def _version(document: Object) -> Any:
    return lookup(document, ("metadata", "resourceVersion"))
