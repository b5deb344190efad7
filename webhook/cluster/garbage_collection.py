"""The garbage collector, while many objects are created of which hardly any is garbage."""

from __future__ import annotations

import atexit
import gc
from threading import RLock
from typing import ClassVar

_YOUNG = 20_000
"""The objects of a page of a list are fewer, and freed before the next page, so that reading lists starts no collection. With
Python's default of 700, a list of 100,000 pods starts hundreds of full collections, and each traverses all digests."""


def collect_rarely(young: int = _YOUNG) -> None:
    """Set how often garbage is collected in this process, which holds many objects without cycles.

    When the process ends, nothing is collected: the memory is returned at once.

    Args:
        young: New objects after which garbage is collected among them; many where no answer waits for a collection.
    """
    gc.set_threshold(young, 2, 25)
    atexit.unregister(gc.freeze)
    atexit.register(gc.freeze)


class CollectionPause:
    """Disables the garbage collector within a `with` statement, unless it is disabled already.

    Each collection would traverse all objects of the process, for tens of milliseconds in which no other thread runs.
    Pauses may overlap, also in several threads; the last one to end enables the collector.
    """

    __slots__ = ()

    # One thread must not enable the collector between the question and the pause of another: it would stay disabled.
    _lock: ClassVar = RLock()
    _open: ClassVar = 0
    """Pauses that have not ended."""
    _is_enabled_after: ClassVar = False
    """True if the collector was enabled when one of them began."""

    # No generator, and no `with` for the lock: leaving one creates objects, which would start a collection at once.
    def __enter__(self) -> None:
        cls = CollectionPause
        cls._lock.acquire()
        cls._is_enabled_after = cls._is_enabled_after or gc.isenabled()
        gc.disable()
        cls._open += 1
        cls._lock.release()

    def __exit__(self, *_: object) -> None:
        cls = CollectionPause
        cls._lock.acquire()
        cls._open -= 1
        if not cls._open and cls._is_enabled_after:
            cls._is_enabled_after = False
            gc.enable()
        cls._lock.release()
