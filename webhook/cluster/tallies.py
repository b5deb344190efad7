"""Tallies: for how many objects of a store a function gives the same, counted change by change."""

from __future__ import annotations

from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

    from policies.kubernetes.objects import Object

__all__ = ["Tallies"]

H = TypeVar("H", bound="Hashable")


class Tallies:
    """Counts of the values that functions give for the objects of one store.

    A count is taken once, when it is first asked for, and then follows each change of the store. Reviews ask from other
    threads than the one that takes events, so a count and the change that it follows are one step.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: dict[Callable[[Object], Any], dict[Any, int]] = {}

    def of(self, function: Callable[[Object], H | None], objects: Callable[[], Iterable[Object]]) -> Mapping[H, int]:
        """For how many objects a function gives each value; a copy.

        Args:
            function: One that a module defines; None for an object that does not count.
            objects: All objects of the store, called if the function was not asked about before.
        """
        with self._lock:
            counts = self._counts.get(function)
            if counts is None:
                counts = self._counts[function] = {}
                for item in objects():
                    _add(counts, function(item), 1)
            return dict(counts)

    @contextmanager
    def changing(self, before: Object | None, after: Object | None) -> Iterator[None]:
        """While the store puts an object in the place of another; None for none."""
        with self._lock:
            yield
            for function, counts in self._counts.items():
                if before is not None:
                    _add(counts, function(before), -1)
                if after is not None:
                    _add(counts, function(after), 1)

    @contextmanager
    def replacing(self) -> Iterator[None]:
        """While the store replaces all its objects; what is asked for afterwards is counted anew."""
        with self._lock:
            yield
            self._counts = {}


def _add(counts: dict[Any, int], value: Any, times: int) -> None:
    if value is None:
        return
    count = counts.get(value, 0) + times
    if count:
        counts[value] = count
    else:
        del counts[value]
