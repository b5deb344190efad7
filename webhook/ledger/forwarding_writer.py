"""The forwarding writer sends charges to the replica that owns a ledger."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from policies.quota.demands.bills import Uncountable
from policies.quota.ledger.allowances import ChargeVerdict
from policies.quota.limits.quota import QuotaError, parse_quota
from webhook.ledger.documents import Spec
from webhook.ledger.links import LostLink
from webhook.ledger.peer_answers import (
    MOST_MESSAGE_BYTES,
    Cancellation,
    ChargeMessage,
    write_cancellation,
    write_charge,
)
from webhook.ledger.pending import ForwardedCharge, new_call
from webhook.ledger.writer import LedgerWriter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from policies.kubernetes.objects import Object
    from policies.quota.ledger.allowances import NoQuota
    from policies.quota.limits.quota import Quota
    from policies.rules.charges import Amounts, Charge
    from webhook.cluster.client import APIClient
    from webhook.ledger.documents import LedgerKey
    from webhook.ledger.links import Link, Links


ANSWERS = ("charged", "declined", "late", "lost")
"""The outcomes of charges that were sent to the owner of a ledger. All but the charged ones were tried by the sender."""
_UNKNOWN = ("late", "lost")
"""Answers after which the owner may still write the charge."""


class ForwardingWriter(LedgerWriter):
    """Writes ledgers, and sends charges for those of other replicas to them.

    The owner writes a charge only if it fits, under the spec that the sender knows. In all other cases the sender tries by
    itself with the same `call`, so a late write of the owner is the sender's own charge. So every refusal is decided by
    the replica that answers.
    """

    def __init__(
        self,
        client: APIClient,
        identity: str,
        links: Links,
        shown: Callable[[LedgerKey], Object | None],
        *,
        count: Callable[[str], None] = lambda _answer: None,
        **options: Any,
    ) -> None:
        """Create a writer without pending writes.

        Args:
            client: Reads and writes GPUQuotas and GPUQuotaGroups.
            identity: Of this replica.
            links: To the other replicas.
            shown: Returns the object of a key that a watch shows, if any.
            count: Called for each charge that was sent, with one of `ANSWERS`.
            options: Those of `LedgerWriter`.
        """
        super().__init__(client, shown=shown, name=identity, **options)
        self._identity = identity
        self._links = links
        self._count = count

    async def charge(
        self,
        key: LedgerKey,
        charge: Callable[[Quota], Charge],
        *,
        enforced: bool,
        dry_run: bool = False,
        cover: Callable[[], Awaitable[Callable[[Quota], Amounts]]] | None = None,
        call: str = "",
    ) -> ChargeVerdict | NoQuota:
        """As `LedgerWriter.charge`."""
        write = partial(super().charge, key, charge, enforced=enforced, dry_run=dry_run, cover=cover)
        owner = None if dry_run else self._owner(key)
        message = None if owner is None else await self._message(key, charge, call or new_call(), cover is not None)
        if owner is None or message is None:
            return await write(call=call)
        answer, is_created = "lost", not enforced
        try:
            answer = await self._ask(owner, *message)
            if answer == "charged":
                return ChargeVerdict(True, None)
            verdict = await write(call=message[0].call)
            is_created = is_created or not isinstance(verdict, ChargeVerdict) or verdict.allowed
            return verdict
        finally:
            if answer in _UNKNOWN and not is_created:
                self._cancel(owner, message[0])

    def withdraw(self, key: LedgerKey, uid: str, call: str) -> None:
        """Take back a charge of a call of this replica.

        Also if the owner of the ledger has admitted it and not written it yet.
        """
        owner = self._owner(key)
        if owner is not None:
            with suppress(LostLink):
                owner.send(write_cancellation(Cancellation(key, uid, call)))
        self.take_back(key, uid, call)

    def owns(self, key: LedgerKey) -> bool:
        """True if this replica is the owner."""
        return self._owner(key) is None

    def _owner(self, key: LedgerKey) -> Link | None:
        """The link to the owner of a ledger; None if this replica is the owner."""
        links = {link.peer.identity: link for link in self._links if link.is_open}
        return links.get(owner_of(str(key), (self._identity, *links)))

    async def _message(
        self, key: LedgerKey, charge: Callable[[Quota], Charge], call: str, needs_coverage: bool
    ) -> tuple[ChargeMessage, Quota] | None:
        """The charge under the spec that the watch shows; None if it cannot be computed or shown no spec."""
        document = self._documents.shown(key)
        if document is None:
            return None
        try:
            quota = parse_quota(document)
            computed = await self._run(key, partial(charge, quota))
        except (QuotaError, Uncountable):
            # The stored GPUQuota may be another one by now.
            return None
        return ChargeMessage(key, computed, Spec.of(document), call, needs_coverage), quota

    async def _ask(self, owner: Link, message: ChargeMessage, quota: Quota) -> str:
        """Send a charge to the owner of the ledger; returns one of `ANSWERS`."""
        text = write_charge(message, quota)
        answer = "declined"
        try:
            async with asyncio.timeout(ForwardedCharge.most_seconds):
                if len(text) < MOST_MESSAGE_BYTES and await owner.ask(message.call, text):
                    answer = "charged"
        except TimeoutError:
            answer = "late"
        except LostLink:
            answer = "lost"
        self._count(answer)
        return answer

    def _cancel(self, owner: Link, message: ChargeMessage) -> None:
        cancellation = Cancellation(message.key, message.charge.uid, message.call)
        try:
            owner.send(write_cancellation(cancellation))
        except LostLink:
            self.take_back(*cancellation)


def owner_of(ledger: str, identities: tuple[str, ...]) -> str:
    """The owner of a ledger among replicas, by rendezvous hashing.

    If a replica comes or goes, only the ledgers that it owns change their owner.
    """
    return max(identities, key=lambda identity: blake2b(f"{ledger} {identity}".encode(), digest_size=8).digest())
