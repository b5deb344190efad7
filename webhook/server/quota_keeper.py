"""Finds the holders of a namespace's quota, to name them in refusals."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

from policies.admission import ENTRIES
from policies.kubernetes.objects import lookup
from policies.quota.counter import Counter
from policies.quota.counting import cover, holders
from policies.quota.demands.bills import Uncountable, charge_under
from policies.quota.ledger.allowances import ChargeVerdict, NoQuota
from policies.quota.ledger.ledger import Exceeded
from policies.quota.limits.quota import QUOTA_NAME, QuotaError, parse_quota, quota_shown
from policies.quota.outcomes import Unavailable, outcome_name
from policies.rules.charges import OWN
from webhook.cluster.answers import APIError, ClusterError
from webhook.cluster.lists import get_object, list_all
from webhook.cluster.resources import RESOURCES
from webhook.ledger import LedgerKey
from webhook.server.logs import log_uncharged
from webhook.server.turns import run_spread

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.admission import Charge, Read
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView, Key
    from policies.quota.limits.quota import Quota
    from policies.quota.outcomes import ChargeOutcome, Holder
    from policies.rules.charges import Amounts, ChargeRequest
    from policies.rules.request import Request
    from policies.rules.settings import GPUAdmissionPolicy
    from policies.rules.settings.choices import Quotas
    from webhook.cluster.client import APIClient
    from webhook.ledger import LedgerWriter
    from webhook.server.turns import Deadline


_CACHE_SECONDS = 5.0
"""Seconds for which a result is cached: a refused controller retries at once, and counting the 2,000 pods of a
namespace takes a second."""
_LONGEST_LOOK = 60.0
"""Seconds after which a search is stopped."""
_LONGEST_WAIT = 1.0
"""Seconds that a refusal waits for the holders."""
_MOST_REMEMBERED = 64

_logger = logging.getLogger("gpu_admission.quotas")

_Found = tuple["Holder", ...]


@dataclass(frozen=True, slots=True)
class _Look:
    """The last search in one namespace."""

    began: float
    task: asyncio.Task[_Found]
    counter: Counter
    """Caches what it counted. Only one search runs at a time, so only one thread uses it."""


@dataclass(eq=False)
class HoldersSeen:
    """Finds the holders of a namespace's quota and caches them for a few seconds."""

    view: ClusterView
    clock: Callable[[], float] = time.monotonic
    """Returns monotonic seconds."""
    _looks: OrderedDict[str, _Look] = field(default_factory=OrderedDict, init=False)

    async def look(self, namespace: str, settings: Quotas, seconds: float) -> _Found:
        """The holders in a namespace; empty if they are not found in time.

        Args:
            namespace: Namespace of the quota.
            settings: How quotas count.
            seconds: Seconds to wait at most.
        """
        task = self._task(namespace, settings)
        done, _ = await asyncio.wait([task], timeout=max(min(seconds, _LONGEST_WAIT), 0))
        return task.result() if done else ()

    def _task(self, namespace: str, settings: Quotas) -> asyncio.Task[_Found]:
        """The last search if it is running or recent; otherwise a new one."""
        last = self._looks.get(namespace)
        if last is not None and (not last.task.done() or self.clock() - last.began < _CACHE_SECONDS):
            return last.task
        counter = Counter() if last is None else last.counter
        task = asyncio.create_task(self._found(namespace, settings, counter), name="holders")
        self._looks[namespace] = _Look(self.clock(), task, counter)
        self._looks.move_to_end(namespace)
        if len(self._looks) > _MOST_REMEMBERED:
            self._looks.popitem(last=False)
        return task

    async def _found(self, namespace: str, settings: Quotas, counter: Counter) -> _Found:
        """The holders; empty after an error, because the refusal is correct without them."""
        try:
            return await run_spread(partial(self._holders, namespace, settings, counter), _LONGEST_LOOK)
        except QuotaError:
            # The quota has changed since the charge.
            return ()
        except Exception:
            _logger.exception("the holders of GPUs in %s could not be determined", namespace)
            return ()

    def _holders(self, namespace: str, settings: Quotas, counter: Counter) -> _Found:
        document = quota_shown(namespace, self.view)
        if document is None:
            return ()
        now = datetime.now(UTC)
        return holders(namespace, parse_quota(document), self.view, settings, now, counter=counter)


_CALL_SECONDS = 5.0
ANSWER_SECONDS = 0.25
"""Seconds of the deadline that are reserved for the answer; charging, and reads before a refusal, stop before."""


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
    """Called with the entry and the outcome of each charge, except those of dry runs."""

    def is_unlimited(self, namespace: str) -> bool:
        """True if a namespace certainly has no GPUQuota, so that nothing is charged."""
        return self.trusts_view() and self.view.get("GPUQuota", QUOTA_NAME, namespace) is None

    def count_outcome(self, request: Request, outcome: ChargeOutcome) -> None:
        """Count the outcome of a charge, unless the request is a dry run."""
        if not request.dry_run:
            self.count(request.entry, outcome_name(outcome))

    async def read(self, step: Read, deadline: Deadline) -> None:
        """Read the objects of a step, unless the namespace has no GPUQuota.

        If time is up or the API server fails, the charge has the outcome `Unavailable`.
        """
        try:
            async with deadline.timeout(ANSWER_SECONDS):
                if await self.writer.exists(LedgerKey.of_namespace(step.charge.namespace)):
                    found = await asyncio.gather(*map(self._get, step.keys))
                    step.found = dict(zip(step.keys, found, strict=True))
                else:
                    step.outcome = NoQuota()
        except (TimeoutError, ClusterError) as error:
            step.outcome = _unavailable(error)
        if step.outcome is not None:
            self._note(step.outcome, step.part.request)

    async def charge(self, step: Charge, settings: GPUAdmissionPolicy, deadline: Deadline) -> None:
        """Write the charge of a step, and set its outcome.

        If time is up or the API server fails, the outcome is `Unavailable`. By default, a refusal names holders only to a
        known caller.
        """
        try:
            step.outcome = await self._write_charge(step.charge, step.part.request, settings, deadline)
        except (TimeoutError, ClusterError) as error:
            step.outcome = _unavailable(error)
        self._note(step.outcome, step.part.request)
        if isinstance(step.outcome, ChargeVerdict) and isinstance(step.outcome.reason, Exceeded):
            seconds = deadline.remaining - ANSWER_SECONDS
            step.holders = await self.holders.look(step.part.request.namespace, settings.quota, seconds)
        choice = {"Always": True, "Never": False}
        step.names_holders = choice.get(settings.quota.name_holders, step.part.request.caller_is_known)

    async def _write_charge(
        self, charge: ChargeRequest, request: Request, settings: GPUAdmissionPolicy, deadline: Deadline
    ) -> ChargeOutcome:
        if charge.excess is not None:
            async with deadline.timeout(ANSWER_SECONDS):
                if not await self.writer.exists(LedgerKey.of_namespace(charge.namespace)):
                    return NoQuota()
        if charge.refusal is not None:
            return charge.refusal
        needs_coverage = charge.of is not None and charge.of[1] == OWN
        try:
            async with deadline.timeout(ANSWER_SECONDS):
                return await self.writer.charge(
                    LedgerKey.of_namespace(charge.namespace),
                    partial(charge_under, charge),
                    enforced=charge.enforced,
                    dry_run=request.dry_run,
                    cover=(lambda: self._read_coverage(charge, settings)) if needs_coverage else None,
                )
        except (Uncountable, QuotaError) as outcome:
            return outcome

    def _note(self, outcome: ChargeOutcome, request: Request) -> None:
        """Log an outcome that needs attention, and count it."""
        if isinstance(outcome, Unavailable | QuotaError):
            why = outcome.why if isinstance(outcome, Unavailable) else str(outcome)
            log_uncharged(ENTRIES[request.entry], request, why)
        self.count_outcome(request, outcome)

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
            found: Object = await get_object(self.client, RESOURCES[kind], name, namespace, timeout=_CALL_SECONDS)
        except ValueError:
            return None
        except APIError as error:
            if not error.is_not_found:
                raise
            return None
        return found


def _unavailable(error: TimeoutError | ClusterError) -> Unavailable:
    if isinstance(error, TimeoutError):
        return Unavailable("the API server takes too long")
    is_lasting = isinstance(error, APIError) and error.code == HTTPStatus.FORBIDDEN
    return Unavailable(str(error), is_lasting=is_lasting)
