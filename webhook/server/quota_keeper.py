"""Charges new objects to the quotas of their namespaces, and finds who holds a quota."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

from policies.admission import ENTRIES
from policies.kubernetes.objects import lookup
from policies.kubernetes.view import UNKNOWN
from policies.quota.counter import Counter
from policies.quota.counting import cover, holders, namespaces_of
from policies.quota.demands.bills import Uncountable, charge_under
from policies.quota.ledger.allowances import ChargeVerdict, NoQuota
from policies.quota.ledger.ledger import Exceeded
from policies.quota.limits.cluster_quota import CLUSTER_QUOTA, group_shown, read_tenancy
from policies.quota.limits.quota import QUOTA_NAME, QuotaError, QuotaNames, parse_quota
from policies.quota.outcomes import QuotaOutcome, Unavailable, outcome_name
from policies.rules.charges import OWN
from webhook.cluster.answers import APIError, ClusterError
from webhook.cluster.lists import get_object, list_all
from webhook.cluster.resources import RESOURCES
from webhook.ledger import LedgerKey
from webhook.server.logs import log_uncharged
from webhook.server.turns import run_spread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from policies.admission import Charge, Read
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView, Key
    from policies.quota.limits.cluster_quota import Group
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
    """The last search for one quota."""

    began: float
    task: asyncio.Task[_Found]
    counters: defaultdict[str, Counter]
    """By namespace, which cache what they counted. Only one search runs at a time, so only one thread uses them."""


@dataclass(eq=False)
class HoldersSeen:
    """Finds the holders of quotas and caches them for a few seconds."""

    view: ClusterView
    clock: Callable[[], float] = time.monotonic
    """Returns monotonic seconds."""
    _looks: OrderedDict[LedgerKey, _Look] = field(default_factory=OrderedDict, init=False)

    async def look(self, key: LedgerKey, settings: Quotas, seconds: float) -> _Found:
        """The holders of a quota; empty if they are not found in time.

        Args:
            key: Of the quota's ledger.
            settings: How quotas count.
            seconds: Seconds to wait at most.
        """
        task = self._task(key, settings)
        done, _ = await asyncio.wait([task], timeout=max(min(seconds, _LONGEST_WAIT), 0))
        return task.result() if done else ()

    def _task(self, key: LedgerKey, settings: Quotas) -> asyncio.Task[_Found]:
        """The last search if it is running or recent; otherwise a new one."""
        last = self._looks.get(key)
        if last is not None and (not last.task.done() or self.clock() - last.began < _CACHE_SECONDS):
            return last.task
        counters = defaultdict(Counter) if last is None else last.counters
        task = asyncio.create_task(self._found(key, settings, counters), name="holders")
        self._looks[key] = _Look(self.clock(), task, counters)
        self._looks.move_to_end(key)
        if len(self._looks) > _MOST_REMEMBERED:
            self._looks.popitem(last=False)
        return task

    async def _found(self, key: LedgerKey, settings: Quotas, counters: defaultdict[str, Counter]) -> _Found:
        """The holders; empty after an error, because the refusal is correct without them."""
        try:
            return await run_spread(partial(self._holders, key, settings, counters), _LONGEST_LOOK)
        except QuotaError:
            # The quota has changed since the charge.
            return ()
        except Exception:
            _logger.exception("the holders of GPUs in %s could not be determined", key)
            return ()

    def _holders(self, key: LedgerKey, settings: Quotas, counters: defaultdict[str, Counter]) -> _Found:
        document = key.shown_object(self.view)
        if document is None:
            return ()
        quota, now = parse_quota(document), datetime.now(UTC)
        return tuple(
            each
            for namespace in namespaces_of(document, self.view)
            for each in holders(namespace, quota, self.view, settings, now, counter=counters[namespace])
        )


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
    trusts_groups: Callable[[], bool] = lambda: True
    """The same for ClusterGPUQuotas and the labels of namespaces."""
    count: Callable[[str, str], None] = lambda _entry, _outcome: None
    """Called with the entry and the outcome of each charge, except those of dry runs."""

    def is_unlimited(self, namespace: str) -> bool:
        """True if a namespace certainly has no quota, so that nothing is charged."""
        if not self.trusts_view() or self.view.get("GPUQuota", QUOTA_NAME, namespace) is not None:
            return False
        return self.trusts_groups() and group_shown(namespace, self.view) is None

    def count_outcome(self, request: Request, outcome: ChargeOutcome) -> None:
        """Count the outcome of a charge, unless the request is a dry run."""
        if not request.dry_run:
            self.count(request.entry, outcome_name(outcome))

    async def read(self, step: Read, deadline: Deadline) -> None:
        """Read the objects of a step, unless the namespace has no quota.

        If time is up or the API server fails, the charge has the outcome `Unavailable`.
        """
        try:
            async with deadline.timeout(ANSWER_SECONDS):
                if await self._quotas(step.charge):
                    found = await asyncio.gather(*map(self._get, step.keys))
                    step.found = dict(zip(step.keys, found, strict=True))
                else:
                    step.outcomes = ()
        except (TimeoutError, ClusterError) as error:
            step.outcomes = [_own_outcome(step.charge, _unavailable(error))]
        except _NotChargedError as error:
            step.outcomes = [error.outcome]
        if step.outcomes is not None:
            self._note(step.outcomes, step.part.request)

    async def charge(self, step: Charge, settings: GPUAdmissionPolicy, deadline: Deadline) -> None:
        """Write the charge of a step, and set its outcomes.

        If time is up or the API server fails, the outcome is `Unavailable`. By default, a refusal names holders only to a
        known caller.
        """
        request = step.part.request
        step.outcomes = await self._outcomes(step.charge, request, settings, deadline)
        self._note(step.outcomes, request)
        choice = {"Always": True, "Never": False}
        step.names_holders = choice.get(settings.quota.name_holders, request.caller_is_known)

    async def _outcomes(
        self, charge: ChargeRequest, request: Request, settings: GPUAdmissionPolicy, deadline: Deadline
    ) -> list[QuotaOutcome]:
        quotas: Mapping[LedgerKey, QuotaNames] = {}
        try:
            async with deadline.timeout(ANSWER_SECONDS):
                quotas = await self._quotas(charge)
                verdicts = await self._write_charge(charge, quotas, request, settings)
        except (TimeoutError, ClusterError) as error:
            return [_own_outcome(charge, _unavailable(error))]
        except _NotChargedError as error:
            return [error.outcome]
        except (Uncountable, QuotaError) as error:
            return [QuotaOutcome(self._failed_quota(charge, quotas), error)]
        outcomes = []
        for key, outcome in verdicts.items():
            found: _Found = ()
            if isinstance(outcome, ChargeVerdict) and isinstance(outcome.reason, Exceeded):
                found = await self.holders.look(key, settings.quota, deadline.remaining - ANSWER_SECONDS)
            outcomes.append(QuotaOutcome(quotas[key], outcome, found))
        return outcomes

    def _failed_quota(self, charge: ChargeRequest, quotas: Mapping[LedgerKey, QuotaNames]) -> QuotaNames:
        """The first quota that cannot be read or cannot count a charge."""
        for key, names in quotas.items():
            try:
                charge_under(charge, parse_quota(key.shown_object(self.view)))
            except (Uncountable, QuotaError):
                return names
        return QuotaNames.of_namespace(charge.namespace)

    async def _quotas(self, charge: ChargeRequest) -> Mapping[LedgerKey, QuotaNames]:
        """The quotas of an object's namespace that exist, that of its group first."""
        quotas: dict[LedgerKey, QuotaNames] = {}
        if (group := await self._group(charge.namespace)) is not None:
            key = LedgerKey.of_group(group.name)
            if await self.writer.exists(key):
                quotas[key] = group.words
            elif charge.enforced and charge.is_for_gpus:
                raise _NotChargedError(group.words, Unavailable(_NO_GROUP.format(group.name)))
        own = LedgerKey.of_namespace(charge.namespace)
        if await self.writer.exists(own):
            quotas[own] = QuotaNames.of_namespace(charge.namespace)
        return quotas

    async def _group(self, namespace: str) -> Group | None:
        """The group of a namespace; read from the API server where the view may be behind."""
        shown = group_shown(namespace, self.view)
        if shown is not UNKNOWN and self.trusts_groups():
            return shown
        try:
            tenancy = read_tenancy(await list_all(self.client, RESOURCES[CLUSTER_QUOTA]))
        except APIError as error:
            if error.is_not_found:
                return None
            raise
        if not tenancy.quotas:
            return None
        found = await self._get(("Namespace", "", namespace))
        return None if found is None else tenancy.group_of(found)

    async def _write_charge(
        self,
        charge: ChargeRequest,
        quotas: Mapping[LedgerKey, QuotaNames],
        request: Request,
        settings: GPUAdmissionPolicy,
    ) -> Mapping[LedgerKey, ChargeOutcome]:
        if charge.refusal is not None:
            return dict.fromkeys(quotas, charge.refusal)
        needs_coverage = charge.of is not None and charge.of[1] == OWN
        cover = (lambda: self._read_coverage(charge, settings)) if needs_coverage else None
        charges = {key: partial(charge_under, charge if key.namespace else charge.in_group) for key in quotas}
        if len(charges) > 1:
            return await self.writer.charge_each(
                charges, charge.uid, enforced=charge.enforced, dry_run=request.dry_run, cover=cover
            )
        return {
            key: await self.writer.charge(key, made, enforced=charge.enforced, dry_run=request.dry_run, cover=cover)
            for key, made in charges.items()
        }

    def _note(self, outcomes: Sequence[QuotaOutcome], request: Request) -> None:
        """Log the outcomes that need attention, and count the first that is no plain charge."""
        for _, outcome, _ in outcomes:
            if isinstance(outcome, Unavailable | QuotaError):
                why = outcome.why if isinstance(outcome, Unavailable) else str(outcome)
                log_uncharged(ENTRIES[request.entry], request, why)
        plain = outcomes[0].outcome if outcomes else NoQuota()
        first = next((each.outcome for each in outcomes if outcome_name(each.outcome) != "charged"), plain)
        self.count_outcome(request, first)

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


_NO_GROUP = "GPUQuotaGroup {} does not exist yet, and is made within seconds"


class _NotChargedError(Exception):
    """A quota cannot be charged now."""

    def __init__(self, quota: QuotaNames, outcome: Unavailable) -> None:
        super().__init__(outcome.why)
        self.outcome = QuotaOutcome(quota, outcome)


def _own_outcome(charge: ChargeRequest, outcome: ChargeOutcome) -> QuotaOutcome:
    """An outcome in the words for the namespace's own quota."""
    return QuotaOutcome(QuotaNames.of_namespace(charge.namespace), outcome)


def _unavailable(error: TimeoutError | ClusterError) -> Unavailable:
    if isinstance(error, TimeoutError):
        return Unavailable("the API server takes too long")
    is_lasting = isinstance(error, APIError) and error.code == HTTPStatus.FORBIDDEN
    return Unavailable(str(error), is_lasting=is_lasting)
