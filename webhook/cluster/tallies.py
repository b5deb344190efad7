"""Tallies: for how many objects of a store a function gives the same, counted change by change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from policies.kubernetes.objects import Object

__all__ = ["Tallies"]

H = TypeVar("H", bound="Hashable")


class Tallies:
    """Counts of the values that functions give for the objects of one store.

    They are taken as objects come, page by page of a list, and then follow each change, so that an answer takes no longer
    with more objects. Another thread may ask meanwhile: it gets a copy, which takes one step.
    """

    def __init__(self, functions: tuple[Callable[[Object], Any], ...] = ()) -> None:
        """Args: the functions; None for an object does not count."""
        self.functions = functions
        self._counts: dict[Callable[[Object], Any], dict[Any, int]] = {function: {} for function in functions}

    def of(self, function: Callable[[Object], H | None]) -> Mapping[H, int] | None:
        """For how many objects a function gives each value; None for a function that is not counted."""
        counts = self._counts.get(function)
        return None if counts is None else dict(counts)

    def change(self, before: Object | None, after: Object | None) -> None:
        """Count an object in the place of another; None for none."""
        for function, counts in self._counts.items():
            if before is not None:
                _add(counts, function(before), -1)
            if after is not None:
                _add(counts, function(after), 1)


def _add(counts: dict[Any, int], value: Any, times: int) -> None:
    if value is None:
        return
    count = counts.get(value, 0) + times
    if count:
        counts[value] = count
    else:
        del counts[value]
