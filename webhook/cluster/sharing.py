"""Keeps equal parts of many objects in memory once."""

from __future__ import annotations

from sys import intern
from typing import Any

import orjson

__all__ = ["Sharing"]

_MOST = 8192


class Sharing:
    """Returns the same object for equal parts that it has seen recently; callers must not change them.

    5,000 nodes have a hundred different taints, and 20,000 pods a thousand different lists of containers. Parts that
    recur stay cached; others are dropped soon, so that this cache stays small. At most twice `most` parts are cached.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._recent: dict[bytes, Any] = {}
        self._older: dict[bytes, Any] = {}

    def part(self, value: Any) -> Any:
        """An equal value, with keys in the same order, shared with other objects if possible."""
        kind = type(value)
        if kind is str:
            return intern(value)
        if kind is not dict and kind is not list:
            return value
        try:
            written = orjson.dumps(value)
        except orjson.JSONEncodeError:
            # orjson reads deeper nesting than it writes; opaque parameters of a claim can be that deep.
            return value
        known = self._recent.get(written)
        if known is None:
            known = self._older.get(written, value)
            # A copy, because orjson's bytes keep their whole buffer of kilobytes.
            self._recent[bytes(memoryview(written))] = known
            if len(self._recent) >= self._most:
                self._older, self._recent = self._recent, {}
        return known

    def texts(self, value: Any) -> Any:
        """A mapping such as labels, or a list of them, with interned strings; they are rarely equal."""
        if isinstance(value, list):
            return [self.texts(item) for item in value]
        if not isinstance(value, dict):
            return value
        return {intern(key): intern(each) if type(each) is str else each for key, each in value.items()}
