"""Changes that wait for a write of a ledger."""

from __future__ import annotations

import asyncio
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from policies.kubernetes.bounds import TooMuchWork, count_work
from policies.kubernetes.objects import Object
from policies.quota.ledger.allowances import (
    ChargeVerdict,
    Contended,
    NoQuota,
    admit,
    admit_unwritten,
    has_only_certain_charges,
    without_allowances,
    without_uncertain_charges,
)
from policies.quota.ledger.ledger import Exceeded, Ledger
from policies.quota.limits.quota import Quota
from webhook.cluster.answers import APIError
from webhook.ledger.documents import LedgerKey, Spec

if TYPE_CHECKING:
    from policies.rules.charges import Amounts, Charge
    from webhook.ledger.documents import Reading, Swap


Make = Callable[[Ledger, Quota, Object], Ledger]
"""Returns a new ledger for the stored one, the spec of its GPUQuota, and the GPUQuota itself. Returns the same ledger if
nothing needs to be written."""

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class Judgement(Generic[_Answer]):
    """The result of evaluating a pending write."""

    ledger: Ledger
    """The ledger to write; the previous one if nothing needs to be written."""
    written: _Answer
    """The answer after the write."""
    unwritten: _Answer | Exception
    """The answer if every write meets a conflict."""


@dataclass(eq=False)
class PendingWrite(ABC, Generic[_Answer]):
    """A change to a ledger that waits for its write and its answer."""

    most_seconds: ClassVar[float]
    """Seconds after which it is not tried again."""

    since: float
    """The time it was queued, by the monotonic clock."""
    answered: asyncio.Future[_Answer] = field(default_factory=asyncio.Future, init=False)
    is_judged: bool = field(default=False, init=False)
    """True while `judge` runs. Its result may still be written after the caller was cancelled."""
    _judgement: Judgement[_Answer] | Exception = field(init=False)

    def judge(self, ledger: Ledger, reading: Reading) -> Ledger:
        """The ledger to write; the same one if there is nothing to write or the caller was cancelled.

        An error becomes the answer of this pending write only; the others in the batch continue.

        Args:
            ledger: The ledger that was read, with the changes of the earlier pending writes of the batch.
            reading: The GPUQuota that was read.

        Raises:
            TooMuchWork: the work is too much for the event loop; see `policies.kubernetes.bounds`.
        """
        self.is_judged = True  # before the check for a cancelled caller: `judge` may run in another thread
        try:
            if self.answered.done():
                return ledger
            self._judgement = judgement = self._evaluate(ledger, reading)
        except TooMuchWork:
            raise
        except Exception as error:  # noqa: BLE001 - any error is raised in the caller that waits for the answer
            self._judgement = error
            return ledger
        finally:
            self.is_judged = False
        return judgement.ledger

    @property
    def needs_latest(self) -> bool:
        """True if an answer without a write must rest on the latest GPUQuota."""
        return True

    @property
    def is_refused(self) -> bool:
        """True if the judgement is a refusal, for which an allowance may be the reason."""
        return False

    def finish_attempt(self, swap: Swap, now: float) -> None:
        """Answer if the write succeeded or `most_seconds` passed; otherwise wait for the next attempt."""
        if self.answered.done():
            return
        if not swap and now - self.since < self.most_seconds:
            return
        found = self._judgement
        self.answer(found if isinstance(found, Exception) else found.written if swap else found.unwritten)

    def answer(self, answer: _Answer | Exception) -> None:
        """Set the answer, unless there is one or the caller was cancelled."""
        if self.answered.done():
            return
        if isinstance(answer, Exception):
            self.answered.set_exception(answer)
        else:
            self.answered.set_result(answer)

    @abstractmethod
    def answer_without_quota(self) -> None:
        """Answer for a ledger whose object does not exist."""

    @abstractmethod
    def _evaluate(self, ledger: Ledger, reading: Reading) -> Judgement[_Answer]:
        """The new ledger and the answers; an exception becomes the answer."""


@dataclass(eq=False)
class PendingFlush(PendingWrite[None]):
    """A write of the charges that an allowance was spent on; gives the allowance back if it was not used."""

    most_seconds = 2.0

    @property
    def needs_latest(self) -> bool:
        """False: without anything to write there is nothing to answer."""
        return False

    def answer_without_quota(self) -> None:
        """There is nothing to write."""
        self.answer(None)

    def _evaluate(self, ledger: Ledger, reading: Reading) -> Judgement[None]:
        return Judgement(ledger, None, None)


@dataclass(eq=False)
class PendingChange(PendingWrite[Ledger | None]):
    """A new ledger to write. It is tried longer than charges, because users retry charges themselves."""

    most_seconds = 10.0

    key: LedgerKey
    make: Make

    def answer_without_quota(self) -> None:
        """Answer that there is nothing to write."""
        self.answer(None)

    def _evaluate(self, ledger: Ledger, reading: Reading) -> Judgement[Ledger | None]:
        after = self.make(ledger, reading.quota, reading.document)
        contended = f"every write of {self.key.label} met a conflict for {self.most_seconds:.0f} s"
        return Judgement(after, after, APIError(HTTPStatus.CONFLICT, "Conflict", contended))


_CHARGE_UNITS = 300
"""Units of work for a charge. All pending charges are evaluated together."""


def new_call() -> str:
    """A random name for one call, which no caller can guess."""
    return secrets.token_hex(8)


@dataclass(frozen=True, slots=True)
class Coverage:
    """The amounts that `used` already contains for a claim that the scheduler creates."""

    amounts: Callable[[Quota], Amounts]
    since: Ledger
    """The ledger before the amounts were read. They stay valid for later ledgers whose `counted` is the same: an object
    is either in the lists that were counted, or its charge is still on the ledger."""


class CoverageRequired(Exception):  # noqa: N818 - not an error: the caller reads the coverage and retries
    """Nothing was charged: the amounts that `used` already contains for the claim must be read first."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self.ledger = ledger
        """The current ledger."""


class PendingObject(PendingWrite[_Answer]):
    """A charge for an object that is being created."""

    call: str
    """Marks the charge on the ledger as written by this call. Random, so that no caller can guess another's value."""

    @abstractmethod
    def charge_without_write(self, spec: Spec | None, quota: Quota) -> Charge | None:
        """The charge under a spec, to be admitted without a write; None if that is not allowed.

        Raises:
            Uncountable: the quota cannot count what the object requests.
        """

    @abstractmethod
    def answer_charged(self, charge: Charge) -> None:
        """Answer that the object is charged."""


@dataclass(eq=False)
class PendingCharge(PendingObject[ChargeVerdict | NoQuota]):
    """A charge for an object that is being created, in a call that this replica answers."""

    most_seconds = 1.25
    """With the 0.3 s that the owner of the ledger has, and the longest pause, the last attempt begins within two seconds."""

    charge: Callable[[Quota], Charge]
    """Returns the charge for the current limits."""
    enforced: bool
    dry_run: bool = False
    needs_coverage: bool = False
    """True if `used` may already contain amounts for the object."""
    coverage: Coverage | None = None
    call: str = field(default_factory=new_call)
    written_uid: str = field(default="", init=False)
    """The uid of the charge that this call wrote or may have written. A conflict does not prove that the write failed:
    the client retries after a broken connection, and the second write then conflicts with the first."""

    def charge_without_write(self, spec: Spec | None, quota: Quota) -> Charge | None:
        """The charge; None for a dry run."""
        return None if self.dry_run else self.charge(quota)

    def answer_charged(self, charge: Charge) -> None:
        """Answer that the object may be created."""
        self.written_uid = charge.uid
        self.answer(ChargeVerdict(True, None))

    @property
    def is_refused(self) -> bool:
        """True if the object is not admitted. False for a dry run, for which nothing may be written."""
        found = self._judgement if not self.answered.done() and not self.dry_run else None
        return isinstance(found, Judgement) and isinstance(found.written, ChargeVerdict) and not found.written.allowed

    def answer_without_quota(self) -> None:
        """Answer that the namespace has no limits."""
        self.answer(NoQuota())

    def _evaluate(self, ledger: Ledger, reading: Reading) -> Judgement[ChargeVerdict | NoQuota]:
        count_work(_CHARGE_UNITS)
        quota, charge = reading.quota, self.charge(reading.quota)
        counted = self._counted_amounts(charge, ledger, quota)
        verdict, charged = admit(
            ledger, quota, charge, enforced=self.enforced, time=reading.time, counted=counted, call=self.call
        )
        unwritten = admit_unwritten(quota, charge, enforced=self.enforced)
        if isinstance(exceeded := verdict.reason, Exceeded) and not has_only_certain_charges(ledger):
            verdict = self._verdict_beside_uncertain(ledger, quota, charge, counted)
            if isinstance(verdict.reason, Contended):
                return Judgement(ledger, verdict, verdict)
            charged = exceeded.anyway if verdict.allowed else ledger
        if self.dry_run:
            return Judgement(ledger, verdict, verdict)
        opened = charged.reservations.get(charge.uid)
        if opened is not None and opened.call == self.call:
            self.written_uid = charge.uid
        return Judgement(charged, verdict, unwritten)

    def _verdict_beside_uncertain(
        self, ledger: Ledger, quota: Quota, charge: Charge, counted: Amounts
    ) -> ChargeVerdict:
        """The verdict for a charge that exceeds a limit beside uncertain charges.

        No refusal rests on these: they are given back, or counted once, in a moment. A refusal names all charges but allowances.
        """
        certain, settled = (
            admit(each, quota, charge, enforced=self.enforced, counted=counted)[0]
            for each in (without_uncertain_charges(ledger), without_allowances(ledger))
        )
        if certain.reason is not None:
            return settled
        # Late charges are in use, or soon will be, so a quota that is not enforced is not exceeded for them either.
        must_wait = (self.enforced or settled.reason is not None) and quota.mode != "Warn" and not self.dry_run
        return ChargeVerdict(False, Contended()) if must_wait else certain

    def _counted_amounts(self, charge: Charge, ledger: Ledger, quota: Quota) -> Amounts:
        """The amounts that `used` already contains for the object; empty while its pod's charge is open."""
        if not _must_read_coverage(charge, ledger, needs_coverage=self.needs_coverage):
            return {}
        if self.coverage is None or self.coverage.since.counted != ledger.counted:
            raise CoverageRequired(ledger)
        return self.coverage.amounts(quota)


def _must_read_coverage(charge: Charge, ledger: Ledger, *, needs_coverage: bool) -> bool:
    """True if `used` may contain amounts for the object. It does not while the charge of its pod is open."""
    return needs_coverage and (charge.of is None or not ledger.reservations.is_open(*charge.of))


@dataclass(eq=False)
class ForwardedCharge(PendingObject[bool]):
    """A charge for a call that another replica answers; the answer is True if it is on the ledger.

    It is written only if it fits. The other replica decides everything else itself.
    """

    most_seconds = 0.3

    charge: Charge
    spec: Spec
    """The spec under which the charge was computed."""
    call: str
    needs_coverage: bool = False
    """As `PendingCharge` has it."""

    def charge_without_write(self, spec: Spec | None, quota: Quota) -> Charge | None:
        """The charge, if it was computed under this spec."""
        return self.charge if self.spec == spec else None

    def answer_charged(self, charge: Charge) -> None:
        """Answer that it is on the ledger, or will be."""
        self.answer(True)

    @property
    def needs_latest(self) -> bool:
        """False if it was not charged: the other replica reads the latest GPUQuota then."""
        if self.answered.done():
            return False
        return not isinstance(self._judgement, Judgement) or self._judgement.written

    @property
    def is_refused(self) -> bool:
        """True if it does not fit; False if it came too late."""
        return not (self.answered.done() or self.needs_latest)

    def answer_without_quota(self) -> None:
        """Answer that nothing was charged."""
        self.answer(False)

    def _evaluate(self, ledger: Ledger, reading: Reading) -> Judgement[bool]:
        count_work(_CHARGE_UNITS)
        charge = self.charge
        must_read = _must_read_coverage(charge, ledger, needs_coverage=self.needs_coverage)
        if not must_read and Spec.of(reading.document) == self.spec:
            charged = ledger.charge(charge, reading.quota, time=reading.time, call=self.call)
            if isinstance(charged, Ledger):
                return Judgement(charged, True, False)
        return Judgement(ledger, False, False)
