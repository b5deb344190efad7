"""Pauses of the garbage collector while many objects are created, none of which is garbage."""

from __future__ import annotations

import gc
from threading import RLock
from typing import ClassVar


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
