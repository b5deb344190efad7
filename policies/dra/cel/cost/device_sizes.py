"""How large each part of `device` can be, as Kubernetes tells the cost estimator.

Source: k8s.io/dynamic-resource-allocation/cel/compile.go, `sizeEstimator` and `newCompiler`; the limits are those of
the ResourceSlice API (k8s.io/api/resource/v1/types.go). They are the same under every feature gate.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["INCLUDES_MAX", "FieldPath", "maximum_size"]

INCLUDES_MAX = 48
"""The longest list that `includes` takes: ResourceSliceMaxAttributeValuesPerDevice."""

_DOMAIN_MAX = 63
_ID_MAX = 32
_DRIVER_MAX = 63
_ENTRIES_MAX = 32
"""Attributes and capacities of one device."""
_VALUE_MAX = 64
"""The longest string or version of an attribute; lists are shorter."""


@dataclass(frozen=True, slots=True)
class _Declared:
    """A declared type: its greatest size, and what lies below it."""

    size: int
    fields: Mapping[str, _Declared] = field(default_factory=dict)
    """By name; `@keys` and `@values` are a map's."""
    other_fields: _Declared | None = None
    """What every other name leads to."""


def _map(key: _Declared, value: _Declared, other_fields: _Declared | None = None) -> _Declared:
    return _Declared(_ENTRIES_MAX, {"@keys": key, "@values": value, "@items": value}, other_fields)


_DOMAIN = _Declared(_DOMAIN_MAX)
_ID = _Declared(_ID_MAX)
_ATTRIBUTE = _Declared(_VALUE_MAX)
_QUANTITY = _Declared(0)
"""Kubernetes declares no size for quantities, and 0 is what the estimator then reads."""

_DEVICE = _Declared(
    0,
    {
        "driver": _Declared(_DRIVER_MAX),
        "allowMultipleAllocations": _Declared(1),
        "attributes": _map(_DOMAIN, _map(_ID, _ATTRIBUTE, other_fields=_ATTRIBUTE)),
        "capacity": _map(_DOMAIN, _map(_ID, _QUANTITY)),
    },
)


def maximum_size(path: Iterable[str]) -> int | None:
    """The greatest size of what a path leads to, or None where nothing is declared about it.

    Args:
        path: a variable, then names of fields and `@keys`, `@values`, `@items`, `@indices`.
    """
    declared: _Declared | None = None
    for position, name in enumerate(path):
        if position == 0:
            declared = _DEVICE if name == "device" else None
        elif declared is not None:
            declared = declared.fields.get(name, declared.other_fields)
        if declared is None:
            return None
    return None if declared is None else declared.size


class FieldPath:
    """Names from a variable down to a value; empty for what no variable leads to.

    cel-go keeps these in Go slices that share memory: of two paths that extend the same one, the later may overwrite
    the last name of the earlier. Over `device.capacity["d"].all(key, value, ...)` the keys are thereby taken for
    values, of size 0, and the estimate is lower. What the API server accepts depends on it, so it is done here too.
    """

    __slots__ = ("_length", "_storage")

    def __init__(self, *names: str) -> None:
        """Args: the names; at most one, which is a slice without room to grow."""
        self._storage = list(names)
        self._length = len(names)

    def __bool__(self) -> bool:
        """Whether it leads anywhere."""
        return self._length > 0

    def __iter__(self) -> Iterator[str]:
        """The names in order, as they read now."""
        return islice(self._storage, self._length)

    def extended(self, name: str) -> FieldPath:
        """The path one name further; within the same memory where Go's `append` would find room."""
        longer = FieldPath()
        longer._length = self._length + 1
        if self._length & (self._length - 1) == 0:
            longer._storage = [*self._storage[: self._length], name]
            return longer
        longer._storage = self._storage
        if len(self._storage) > self._length:
            self._storage[self._length] = name
        else:
            self._storage.append(name)
        return longer

    def copied_with(self, name: str) -> FieldPath:
        """The path one name further, in memory of its own."""
        longer = FieldPath()
        longer._storage = [*self, name]
        longer._length = self._length + 1
        return longer
