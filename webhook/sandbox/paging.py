"""Lists in pages: what remains of a list is kept as it was when the first page was asked for."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from webhook.sandbox.statuses import bad_request, expired

if TYPE_CHECKING:
    from webhook.sandbox.stored_entries import Entry

__all__ = ["Page", "Pages"]

_KEPT = 64
"""How many unfinished lists are remembered; then the oldest is forgotten, and its next page is 410."""

_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without"
    " the continue parameter."
)


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list."""

    entries: list[Entry]
    version: int
    """That of the whole list."""
    token: str = ""
    """What the next page is asked for by; empty on the last."""
    remaining: int = 0
    """How many objects come after this page."""


class Pages:
    """The lists that somebody is reading page by page."""

    def __init__(self) -> None:
        self._lists: OrderedDict[str, tuple[list[Entry], int]] = OrderedDict()
        self._begun = 0

    def first(self, entries: list[Entry], version: int, limit: int) -> Page:
        """The first page of a list; all of it where there is no limit (0)."""
        if not limit or len(entries) <= limit:
            return Page(entries, version)
        self._begun += 1
        identifier = f"list-{self._begun}"
        self._lists[identifier] = entries, version
        if len(self._lists) > _KEPT:
            self._lists.popitem(last=False)
        return _page(identifier, entries, version, 0, limit)

    def next(self, token: str, limit: int) -> Page:
        """The page that a token stands for.

        Raises:
            Refused: the token is none, or its list is forgotten.
        """
        identifier, _, start = token.partition(".")
        if not identifier.startswith("list-") or not start.isascii() or not start.isdecimal():
            raise bad_request(f"continue key is not valid: {token[:100]!r} was not given out by this server")
        if identifier not in self._lists:
            raise expired(_EXPIRED)
        entries, version = self._lists[identifier]
        return _page(identifier, entries, version, int(start), limit)

    def forget(self) -> None:
        """Forget all lists, so that every token is too old."""
        self._lists.clear()


def _page(identifier: str, entries: list[Entry], version: int, start: int, limit: int) -> Page:
    end = start + limit if limit else len(entries)
    remaining = max(len(entries) - end, 0)
    token = f"{identifier}.{end}" if remaining else ""
    return Page(entries[start:end], version, token, remaining)
