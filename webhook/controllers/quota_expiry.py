"""Expiry of charges: objects not seen for a while are looked up; without one, the charge is dropped."""

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
"""The UID of a charge and its time; a PodGroup is charged again with every pod."""

_UNSEEN_SECONDS = 120.0
"""Longer than it takes to store an admitted object, and to show it in a watch."""
_MOST_LOOKUPS = 32
"""Per round; the others follow in the next round."""


class Expiry:
    """Records how long this leader has not seen the objects of charges.

    The time written in a charge does not matter: clocks differ, and a new leader has seen no objects yet.
    """

    def __init__(self, client: APIClient, view: ClusterView, clock: Callable[[], float]) -> None:
        """`clock` returns monotonic seconds."""
        self._client = client
        self._view = view
        self._clock = clock
        self._since: dict[str, dict[_Charge, float]] = {}

    def forget(self, namespace: str | None = None) -> None:
        """Start again, in a namespace or everywhere."""
        if namespace is None:
            self._since = {}
        else:
            self._since.pop(namespace, None)

    async def gone(self, namespace: str, charges: Iterable[OpenCharge]) -> list[OpenCharge]:
        """The charges of a namespace without an object that needs them.

        The object does not exist, is a pod without GPUs, or a PodGroup without a pod that waits for its claims.

        Args:
            namespace: The namespace of the ledger.
            charges: All charges that remain after a count.

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
            return False  # a forged charge: no object can have this name
        try:
            found: Object = await self._client.get(path)
        except APIError as error:
            if error.not_found:
                return False
            raise
        # An object that caches drop is never counted, so a forged charge for it would stay as long as the object.
        is_counted = trim_for(resource, Sharing())(found) is not None
        return is_counted and bool(lookup(found, ("metadata", "uid")) == charge.uid)

    def _is_awaited(self, namespace: str, charge: OpenCharge) -> bool:
        """True if a PodGroup has a pod, so that a claim may still be created for it.

        The caches suffice: after two minutes they show every stored pod, and a later claim is charged itself.
        """
        pods = self._view.list("Pod", namespace)
        groups = (pod_group(pod, namespace, self._view) for pod in (() if pods is UNKNOWN else pods))
        return any(group is not None and group.uid == charge.uid for group in groups)
