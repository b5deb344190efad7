"""Progress of commands that take longer than two seconds: a line on standard error of terminals."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from typing import TYPE_CHECKING, Self, TextIO, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType


T = TypeVar("T")

_AFTER_SECONDS = 2.0
_EVERY_SECONDS = 0.2
_ERASE = "\r\x1b[2K"
"""Moves to the start of the line and erases it (ECMA-48: EL)."""


class Progress:
    """A line with what the command does now, from two seconds after the start until the end.

    The line is redrawn by a thread, because the command may wait or compute meanwhile. Nothing is written if the stream
    is not a terminal, or is one that cannot erase a line (`TERM=dumb`). Print nothing else on a terminal before the end.
    """

    def __init__(self, stream: TextIO | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        """`stream` is standard error by default; `clock` returns seconds."""
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._began = clock()
        self._text: str | Callable[[], str] = ""
        self._drawn = ""
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if self._stream.isatty() and os.environ.get("TERM") != "dumb":
            self._thread = threading.Thread(target=self._run, name="progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._thread is None:
            return
        self._ended.set()
        self._thread.join()
        if self._drawn:
            self._write(_ERASE)

    def show(self, text: str | Callable[[], str]) -> None:
        """Set the text, without a full stop: `reading pods: 12,000`.

        A function is called by the thread whenever it draws.
        """
        self._text = text

    def count(self, what: str, items: Sequence[T]) -> Iterator[T]:
        """The items, while their number is shown: `reviewing: 1,200 of 5,000`."""
        for number, item in enumerate(items, 1):
            self.show(f"{what}: {number:,} of {len(items):,}")
            yield item

    def draw(self) -> None:
        """Write the text if it is due and has changed."""
        text = self._text if isinstance(self._text, str) else self._text()
        if text != self._drawn and self._clock() >= self._began + _AFTER_SECONDS:
            width = shutil.get_terminal_size().columns
            self._write(f"{_ERASE}{text[: width - 1]}")
            self._drawn = text

    def _run(self) -> None:
        while not self._ended.wait(_EVERY_SECONDS):
            self.draw()

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
