"""What waits for its turn with a namespace's ledger, and what becomes of it."""

from __future__ import annotations

import asyncio
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from policies.kubernetes.objects import Object
from policies.quota.ledger.admit import ChargeVerdict, NoQuota, admit, admit_unwritten
from policies.quota.ledger.ledger import Ledger
from policies.quota.limits.quota import NAME, Quota
from policies.work import TooMuchWork, count_work
from webhook.cluster.errors import APIError

if TYPE_CHECKING:
    from policies.quota.charges import Amounts, Charge
    from webhook.ledger.documents import Reading, Swap

__all__ = ["Covered", "Make", "PendingChange", "PendingCharge", "PendingWrite", "Uncovered"]

Make = Callable[[Ledger, Quota, Object], Ledger]
"""A ledger anew, from the one that is stored, the spec of the same GPUQuota, and the GPUQuota itself; the same ledger
where nothing needs to be written."""

_Answer = TypeVar("_Answer")

_CHARGE_UNITS = 300
"""Units of work for a charge on a ledger with 1,000 open ones. All that wait are judged at once."""


@dataclass(frozen=True, slots=True)
class Covered:
    """What `used` holds already for a claim that the scheduler makes."""

    amounts: Callable[[Quota], Amounts]
    since: Ledger
    """The ledger that was there when reading it began. It holds for every later one that rests on the same lists: what
    these show was there to be read, and what they do not is still on the ledger."""


class Uncovered(Exception):  # noqa: N818 - it says what is missing
    """Before a claim is charged, it has to be read what `used` holds for it already; nothing was charged."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self.ledger = ledger
        """The one that is there."""


@dataclass(frozen=True, slots=True)
class Judgement(Generic[_Answer]):
    """What becomes of something that waits."""

    ledger: Ledger
    """To be written; the one from before where nothing needs to be."""
    written: _Answer
    """The answer once it is."""
    unwritten: _Answer | Exception
    """The answer if others are always faster."""


@dataclass(eq=False)
class PendingWrite(ABC, Generic[_Answer]):
    """Something that wants a ledger to be written, until it is answered."""

    most_seconds: ClassVar[float]
    """How long it goes on trying."""

    since: float
    """When it came, by the clock that never goes back."""
    answered: asyncio.Future[_Answer] = field(default_factory=asyncio.Future, init=False)
    is_judged: bool = field(default=False, init=False)
    """Whether it is judged at this moment; what comes of that may be written though nobody waits any more."""
    _judgement: Judgement[_Answer] | Exception = field(init=False)

    def judge(self, ledger: Ledger, reading: Reading) -> Ledger:
        """The ledger to write for it; the same one where there is nothing to write, or nobody waits any more.

        What goes wrong is for who waits for it, and no reason to let down the others.

        Args:
            ledger: As it was read, and what others who wait have made of it since.
            reading: What was read.

        Raises:
            TooMuchWork: It is too much to be done here; see `policies.work`.
        """
        self.is_judged = True  # before it is seen who waits: another thread may judge
        try:
            if self.answered.done():
                return ledger
            self._judgement = judgement = self._judged(ledger, reading)
        except TooMuchWork:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it is raised where it is waited for
            self._judgement = error
            return ledger
        finally:
            self.is_judged = False
        return judgement.ledger

    def tried(self, swap: Swap, now: float) -> None:
        """Answer what was judged if it was written, or nothing had to be; else wait for another try, but not for ever."""
        if self.answered.done():
            return
        if not swap and now - self.since < self.most_seconds:
            return
        found = self._judgement
        self.answer(found if isinstance(found, Exception) else found.written if swap else found.unwritten)

    def answer(self, answer: _Answer | Exception) -> None:
        """Answer, if anybody still waits for it."""
        if self.answered.done():
            return
        if isinstance(answer, Exception):
            self.answered.set_exception(answer)
        else:
            self.answered.set_result(answer)

    @abstractmethod
    def answer_without_quota(self) -> None:
        """Answer that there is no GPUQuota."""

    @abstractmethod
    def _judged(self, ledger: Ledger, reading: Reading) -> Judgement[_Answer]:
        """What becomes of it; what is raised is its answer."""


@dataclass(eq=False)
class PendingCharge(PendingWrite[ChargeVerdict | NoQuota]):
    """An object that is being created."""

    most_seconds = 3.0

    charge: Callable[[Quota], Charge]
    """Makes the charge by the limits that hold."""
    enforced: bool
    dry_run: bool = False
    is_coverable: bool = False
    """Whether `used` may hold something for it already."""
    covered: Covered | None = None
    call: str = field(default_factory=lambda: secrets.token_hex(8), init=False)
    """Identifies the charge as this call's own on the ledger. Random, so that no caller can name the call of another."""
    left_behind: str = field(default="", init=False)
    """The uid of the charge of its own that is, or may be, on the ledger. A conflict does not prove that it is not: a
    connection that broke is tried again below us, and the second write then meets the first."""

    def answer_without_quota(self) -> None:
        """Answer that nothing is limited."""
        self.answer(NoQuota())

    def _judged(self, ledger: Ledger, reading: Reading) -> Judgement[ChargeVerdict | NoQuota]:
        count_work(_CHARGE_UNITS)
        quota, charge = reading.quota, self.charge(reading.quota)
        counted = self._counted(charge, ledger, quota)
        admission = admit(
            ledger, quota, charge, enforced=self.enforced, time=reading.time, counted=counted, call=self.call
        )
        if self.dry_run:
            return Judgement(ledger, admission, admission)
        opened = admission.ledger.reservations.get(charge.uid)
        if opened is not None and opened.call == self.call:
            self.left_behind = charge.uid
        return Judgement(admission.ledger, admission, admit_unwritten(ledger, quota, charge, enforced=self.enforced))

    def _counted(self, charge: Charge, ledger: Ledger, quota: Quota) -> Amounts:
        """What `used` holds for it already, which means nothing as long as its pod's own charge is open."""
        if not self.is_coverable or (charge.of is not None and ledger.reservations.is_open(*charge.of)):
            return {}
        if self.covered is None or self.covered.since.counted != ledger.counted:
            raise Uncovered(ledger)
        return self.covered.amounts(quota)


@dataclass(eq=False)
class PendingChange(PendingWrite[Ledger | None]):
    """A ledger that is to be made anew; it tries longer than charges do, who come again by themselves."""

    most_seconds = 10.0

    namespace: str
    make: Make

    def answer_without_quota(self) -> None:
        """Answer that there is nothing to write."""
        self.answer(None)

    def _judged(self, ledger: Ledger, reading: Reading) -> Judgement[Ledger | None]:
        after = self.make(ledger, reading.quota, reading.document)
        return Judgement(after, after, APIError(HTTPStatus.CONFLICT, "Conflict", self._contended))

    @property
    def _contended(self) -> str:
        return (
            f"GPUQuota {NAME} of namespace {self.namespace} was changed by others before every write for "
            f"{self.most_seconds:.0f} s"
        )
