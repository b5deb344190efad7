"""The changes of one kind, in the order of their versions, for watches to follow."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from webhook.sandbox.stored_entries import Entry

__all__ = ["Change", "History", "TooOldError"]


class TooOldError(Exception):
    """A version whose later changes are no longer all known."""

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {asked} ({oldest})")


@dataclass(frozen=True, slots=True)
class Change:
    """One write."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    version: int
    entry: Entry
    """As written; of a DELETED one as it was last, with the version of its end."""
    before: Entry | None
    """As it was; None for an ADDED one."""


class History:
    """The latest changes of one kind, no more than a number of them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._changes: list[Change] = []
        self._oldest = 0
        self._changed = asyncio.Event()

    def add(self, change: Change) -> None:
        """Remember a change, and wake who waits for one."""
        self._changes.append(change)
        if len(self._changes) > 2 * self._limit:
            self.forget(keep=self._limit)
        self._changed.set()
        self._changed = asyncio.Event()

    def forget(self, keep: int = 0) -> None:
        """Forget all changes but the latest, as the API server does with time."""
        forgotten = len(self._changes) - keep
        if forgotten > 0:
            self._oldest = self._changes[forgotten - 1].version
            del self._changes[:forgotten]

    def after(self, version: int) -> list[Change]:
        """What changed after a version, oldest first.

        Raises:
            TooOldError: some of it is forgotten.
        """
        if version < self._oldest:
            raise TooOldError(version, self._oldest)
        return self._changes[bisect_right(self._changes, version, key=attrgetter("version")) :]

    async def changed(self) -> None:
        """Return at the next change."""
        await self._changed.wait()
