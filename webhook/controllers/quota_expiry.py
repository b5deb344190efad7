"""Expiry: charges whose object nobody has seen for a while are looked up, and given up where it does not exist."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from policies.dra.pod_groups import KIND as POD_GROUP
from policies.dra.pod_groups import pod_group
from policies.kubernetes.paths import lookup
from policies.quota.charges import OWN
from policies.view import UNKNOWN
from webhook.cluster.errors import APIError
from webhook.cluster.resources import RESOURCES
from webhook.cluster.sharing import Sharing
from webhook.cluster.trimmed import trim_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from policies.kubernetes.objects import Object
    from policies.quota.ledger.open_charges import OpenCharge
    from policies.view import ClusterView
    from webhook.cluster.client import APIClient

__all__ = ["Expiry"]

_Charge = tuple[str, str]
"""The uid of a charge and its time: that of a PodGroup is charged again with every pod."""

_UNSEEN_SECONDS = 120.0
"""Longer than any request takes to store what was admitted, and than a watch takes to show it."""
_MOST_LOOKUPS = 32
"""At once; the others have their turn in the next round."""


class Expiry:
    """For how long this leader has watched charges without seeing their objects.

    No charge ends by the time that is written in it: clocks differ, and a leader that was just elected has seen nothing
    yet.
    """

    def __init__(self, client: APIClient, view: ClusterView, clock: Callable[[], float]) -> None:
        """Args: whom to ask, what is known of PodGroups and their pods, and seconds that never go back."""
        self._client = client
        self._view = view
        self._clock = clock
        self._since: dict[str, dict[_Charge, float]] = {}

    def forget(self, namespace: str | None = None) -> None:
        """Have watched nothing so far, in a namespace or anywhere."""
        if namespace is None:
            self._since = {}
        else:
            self._since.pop(namespace, None)

    async def gone(self, namespace: str, charges: Iterable[OpenCharge]) -> list[OpenCharge]:
        """The charges of a namespace that are for nothing.

        Their objects do not exist, or are pods that hold no GPU, or PodGroups without a pod that waits for their claims.

        Args:
            namespace: Of the ledger.
            charges: All that are left on it after everything was counted that can be seen.

        Raises:
            ClusterError: The API server did not answer.
        """
        now, before = self._clock(), self._since.get(namespace, {})
        unseen = {
            (charge.uid, charge.time): charge for charge in charges if OWN in charge.pieces or charge.kind != "Pod"
        }
        since = self._since[namespace] = {key: before.get(key, now) for key in unseen}
        due = [unseen[key] for key, moment in since.items() if now >= moment + _UNSEEN_SECONDS][:_MOST_LOOKUPS]
        exist = await asyncio.gather(*(self._exists(namespace, charge) for charge in due))
        since.update({(charge.uid, charge.time): now for charge, exists in zip(due, exist, strict=True) if exists})
        return [charge for charge, exists in zip(due, exist, strict=True) if not exists]

    async def _exists(self, namespace: str, charge: OpenCharge) -> bool:
        if charge.kind == POD_GROUP:
            return self._is_awaited(namespace, charge)
        resource = RESOURCES["Pod" if charge.kind == "Pod" else "ResourceClaim"]
        try:
            path = resource.path(namespace, charge.name)
        except ValueError:
            return False  # whoever wrote this charge into the status, no object can be called so
        try:
            found: Object = await self._client.get(path)
        except APIError as error:
            if error.not_found:
                return False
            raise
        # What no cache keeps is never counted, so a forged charge for it would stay for as long as it exists.
        is_counted = trim_for(resource, Sharing())(found) is not None
        return is_counted and bool(lookup(found, ("metadata", "uid")) == charge.uid)

    def _is_awaited(self, namespace: str, charge: OpenCharge) -> bool:
        """Whether a pod of a PodGroup is there, so that a claim may yet be made for it.

        The caches tell: after two minutes they show what was stored, and a claim that is made later is charged itself.
        """
        pods = self._view.list("Pod", namespace)
        groups = (pod_group(pod, namespace, self._view) for pod in (() if pods is UNKNOWN else pods))
        return any(group is not None and group.uid == charge.uid for group in groups)
