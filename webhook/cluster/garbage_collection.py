"""Pauses of the garbage collector while many objects are created, none of which is garbage."""

from __future__ import annotations

import gc

__all__ = ["CollectionPause"]


class CollectionPause:
    """Disables the garbage collector within a `with` statement, unless it is disabled already.

    Each collection would traverse all objects of the process, for tens of milliseconds in which no other thread runs.
    """

    __slots__ = ("_was_enabled",)

    # Not a generator with @contextmanager: leaving one creates objects, which would start a collection at once.
    def __enter__(self) -> None:
        self._was_enabled = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._was_enabled:
            gc.enable()
