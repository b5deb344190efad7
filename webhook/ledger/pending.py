"""Changes that wait for a write of a namespace's ledger."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from policies.kubernetes.objects import Object
from policies.quota.ledger.ledger import Ledger
from policies.quota.limits.quota import Quota
from policies.quota.opt_in import QUOTA_NAME
from policies.work import TooMuchWork
from webhook.cluster.errors import APIError

if TYPE_CHECKING:
    from webhook.ledger.documents import Reading, Swap

__all__ = [
    "Judgement",
    "Make",
    "PendingChange",
    "PendingFlush",
    "PendingWrite",
]

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
