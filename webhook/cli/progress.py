"""Progress of commands that take longer than two seconds: a line on standard error of terminals."""

from __future__ import annotations

import os
import sys
import threading
import time
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Self, TextIO, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextvars import Token
    from types import TracebackType


T = TypeVar("T")

_AFTER_SECONDS = 2.0
_EVERY_SECONDS = 0.2
_ERASE = "\r\x1b[2K"
"""Moves to the start of the line and erases it (ECMA-48: EL)."""
_WIDTH = 80
"""The columns of a stream that is not a terminal."""


class _Phase(NamedTuple):
    """A part of a command whose items are counted."""

    what: str
    total: int | None
    first: int
    """The number with which it began."""
    began: float


class Progress:
    """A line with what the command does now, from two seconds after the start until the end.

    The line is redrawn by a thread, because the command may wait or compute meanwhile. Nothing is written if the stream
    is not a terminal, or is one that cannot erase a line (`TERM=dumb`). Code that a command calls shows what it does by
    `current_progress`. Until the end, print by `print_line` only.
    """

    def __init__(self, stream: TextIO | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        """`stream` is standard error by default; `clock` returns seconds."""
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._began = clock()
        self._text: str | Callable[[], str] = ""
        self._phases: dict[str, _Phase] = {}
        self._drawn = ""
        self._drawing = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._token: Token[Progress] | None = None

    def __enter__(self) -> Self:
        self._token = _CURRENT.set(self)
        if self._stream is not None and self._stream.isatty() and os.environ.get("TERM") != "dumb":
            self._thread = threading.Thread(target=self._run, name="progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._token is not None:
            _CURRENT.reset(self._token)
        if self._thread is not None:
            self._ended.set()
            self._thread.join()
            self._erase()

    def show(self, text: str | Callable[[], str]) -> None:
        """Set the text, without a full stop: `writing the page`.

        A function is called by the thread whenever it draws.
        """
        self._text = text

    def show_count(self, what: str, number: int, total: int | None = None) -> None:
        """Set the text to the number of the current item, the time that is left, and the rate.

        `reviewing: 1,200 of 5,000, 12 s left, 310 a second`; without a total, `reading pods: 12,000, 3,100 a second`.
        """
        phase = self._phases.get(what)
        if phase is None or phase.total != total or number <= phase.first:
            self._phases[what] = phase = _Phase(what, total, number, self._clock())
        self.show(partial(self._count_text, phase, number))

    def count(self, what: str, items: Sequence[T]) -> Iterator[T]:
        """The items, while their number is shown as by `show_count`; then the text is `what`."""
        for number, item in enumerate(items, 1):
            self.show_count(what, number, len(items))
            yield item
        self.show(what)

    def print_line(self, line: str) -> None:
        """Print a line to standard error; what is drawn moves below it."""
        from webhook.pages.text_report import print_lines

        with self._drawing:
            self._erase()
            print_lines([line], err=True)

    def draw(self) -> None:
        """Write the text if it is due and has changed."""
        from policies.kubernetes.names import printable
        from webhook.pages.text_report import terminal_width

        with self._drawing:
            text = printable(self._text if isinstance(self._text, str) else self._text())
            if text != self._drawn and self._clock() >= self._began + _AFTER_SECONDS:
                self._write(f"{_ERASE}{text[: (terminal_width(self._stream) or _WIDTH) - 1]}")
                self._drawn = text

    def _count_text(self, phase: _Phase, number: int) -> str:
        total = "" if phase.total is None else f" of {phase.total:,}"
        text = f"{phase.what}: {number:,}{total}"
        seconds, done = self._clock() - phase.began, number - phase.first
        if seconds < 1 or not done:
            return text
        rate = done / seconds
        # There can be more items than were announced.
        left = (
            "" if phase.total is None or number > phase.total else f", {_duration((phase.total - number) / rate)} left"
        )
        return f"{text}{left}, {_rate(rate)}"

    def _erase(self) -> None:
        if self._drawn:
            self._write(_ERASE)
            self._drawn = ""

    def _run(self) -> None:
        while not self._ended.wait(_EVERY_SECONDS):
            self.draw()

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


_CURRENT: ContextVar[Progress] = ContextVar("progress", default=Progress())  # noqa: B039 - it is never entered, so it draws nothing


def current_progress() -> Progress:
    """The progress of the command that runs; one that draws nothing outside of commands."""
    return _CURRENT.get()


def _duration(seconds: float) -> str:
    """A time in its largest unit: `12 s`, `3 min`, `2 h`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.0f} h"


def _rate(items: float) -> str:
    """Items a second, or a minute if they are few."""
    return f"{items:,.0f} a second" if items >= 1 else f"{items * 60:.0f} a minute"
