"""Bounds: caches limited by the weight of their entries, and work that is counted and may pause.

Tenants choose the texts that many caches are keyed by: selectors, names, quantities. A cache that only counts its
entries lets one tenant fill the memory with large ones. `lru_cache` is for keys whose size is bounded already: parts of
objects that the API server has validated and stored, such as labels of nodes.

A review is a function of the request and the view; its result never depends on the time that it takes. Long steps say how
much work they are (`count_work`), in units of about a microsecond on an ordinary core, before they begin; loops without a
measure ask whether they may go on (`check_cancelled`). The caller bounds all that is done in a block (`bounded_by`). A
server gives a review little work in its event loop; one that needs more is run again in a thread, where these steps are the
places to rest. What was cached until then is not computed again.

The bounds are in a context variable, so that no function has an argument for them: results that are cached do not depend
on the bounds of the caller that computed them first.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, update_wrapper, wraps
from math import inf
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator


K = TypeVar("K", bound="Hashable")
V = TypeVar("V")
P = ParamSpec("P")

LONGEST_KEY = 256
"""Characters. Labels, resource names and products are shorter; a DNS name has at most 253."""


class BoundedCache(Generic[K, V]):
    """A cache with a maximum total weight; it drops the least recently used entries first.

    The caller chooses the unit of weight: bytes, or nodes of syntax trees. Threads may share the cache.
    """

    def __init__(self, most: int) -> None:
        """Create an empty cache with the given maximum total weight."""
        self.most = most
        self.misses = 0
        """The number of times that `get` found nothing."""
        self._weight = 0
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def weight(self) -> int:
        """The total weight of all entries."""
        return self._weight

    def get(self, key: K) -> V | None:
        """The cached value of a key; None if the key is not cached."""
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                self.misses += 1
                return None
            self._entries.move_to_end(key)
            return found[0]

    def put(self, key: K, value: V, weight: int) -> None:
        """Cache a value other than None. A value heavier than `most` is not cached."""
        with self._lock:
            replaced = self._entries.pop(key, None)
            self._weight -= 0 if replaced is None else replaced[1]
            if weight > self.most:
                return
            self._entries[key] = value, weight
            self._weight += weight
            while self._weight > self.most:
                self._weight -= self._entries.popitem(last=False)[1][1]

    def clear(self) -> None:
        """Drop all entries."""
        with self._lock:
            self._entries.clear()
            self._weight = self.misses = 0


class CachedFunction(Generic[K, V]):
    """A function of one argument whose results are cached up to a total weight."""

    def __init__(self, function: Callable[[K], V], weigh: Callable[[K, V], int], most: int) -> None:
        """Wrap a function; `weigh` returns the weight of an argument and its result."""
        self.cache: BoundedCache[K, tuple[V]] = BoundedCache(most)
        self._function = function
        self._weigh = weigh
        update_wrapper(self, function)

    def __call__(self, argument: K) -> V:
        """The result for an argument, cached or computed."""
        found = self.cache.get(argument)
        if found is not None:
            return found[0]
        result = self._function(argument)
        self.cache.put(argument, (result,), self._weigh(argument, result))
        return result


def remember(most: int, weigh: Callable[[K, V], int]) -> Callable[[Callable[[K], V]], CachedFunction[K, V]]:
    """Decorate a function of one argument: cache its results up to a total weight.

    Args:
        most: The maximum total weight.
        weigh: Returns the weight of an argument and its result.
    """
    return lambda function: CachedFunction(function, weigh, most)


def text_length(text: str, _: Any) -> int:
    """The weight of a text and its result: the characters of the text."""
    return len(text)


def remember_short(entries: int) -> Callable[[Callable[P, V]], Callable[P, V]]:
    """Decorate a function: cache results in an `lru_cache`, but only for short arguments.

    A call with a text longer than `LONGEST_KEY`, or with a tuple of more than 64 items, is not cached. For functions
    that are called for every pod and node, where a `BoundedCache` is too slow.
    """

    def decorate(function: Callable[P, V]) -> Callable[P, V]:
        cached = cast("Callable[P, V]", lru_cache(maxsize=entries)(function))

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> V:
            return cached(*args, **kwargs) if all(map(_is_short, args)) else function(*args, **kwargs)

        return call

    return decorate


_MOST_ITEMS = 64


def _is_short(argument: object) -> bool:
    if argument.__class__ is str:
        return len(argument) <= LONGEST_KEY
    if argument.__class__ is tuple:
        items = cast("tuple[object, ...]", argument)
        return len(items) <= _MOST_ITEMS and all(map(_is_short, items))
    return True


class TooMuchWork(Exception):  # noqa: N818 - not an error: the work is done elsewhere
    """The work is more than is allowed here."""


class Work:
    """The work that may be done.

    It bounds everything in a block (see `bounded_by`), or one part that counts its work by itself.
    """

    __slots__ = ("_check", "_exceeded", "left")

    def __init__(
        self,
        units: float = inf,
        *,
        check: Callable[[], None] | None = None,
        exceeded: Callable[[], Exception] = TooMuchWork,
    ) -> None:
        """Allow some work.

        Args:
            units: The number of units.
            check: Called between steps; may pause, or raise an exception to cancel the work. Between two calls there is at
                most one evaluation or compilation of a selector, or a few milliseconds of other work.
            exceeded: Returns the exception that `count` raises.
        """
        self.left = units
        self._check = check
        self._exceeded = exceeded

    def count(self, units: int) -> None:
        """Take units before the work is done; raise the exception of `exceeded` if fewer are left."""
        self.left -= units
        if self.left < 0:
            raise self._exceeded()

    def spend(self, units: int) -> bool:
        """Take units, even if fewer are left; False then, and from then on."""
        self.left -= units
        return self.left >= 0

    def take(self, units: int) -> bool:
        """Take units if so many are left; False otherwise."""
        if units > self.left:
            return False
        self.left -= units
        return True

    def check(self) -> None:
        """Pause or raise between two steps, as the caller wants."""
        if self._check is not None:
            self._check()


_BOUNDS: ContextVar[tuple[Work, ...]] = ContextVar("bounds of work", default=())
"""The bounds of the work under way, the widest first."""


@contextmanager
def bounded_by(work: Work) -> Iterator[None]:
    """Bound all work in a block. The bounds around the block hold, too."""
    token = _BOUNDS.set((*_BOUNDS.get(), work))
    try:
        yield
    finally:
        _BOUNDS.reset(token)


def count_work(units: int) -> None:
    """Count work before it is done. Does nothing outside `bounded_by`."""
    for work in _BOUNDS.get():
        work.count(units)


def check_cancelled() -> None:
    """Pause, or raise an exception of the caller's, between two steps. Does nothing outside `bounded_by`."""
    for work in _BOUNDS.get():
        work.check()
