"""Quotas: what is being created is charged to its namespace's quota before it is admitted.

The answer rests on the ledger as it is stored, never on a cache: a quota that was made a moment ago holds as well. Caches
tell what a device is, and what a template asks for; what they do not show yet is read from the API server, so that a
template and a pod that are applied together need not wait for each other. How much is read does not depend on what the
object names: nothing but the GPUQuota in a namespace that has none, and at most 32 objects for one review.
"""

from __future__ import annotations

import asyncio
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

from policies.decision import Decision
from policies.entries import ENTRIES
from policies.kubernetes.paths import lookup
from policies.quota.charges import OWN
from policies.quota.charging.charging import Uncountable, charging
from policies.quota.charging.outcomes import Unavailable, decision, outcome_name
from policies.quota.counting.counting import cover
from policies.quota.ledger.admit import ChargeVerdict, NoQuota
from policies.quota.ledger.ledger import Exceeded
from policies.quota.limits.quota import QuotaError
from policies.review.quota import Templates
from policies.review.upkeep import templates_made_for
from webhook.cluster.errors import APIError, ClusterError
from webhook.cluster.lists import list_all
from webhook.cluster.resources import RESOURCES
from webhook.server.logs import log_uncharged
from webhook.server.overlay import Overlay

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.kubernetes.objects import Object
    from policies.quota.charges import Amounts
    from policies.quota.charging.charging import Charging, Key
    from policies.quota.charging.messages import Holder
    from policies.quota.charging.outcomes import ChargeOutcome
    from policies.quota.limits.quota import Quota
    from policies.request import Request
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView
    from webhook.cluster.client import APIClient
    from webhook.ledger.writer import LedgerWriter
    from webhook.server.deadlines import Deadline
    from webhook.server.holders import HoldersSeen
    from webhook.server.review_runner import Run

__all__ = ["QuotaKeeper"]

_CALL_SECONDS = 5.0
_ANSWER_SECONDS = 0.25
"""What is left of the deadline for the answer when charging is given up, or nobody has found out yet who holds what."""


class QuotaKeeper:
    """Charges what is being created, and says whether it may be."""

    def __init__(
        self,
        client: APIClient,
        view: ClusterView,
        writer: LedgerWriter,
        holders: HoldersSeen,
        *,
        count: Callable[[str, str], None] = lambda _entry, _outcome: None,
    ) -> None:
        """Prepare.

        Args:
            client: Reads what the view does not show yet.
            view: The cluster.
            writer: Writes charges.
            holders: Finds out who holds what there is too little of.
            count: Called for each charge with the entry and what came of it; dry runs are not counted.
        """
        self._client = client
        self._view = view
        self._writer = writer
        self._holders = holders
        self._count = count

    async def decide(
        self,
        request: Request,
        settings: GPUAdmissionPolicy,
        deadline: Deadline,
        run: Run,
        *,
        caller_is_known: bool = False,
    ) -> Decision:
        """Charge what a request creates, if it gets GPUs, and say what came of it.

        Nothing stays charged that is not admitted. Where time is up, or the API server fails, that is the answer.

        Args:
            request: What is being created.
            settings: The choices of the administrator.
            deadline: Of the call.
            run: Runs what takes long so that others are answered meanwhile.
            caller_is_known: Whether the caller is authenticated. If not, a refusal names no holders by default, and claims
                that are stored already are not charged.
        """
        asked = await run(
            lambda: charging(request, self._measured_by(request, settings), settings, caller_is_known=caller_is_known)
        )
        if asked is None:
            return Decision(object=request.object)
        try:
            if asked.unseen or asked.excess is not None:
                async with _until(deadline):
                    if not await self._writer.has_quota(asked.namespace):
                        return await self._answer(asked, NoQuota(), request, settings, deadline)
            if asked.unseen:
                seen = await self._seen(asked, request, settings, deadline, run, caller_is_known=caller_is_known)
                if seen is None:
                    return Decision(object=request.object)
                asked = seen
            if asked.excess is not None and asked.enforced:
                outcome: ChargeOutcome = asked.excess
            else:
                outcome = await self._charged(asked, request, settings, deadline)
        except TimeoutError:
            outcome = Unavailable("the API server takes too long")
        except ClusterError as error:
            is_lasting = isinstance(error, APIError) and error.code == HTTPStatus.FORBIDDEN
            outcome = Unavailable(str(error), is_lasting=is_lasting)
        names = {"Always": True, "Never": False}.get(settings.quota.name_holders, caller_is_known)
        return await self._answer(asked, outcome, request, settings, deadline, names_holders=names)

    def _measured_by(self, request: Request, settings: GPUAdmissionPolicy) -> ClusterView:
        """The cluster; on a dry run with the templates that conversion would have made."""
        if not request.dry_run or request.kind != "Pod" or request.object is None:
            return self._view
        return Templates(self._view, templates_made_for(request.object, request.namespace, self._view, settings))

    async def _seen(
        self,
        asked: Charging,
        request: Request,
        settings: GPUAdmissionPolicy,
        deadline: Deadline,
        run: Run,
        *,
        caller_is_known: bool,
    ) -> Charging | None:
        """What is asked when the objects that the view does not show are as they are stored.

        A PodGroup tells of claims that the view may not show either.
        """
        known: dict[Key, Object | None] = {}
        found: Charging | None = asked
        while found is not None and (new := [key for key in found.unseen if key not in known]):
            async with _until(deadline):
                known.update(zip(new, await asyncio.gather(*map(self._get, new)), strict=True))
            seen = Overlay(self._view, {**known})
            found = await run(partial(charging, request, seen, settings, caller_is_known=caller_is_known))
        return found

    async def _charged(
        self, asked: Charging, request: Request, settings: GPUAdmissionPolicy, deadline: Deadline
    ) -> ChargeOutcome:
        covering = asked.of is not None and asked.of[1] == OWN
        try:
            async with _until(deadline):
                return await self._writer.charge(
                    asked.namespace,
                    asked.charge,
                    enforced=asked.enforced,
                    dry_run=request.dry_run,
                    cover=(lambda: self._covered(asked, settings)) if covering else None,
                )
        except (Uncountable, QuotaError) as outcome:
            return outcome

    async def _answer(
        self,
        asked: Charging,
        outcome: ChargeOutcome,
        request: Request,
        settings: GPUAdmissionPolicy,
        deadline: Deadline,
        *,
        names_holders: bool = False,
    ) -> Decision:
        if isinstance(outcome, Unavailable | QuotaError):
            why = outcome.why if isinstance(outcome, Unavailable) else str(outcome)
            log_uncharged(ENTRIES[request.entry], request, why)
        if not request.dry_run:
            self._count(request.entry, outcome_name(outcome))
        holding: tuple[Holder, ...] = ()
        if isinstance(outcome, ChargeVerdict) and isinstance(outcome.reason, Exceeded):
            seconds = deadline.remaining - _ANSWER_SECONDS
            holding = await self._holders.look(asked.namespace, settings.quota, seconds)
        return decision(request.object, asked, outcome, holding, names_holders=names_holders)

    async def _covered(self, asked: Charging, settings: GPUAdmissionPolicy) -> Callable[[Quota], Amounts]:
        """What the pod of a claim for extended resources is charged for it already."""
        claims = list_all(self._client, RESOURCES["ResourceClaim"], asked.namespace)
        pod, others = await asyncio.gather(self._get(("Pod", asked.namespace, asked.owner)), claims)
        if asked.of is None or lookup(pod, ("metadata", "uid")) != asked.of[0]:
            pod = None
        return lambda quota: cover(pod, others, asked.uid, quota, self._view, settings.quota)

    async def _get(self, key: Key) -> Object | None:
        """An object as it is stored; None where there is none, or none can be called that."""
        kind, namespace, name = key
        try:
            found: Object = await self._client.get(RESOURCES[kind].path(namespace, name), timeout=_CALL_SECONDS)
        except ValueError:
            return None
        except APIError as error:
            if error.not_found:
                return None
            raise
        return found


def _until(deadline: Deadline) -> asyncio.Timeout:
    return asyncio.timeout(max(deadline.remaining - _ANSWER_SECONDS, 0))
