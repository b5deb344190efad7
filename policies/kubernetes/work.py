"""Bounded work: units that are counted, and checks that may pause or cancel it.

A review is a function of the request and the view; its result never depends on the time that it takes. Long steps say how
much work they are (`count_work`), in units of about a microsecond on an ordinary core, before they begin; loops without a
measure ask whether they may go on (`check_cancelled`). The caller bounds all that is done in a block (`bounded_by`). A
server gives a review little work in its event loop; one that needs more is run again in a thread, where these steps are the
places to rest. What was cached until then is not computed again.

The bounds are in a context variable, so that no function has an argument for them: results that are cached do not depend
on the bounds of the caller that computed them first.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["TooMuchWork", "Work", "bounded_by", "check_cancelled", "count_work"]


class TooMuchWork(Exception):  # noqa: N818 - not an error: the work is done elsewhere
    """The work is more than is allowed here."""


class Work:
    """The work that may be done.

    It bounds everything in a block (see `bounded_by`), or one part that counts its work by itself.
    """

    __slots__ = ("_check", "_exceeded", "left")

    def __init__(
        self,
        units: float = inf,
        *,
        check: Callable[[], None] | None = None,
        exceeded: Callable[[], Exception] = TooMuchWork,
    ) -> None:
        """Allow some work.

        Args:
            units: The number of units.
            check: Called between steps; may pause, or raise an exception to cancel the work. Between two calls there is at
                most one evaluation or compilation of a selector, or a few milliseconds of other work.
            exceeded: Returns the exception that `count` raises.
        """
        self.left = units
        self._check = check
        self._exceeded = exceeded

    def count(self, units: int) -> None:
        """Take units before the work is done; raise the exception of `exceeded` if fewer are left."""
        self.left -= units
        if self.left < 0:
            raise self._exceeded()

    def spend(self, units: int) -> bool:
        """Take units, even if fewer are left; False then, and from then on."""
        self.left -= units
        return self.left >= 0

    def take(self, units: int) -> bool:
        """Take units if so many are left; False otherwise."""
        if units > self.left:
            return False
        self.left -= units
        return True

    def check(self) -> None:
        """Pause or raise between two steps, as the caller wants."""
        if self._check is not None:
            self._check()


_BOUNDS: ContextVar[tuple[Work, ...]] = ContextVar("bounds of work", default=())
"""The bounds of the work under way, the widest first."""


@contextmanager
def bounded_by(work: Work) -> Iterator[None]:
    """Bound all work in a block. The bounds around the block hold, too."""
    token = _BOUNDS.set((*_BOUNDS.get(), work))
    try:
        yield
    finally:
        _BOUNDS.reset(token)


def count_work(units: int) -> None:
    """Count work before it is done. Does nothing outside `bounded_by`."""
    for work in _BOUNDS.get():
        work.count(units)


def check_cancelled() -> None:
    """Pause, or raise an exception of the caller's, between two steps. Does nothing outside `bounded_by`."""
    for work in _BOUNDS.get():
        work.check()
