"""Sharing: equal parts of many objects, kept in memory once."""

from __future__ import annotations

from sys import intern
from typing import Any

import orjson

__all__ = ["Sharing"]

_MOST = 8192


class Sharing:
    """Gives the same part for equal parts, of those that it has seen lately.

    5,000 nodes have a hundred different taints and 20,000 pods a thousand different lists of containers. What is seen
    again and again stays known; what is seen once is forgotten soon, so that this never keeps much by itself. Parts
    belong to whoever reads them first as to all others: nobody changes them.
    """

    def __init__(self, most: int = _MOST) -> None:
        """Args: how many parts are remembered; twice as many for a while."""
        self._most = most
        self._recent: dict[bytes, Any] = {}
        self._older: dict[bytes, Any] = {}

    def part(self, value: Any) -> Any:
        """A value that is equal to this one, with keys in the same order, and perhaps the same object as another."""
        if type(value) is str:
            return intern(value)
        if not isinstance(value, dict | list):
            return value
        try:
            written = orjson.dumps(value)
        except orjson.JSONEncodeError:
            # Nested deeper than orjson writes, though it reads that: opaque parameters of a claim can be.
            return value
        known = self._recent.get(written)
        if known is None:
            known = self._older.get(written, value)
            # A copy, because orjson's own bytes keep the kilobytes that it wrote them into.
            self._recent[bytes(memoryview(written))] = known
            if len(self._recent) >= self._most:
                self._older, self._recent = self._recent, {}
        return known

    def texts(self, value: Any) -> Any:
        """A mapping such as labels, or a list of some, with each text once: as a whole they are seldom equal."""
        if isinstance(value, list):
            return [self.texts(item) for item in value]
        if not isinstance(value, dict):
            return value
        return {intern(key): intern(each) if type(each) is str else each for key, each in value.items()}
