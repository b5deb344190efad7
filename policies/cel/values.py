"""Values of expressions: Python's own wherever they mean the same.

| CEL | Python |
|---|---|
| null, bool, double, string, bytes | None, bool, float, str, bytes |
| int | int, always within 64 bits |
| uint | UInt |
| list | tuple, or Concatenation until its elements are read |
| map | Map |
| type | types.Type |
| optional | Optional |
| timestamp, duration, quantities, versions, addresses | a class of their library with a `cel_type` |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, overload, runtime_checkable

from policies.cel import types
from policies.cel.errors import EvaluationAborted, spend_steps

if TYPE_CHECKING:
    from policies.cel.types import Type


UNHASHABLE = "internal error: runtime error: hash of unhashable type {}"
"""The message for cel-go's panics."""

UINT64_MAX = 2**64 - 1


def wrap_int64(number: int) -> int:
    """The number as Go's unchecked signed arithmetic leaves it."""
    return (number + 2**63) % 2**64 - 2**63


class UInt(int):
    """An unsigned 64-bit integer. Python's own operators return an int; the library has arithmetic."""

    __slots__ = ()


@runtime_checkable
class Opaque(Protocol):
    """A value of a library's own type; immutable, hashable, equal to what CEL calls equal."""

    cel_type: ClassVar[Type]


class Absent:
    """The type of ABSENT."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = Absent()
"""The result of a look-up that finds nothing; no value of an expression."""


class Concatenation(Sequence["Value"]):
    """Two lists, one after the other, not copied: doubling a list a hundred times costs a hundred steps."""

    __slots__ = ("_size", "left", "right")

    def __init__(self, left: List, right: List) -> None:
        self.left = left
        self.right = right
        self._size = size(left) + size(right)

    @property
    def size(self) -> int:
        """The number of elements; may be beyond what `len` can say."""
        return self._size

    def __len__(self) -> int:
        """The number of elements, as far as Python can count."""
        return self.size

    @overload
    def __getitem__(self, index: int) -> Value: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Value, ...]: ...
    def __getitem__(self, index: int | slice) -> Value | tuple[Value, ...]:
        """The element at an index that is within the list."""
        if isinstance(index, slice):
            return tuple(islice(iter(self), index.start, index.stop))  # islice of `self` would call `len`
        part: List = self
        while type(part) is Concatenation:
            left = size(part.left)
            part, index = (part.left, index) if index < left else (part.right, index - left)
        return part[index]

    def __iter__(self) -> Iterator[Value]:
        """The elements in order, however deep the concatenation is; counted as work."""
        pending: list[List] = [self]
        while pending:
            part = pending.pop()
            if type(part) is Concatenation:
                spend_steps(1)
                pending += (part.right, part.left)
            else:
                spend_steps(len(part))
                yield from part


class Accumulation(Concatenation):
    """A list that grows in place: what a comprehension's empty list becomes while it is folded.

    As in cel-go, adding to it changes it for all its holders: `cel.bind(a, [], [(a + [1]).size(), a.size()])`
    is `[1, 1]`.
    Source: cel-go common/types/list.go, mutableList.
    """

    __slots__ = ("_elements",)

    def __init__(self) -> None:
        """It begins empty."""
        super().__init__((), ())
        self._elements: list[Value] = []

    @property
    def size(self) -> int:
        """The number of elements by now."""
        return len(self._elements)

    @overload
    def __getitem__(self, index: int) -> Value: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Value, ...]: ...
    def __getitem__(self, index: int | slice) -> Value | tuple[Value, ...]:
        """The element at an index that is within the list."""
        return tuple(self._elements[index]) if isinstance(index, slice) else self._elements[index]

    def __iter__(self) -> Iterator[Value]:
        """The elements in order."""
        spend_steps(len(self._elements))
        return iter(self._elements)

    def extend(self, other: List) -> None:
        """Append the elements of a list, which may be this one."""
        self._elements.extend(tuple(iter(other)))  # `other` may be longer than `len` can say


class _Key(NamedTuple):
    """A map's key that Python would take for another: True for 1, 1u for 1."""

    kind: str
    value: Value


class _Same:
    """A map's key that is only equal to itself, as lists and maps are when they are keys in cel-go."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value


class Map:
    """A map; the keys 1, 1u and 1.0 find each other."""

    __slots__ = ("_entries",)

    go_type: ClassVar[str] = "*types.baseMap"
    """Its Go type, which some of cel-go's messages contain."""

    def __init__(self, entries: dict[object, Value]) -> None:
        """Take entries whose keys come from `Map.key`; strings and ints are their own keys."""
        self._entries = entries

    @staticmethod
    def key(value: Value) -> object:
        """The form of a key inside the map.

        Raises:
            EvaluationAborted: bytes, versions and formats cannot be keys: cel-go panics on them.
        """
        if isinstance(value, str):
            return value
        if isinstance(value, bool | UInt | float) or value is None:
            return _Key(type(value).__name__, value)
        if isinstance(value, int | types.Type):
            return value
        if isinstance(value, bytes):
            raise EvaluationAborted(UNHASHABLE.format("types.Bytes"))
        if isinstance(value, Optional) and isinstance(value.value, Absent):
            return _Key("optional_type", value)  # in cel-go there is but one `optional.none()`
        if isinstance(value, tuple | Concatenation | Map | Optional):
            return _Same(value)
        if value.cel_type.name == "kubernetes.Semver":
            raise EvaluationAborted(UNHASHABLE.format("cel.Semver"))
        if value.cel_type.name == "kubernetes.NamedFormat":
            raise EvaluationAborted(UNHASHABLE.format("cel.Format"))
        return _Same(value) if value.cel_type.name == "kubernetes.Quantity" else value

    def __repr__(self) -> str:
        return f"Map({list(self.items())!r})"

    def find(self, key: Value) -> Value | Absent:
        """The value under a key, or ABSENT."""
        if not self._entries:
            return ABSENT
        found = self._entries.get(self.key(key), ABSENT)
        if isinstance(found, Absent) and isinstance(key, int | float) and not isinstance(key, bool):
            return self._find_number(key)
        return found

    def _find_number(self, key: Value) -> Value | Absent:
        """The value under the same number of another kind."""
        if isinstance(key, float) and not (key.is_integer() and -(2**63) < key < 2**64):
            return ABSENT
        whole = int(key)  # type: ignore[arg-type]  # a number
        found: Value | Absent = ABSENT
        if whole < 2**63 and (isinstance(key, UInt | float)):
            found = self._entries.get(whole, ABSENT)
        if isinstance(found, Absent) and whole >= 0 and not isinstance(key, UInt):
            found = self._entries.get(_Key("UInt", UInt(whole)), ABSENT)
        return found

    def __contains__(self, key: Value) -> bool:
        """True if `key in map` is true."""
        return not isinstance(Map.find(self, key), Absent)

    def __len__(self) -> int:
        """The number of entries."""
        return len(self._entries)

    def __iter__(self) -> Iterator[Value]:
        """The keys, in the order in which they were put in."""
        for key in self._entries:
            yield key.value if isinstance(key, _Key | _Same) else key  # type: ignore[misc]  # keys are values by `key`

    def items(self) -> Iterator[tuple[Value, Value]]:
        """Keys with their values."""
        return zip(self, self._entries.values(), strict=True)


class Growing(Map):
    """A map that grows in place: what a comprehension's empty map becomes while it is folded."""

    __slots__ = ()

    go_type = "*types.mutableMap"

    def insert(self, key: Value, value: Value) -> None:
        """Put an entry in; the key is new."""
        self._entries[self.key(key)] = value


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be missing: `optional.of(x)`, `optional.none()`, `a.?b`."""

    value: Value | Absent = ABSENT


def size(elements: List) -> int:
    """The number of elements of a list, without `len`'s limit."""
    return elements.size if isinstance(elements, Concatenation) else len(elements)


List = tuple["Value", ...] | Concatenation
Value = None | bool | int | UInt | float | str | bytes | List | Map | types.Type | Optional | Opaque
