"""Progress of commands that take longer than two seconds: a line on standard error of terminals."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from typing import TYPE_CHECKING, Self, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

__all__ = ["Progress"]

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
        self._text = self._drawn = ""
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

    def show(self, text: str) -> None:
        """Set the text, without a full stop: `reading pods: 12,000`."""
        self._text = text

    def draw(self) -> None:
        """Write the text if it is due and has changed."""
        text = self._text
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
