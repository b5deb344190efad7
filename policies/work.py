"""Work: counted where it is done, so that the caller of a review can end it or spread it.

A review is a function of the request and the view; its result never depends on the time that it takes. Long steps say how
much work they are, in units of about a microsecond on an ordinary core, before they begin. A server gives a review a small
allowance in its event loop; one that needs more is run again in a thread, where these steps are the places to rest. What
was cached until then is not computed again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Allowance", "CancelCheck", "TooMuchWork", "count_work", "counted_by", "never_cancelled"]

CancelCheck = Callable[[], None]
"""Called between the steps of long work; raises an exception of the caller's own to stop the work.

Between two calls there is at most one evaluation or compilation of a selector, or a few milliseconds of other work.
"""


def never_cancelled() -> None:
    """A check that lets the work go on."""


class TooMuchWork(Exception):  # noqa: N818 - not an error: the work is done elsewhere
    """The work is more than is allowed here."""


class Allowance:
    """Counts down an amount of work, and raises an exception when it is used up."""

    def __init__(self, units: int) -> None:
        """Allow this many units of work."""
        self.left = units

    def __call__(self, units: int) -> None:
        """Take units.

        Raises:
            TooMuchWork: fewer are left.
        """
        self.left -= units
        if self.left < 0:
            raise TooMuchWork


class _Current(threading.local):
    count: Callable[[int], None] | None = None


_CURRENT = _Current()


def count_work(units: int) -> None:
    """Count work before it is done. Does nothing outside `counted_by`."""
    if _CURRENT.count is not None:
        _CURRENT.count(units)


@contextmanager
def counted_by(count: Callable[[int], None]) -> Iterator[None]:
    """Have the work of this thread counted by a function, which may raise an exception to end it."""
    before = _CURRENT.count
    _CURRENT.count = count
    try:
        yield
    finally:
        _CURRENT.count = before
