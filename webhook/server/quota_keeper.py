"""Charges an object to its namespace's quota before it is admitted.

The answer is based on the stored ledger, never on a cache. Only that a namespace has no GPUQuota is taken from a cache,
while that is up to date (`webhook.controllers.presence`). Caches provide devices and templates. An object that they do
not show yet is read from the API server, so that a template and a pod can be applied together. The number of reads is
bounded whatever the object names: at most the GPUQuota in a namespace without one, and at most 32 objects for one review.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

from policies.entries import ENTRIES
from policies.kubernetes.paths import lookup
from policies.quota.bills import Uncountable, charge_under
from policies.quota.charges import OWN
from policies.quota.charging.messages import Unavailable
from policies.quota.charging.outcomes import outcome_name, settle
from policies.quota.counting.counting import cover
from policies.quota.ledger.admit import ChargeVerdict, NoQuota
from policies.quota.ledger.ledger import Exceeded
from policies.quota.limits.quota import QuotaError
from policies.quota.opt_in import QUOTA_NAME
from policies.review import review_concern
from policies.view import Overlay
from webhook.cluster.errors import APIError, ClusterError
from webhook.cluster.lists import list_all
from webhook.cluster.resources import RESOURCES
from webhook.server.logs import log_uncharged

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.decision import Decision
    from policies.kubernetes.objects import Object
    from policies.quota.charges import Amounts, ChargeRequest
    from policies.quota.charging.messages import Holder
    from policies.quota.charging.outcomes import ChargeOutcome
    from policies.quota.limits.quota import Quota
    from policies.request import Request
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView, Key
    from webhook.cluster.client import APIClient
    from webhook.ledger.writer import LedgerWriter
    from webhook.server.deadlines import Deadline
    from webhook.server.holders import HoldersSeen
    from webhook.server.review_runner import Run

__all__ = ["QuotaKeeper"]

_CALL_SECONDS = 5.0
_ANSWER_SECONDS = 0.25
"""Seconds of the deadline that are reserved for the answer; charging and the search for holders stop before."""


@dataclass(frozen=True, slots=True)
class QuotaKeeper:
    """Charges objects that are being created, and decides whether the quota admits them."""

    client: APIClient
    """Reads objects that the view does not show yet."""
    view: ClusterView
    """The cluster."""
    writer: LedgerWriter
    """Writes charges."""
    holders: HoldersSeen
    """Finds the holders of an exceeded quota."""
    trusts_view: Callable[[], bool] = lambda: False
    """True while the view shows every GPUQuota that must hold; False if the API server must be asked."""
    count: Callable[[str, str], None] = lambda _entry, _outcome: None
    """Called for each charge with the entry and the outcome; not for dry runs."""

    def is_unlimited(self, namespace: str) -> bool:
        """True if a namespace certainly has no GPUQuota, so that nothing is charged."""
        return self.trusts_view() and self.view.get("GPUQuota", QUOTA_NAME, namespace) is None

    def count_outcome(self, request: Request, outcome: ChargeOutcome) -> None:
        """Count the outcome of a charge, unless the request is a dry run."""
        if not request.dry_run:
            self.count(request.entry, outcome_name(outcome))

    async def charge(self, decision: Decision, request: Request, settings: GPUAdmissionPolicy, run: Run) -> Decision:
        """Write the charge of a decision, and return the decision with its outcome.

        An object that is not admitted is not charged. If time is up or the API server fails, the decision says so.

        Args:
            decision: Decision on quotas, with a charge.
            request: The request. For an unknown caller, a refusal names no holders by default.
            settings: The administrator's settings.
            run: Runs long computations so that other calls are answered meanwhile; has the deadline.
        """
        deadline = run.deadline
        outcome: ChargeOutcome
        try:
            if not await self._may_be_limited(decision.charges[0], deadline):
                outcome = NoQuota()
            else:
                decision = await self._review_with_unseen(decision, request, settings, run)
                if not decision.charges:
                    return decision
                outcome = await self._write_charge(decision.charges[0], request, settings, deadline)
        except TimeoutError:
            outcome = Unavailable("the API server takes too long")
        except ClusterError as error:
            is_lasting = isinstance(error, APIError) and error.code == HTTPStatus.FORBIDDEN
            outcome = Unavailable(str(error), is_lasting=is_lasting)
        return await self._settle(decision, outcome, request, settings, deadline)

    async def _may_be_limited(self, charge: ChargeRequest, deadline: Deadline) -> bool:
        """False if objects would have to be read for the charge, and the namespace has no GPUQuota."""
        if not charge.unseen and charge.excess is None:
            return True
        async with _until(deadline):
            return await self.writer.has_quota(charge.namespace)

    async def _review_with_unseen(
        self, decision: Decision, request: Request, settings: GPUAdmissionPolicy, run: Run
    ) -> Decision:
        """The decision with all objects that its charge needs."""
        known: dict[Key, Object | None] = {}
        while decision.charges and (new := [key for key in decision.charges[0].unseen if key not in known]):
            # A PodGroup names claims that the view may not show either.
            async with _until(run.deadline):
                known.update(zip(new, await asyncio.gather(*map(self._get, new)), strict=True))
            decision = await run(partial(review_concern, "quota", request, Overlay(self.view, {**known}), settings))
        return decision

    async def _write_charge(
        self, charge: ChargeRequest, request: Request, settings: GPUAdmissionPolicy, deadline: Deadline
    ) -> ChargeOutcome:
        if charge.refusal is not None:
            return charge.refusal
        needs_coverage = charge.of is not None and charge.of[1] == OWN
        try:
            async with _until(deadline):
                return await self.writer.charge(
                    charge.namespace,
                    partial(charge_under, charge),
                    enforced=charge.enforced,
                    dry_run=request.dry_run,
                    cover=(lambda: self._read_coverage(charge, settings)) if needs_coverage else None,
                )
        except (Uncountable, QuotaError) as outcome:
            return outcome

    async def _settle(
        self,
        decision: Decision,
        outcome: ChargeOutcome,
        request: Request,
        settings: GPUAdmissionPolicy,
        deadline: Deadline,
    ) -> Decision:
        if isinstance(outcome, Unavailable | QuotaError):
            why = outcome.why if isinstance(outcome, Unavailable) else str(outcome)
            log_uncharged(ENTRIES[request.entry], request, why)
        self.count_outcome(request, outcome)
        holders: tuple[Holder, ...] = ()
        if isinstance(outcome, ChargeVerdict) and isinstance(outcome.reason, Exceeded):
            seconds = deadline.remaining - _ANSWER_SECONDS
            holders = await self.holders.look(request.namespace, settings.quota, seconds)
        names = {"Always": True, "Never": False}.get(settings.quota.name_holders, request.caller_is_known)
        return settle(decision, outcome, holders, names_holders=names)

    async def _read_coverage(self, charge: ChargeRequest, settings: GPUAdmissionPolicy) -> Callable[[Quota], Amounts]:
        """Read the amounts that the pod of a claim for extended resources is charged for it already."""
        claims = list_all(self.client, RESOURCES["ResourceClaim"], charge.namespace)
        pod, others = await asyncio.gather(self._get(("Pod", charge.namespace, charge.owner)), claims)
        if charge.of is None or lookup(pod, ("metadata", "uid")) != charge.of[0]:
            pod = None
        return lambda quota: cover(pod, others, charge.uid, quota, self.view, settings.quota)

    async def _get(self, key: Key) -> Object | None:
        """Read a stored object; None if it does not exist or its name is invalid."""
        kind, namespace, name = key
        try:
            found: Object = await self.client.get(RESOURCES[kind].path(namespace, name), timeout=_CALL_SECONDS)
        except ValueError:
            return None
        except APIError as error:
            if error.is_not_found:
                return None
            raise
        return found


def _until(deadline: Deadline) -> asyncio.Timeout:
    return asyncio.timeout(max(deadline.remaining - _ANSWER_SECONDS, 0))
