"""Expiry: charges whose object nobody has seen for a while are looked up, and given up where it does not exist."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from policies.kubernetes.paths import lookup
from policies.quota.charges import OWN
from webhook.cluster.errors import APIError
from webhook.cluster.resources import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from policies.kubernetes.objects import Object
    from policies.quota.ledger.reservations import OpenCharge
    from webhook.cluster.client import APIClient

__all__ = ["Expiry"]

_UNSEEN_SECONDS = 120.0
"""Longer than any request takes to store what was admitted, and than a watch takes to show it."""
_MOST_LOOKUPS = 32
"""At once; the others have their turn in the next round."""
_ENDED = ("Succeeded", "Failed")


class Expiry:
    """For how long this leader has watched charges without seeing their objects.

    No charge ends by the time that is written in it: clocks differ, and a leader that was just elected has seen nothing
    yet.
    """

    def __init__(self, client: APIClient, clock: Callable[[], float]) -> None:
        """Args: whom to ask, and seconds that never go back."""
        self._client = client
        self._clock = clock
        self._since: dict[str, dict[str, float]] = {}

    def forget(self, namespace: str | None = None) -> None:
        """Have watched nothing so far, in a namespace or anywhere."""
        if namespace is None:
            self._since = {}
        else:
            self._since.pop(namespace, None)

    async def gone(self, namespace: str, charges: Iterable[OpenCharge]) -> list[OpenCharge]:
        """The charges of a namespace that are for nothing: their objects do not exist, or are pods that have ended.

        Args:
            namespace: Of the ledger.
            charges: All that are left on it after everything was counted that can be seen.

        Raises:
            ClusterError: The API server did not answer.
        """
        now, before = self._clock(), self._since.get(namespace, {})
        unseen = {charge.uid: charge for charge in charges if OWN in charge.pieces or charge.kind != "Pod"}
        since = self._since[namespace] = {uid: before.get(uid, now) for uid in unseen}
        due = [unseen[uid] for uid, moment in since.items() if now >= moment + _UNSEEN_SECONDS][:_MOST_LOOKUPS]
        exist = await asyncio.gather(*(self._exists(namespace, charge) for charge in due))
        since.update({charge.uid: now for charge, exists in zip(due, exist, strict=True) if exists})
        return [charge for charge, exists in zip(due, exist, strict=True) if not exists]

    async def _exists(self, namespace: str, charge: OpenCharge) -> bool:
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
        is_it = lookup(found, ("metadata", "uid")) == charge.uid
        return is_it and not (charge.kind == "Pod" and lookup(found, ("status", "phase")) in _ENDED)
