"""Parts of digests: what functions made of each object of a kind, for as long as the object is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from policies.work import count_work

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from policies.kubernetes.objects import Object

__all__ = ["WORK_PER_OBJECT", "Parts"]

T = TypeVar("T")

WORK_PER_OBJECT = 5
"""What a digest takes for each object that it reads, beside what is made of each once."""
_WORK_PER_PART = 40
"""What it takes to make the part of a node or a ResourceSlice."""


class _Made(NamedTuple):
    """Objects, and the part of each in the same order."""

    objects: Sequence[Object]
    parts: Sequence[Any]


class Parts:
    """Remembers what functions made of objects that stores keep.

    Stores never change an object but put another in its place, so the object itself is the key to its part: while it is
    held here, no other can have its identity. What is held are the objects of the latest list that was asked about.

    Several threads may ask at once: each puts a list and its parts in place in one step, and if it is the older one, the
    next to ask makes some parts again.
    """

    def __init__(self) -> None:
        self._made: dict[tuple[str, Callable[[Object], Any]], _Made] = {}

    def of(self, kind: str, function: Callable[[Object], T], objects: Sequence[Object]) -> Sequence[T]:
        """The part of each object, in their order; made where it is not known.

        Args:
            kind: The kind of all objects.
            function: What makes a part.
            objects: All objects of the kind, in a sequence that is not changed later.
        """
        made = self._made.get((kind, function))
        if made is not None and made.objects is objects:
            return made.parts
        count_work(WORK_PER_OBJECT * len(objects))
        known = {} if made is None else dict(zip(map(id, made.objects), made.parts, strict=True))
        count_work(_WORK_PER_PART * sum(id(each) not in known for each in objects))
        parts = [known[id(each)] if id(each) in known else _part(function, each) for each in objects]
        self._made[kind, function] = _Made(objects, parts)
        return parts

    def forget(self, kind: str) -> None:
        """Let the objects of a kind and their parts go."""
        for key in [*self._made]:
            if key[0] == kind:
                self._made.pop(key, None)


def _part(function: Callable[[Object], T], item: Object) -> T:
    count_work(0)  # a place to rest
    return function(item)
