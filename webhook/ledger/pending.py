"""Charges and changes that wait for a write of a namespace's ledger."""

from __future__ import annotations

import asyncio
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, ClassVar, Generic, NamedTuple, TypeVar

from policies.kubernetes.objects import Object
from policies.kubernetes.paths import lookup
from policies.quota.ledger.admit import ChargeVerdict, NoQuota, admit, admit_unwritten
from policies.quota.ledger.allowances import has_allowance, without_allowances
from policies.quota.ledger.ledger import Exceeded, Ledger
from policies.quota.limits.quota import Quota
from policies.quota.opt_in import QUOTA_NAME
from policies.work import TooMuchWork, count_work
from webhook.cluster.errors import APIError

if TYPE_CHECKING:
    from policies.quota.charges import Amounts, Charge
    from webhook.ledger.documents import Reading, Swap

__all__ = [
    "Coverage",
    "CoverageRequired",
    "ForwardedCharge",
    "Make",
    "PendingChange",
    "PendingCharge",
    "PendingFlush",
    "PendingWrite",
    "Spec",
    "new_call",
]

Make = Callable[[Ledger, Quota, Object], Ledger]
"""Returns a new ledger for the stored one, the spec of its GPUQuota, and the GPUQuota itself. Returns the same ledger if
nothing needs to be written."""

_Answer = TypeVar("_Answer")

_CHARGE_UNITS = 300
"""Units of work for a charge on a ledger with 1,000 open charges. All pending charges are evaluated together."""


class Spec(NamedTuple):
    """Identifies the spec of a GPUQuota."""

    uid: str
    generation: int

    @classmethod
    def of(cls, document: Object) -> Spec:
        """The spec of a stored GPUQuota."""
        return cls(lookup(document, ("metadata", "uid")), lookup(document, ("metadata", "generation")))


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
            TooMuchWork: the work is too much for the event loop; see `policies.work`.
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
        """Answer for a namespace without a GPUQuota."""

    @abstractmethod
    def _evaluate(self, ledger: Ledger, reading: Reading) -> Judgement[_Answer]:
        """The new ledger and the answers; an exception becomes the answer."""


def new_call() -> str:
    """A random name for one call, which no caller can guess."""
    return secrets.token_hex(8)


@dataclass(eq=False)
class PendingCharge(PendingWrite[ChargeVerdict | NoQuota]):
    """A charge for an object that is being created."""

    most_seconds = 3.0

    charge: Callable[[Quota], Charge]
    """Returns the charge for the current limits."""
    enforced: bool
    dry_run: bool = False
    needs_coverage: bool = False
    """True if `used` may already contain amounts for the object."""
    coverage: Coverage | None = None
    call: str = field(default_factory=new_call)
    """Marks the charge on the ledger as written by this call. Random, so that no caller can guess another's value."""
    written_uid: str = field(default="", init=False)
    """The uid of the charge that this call wrote or may have written. A conflict does not prove that the write failed:
    the client retries after a broken connection, and the second write then conflicts with the first."""

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
        if isinstance(exceeded := verdict.reason, Exceeded) and has_allowance(ledger):
            # Another replica may give back what it has reserved, or write what it has admitted.
            verdict, _ = admit(without_allowances(ledger), quota, charge, enforced=self.enforced, counted=counted)
            if verdict.reason is None and not (self.dry_run or unwritten.allowed):
                return Judgement(ledger, unwritten, unwritten)
            charged = exceeded.anyway if verdict.allowed else ledger
        if self.dry_run:
            return Judgement(ledger, verdict, verdict)
        opened = charged.reservations.get(charge.uid)
        if opened is not None and opened.call == self.call:
            self.written_uid = charge.uid
        return Judgement(charged, verdict, unwritten)

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
class ForwardedCharge(PendingWrite[bool]):
    """A charge for a call that another replica answers; the answer is True if it is on the ledger.

    It is written only if it fits. The other replica decides everything else itself.
    """

    most_seconds = 0.3

    charge: Charge
    spec: Spec
    """The spec under which the charge was computed."""
    call: str
    """The random name of the other replica's call."""
    needs_coverage: bool = False
    """As `PendingCharge` has it."""

    @property
    def needs_latest(self) -> bool:
        """False if it was not charged: the other replica reads the latest GPUQuota then."""
        if self.answered.done():
            return False
        return not isinstance(self._judgement, Judgement) or self._judgement.written

    @property
    def is_refused(self) -> bool:
        """True if it was not charged."""
        return not self.needs_latest

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

    namespace: str
    make: Make

    def answer_without_quota(self) -> None:
        """Answer that there is nothing to write."""
        self.answer(None)

    def _evaluate(self, ledger: Ledger, reading: Reading) -> Judgement[Ledger | None]:
        after = self.make(ledger, reading.quota, reading.document)
        return Judgement(after, after, APIError(HTTPStatus.CONFLICT, "Conflict", self._contended))

    @property
    def _contended(self) -> str:
        return f"every write of GPUQuota {QUOTA_NAME} of namespace {self.namespace} met a conflict for {self.most_seconds:.0f} s"
