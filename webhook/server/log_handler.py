"""The one handler of a process's log: lines of JSON, of which frequent ones are written together."""

from __future__ import annotations

import asyncio
import json
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from typing import TextIO

__all__ = ["MOST_WAITING", "JSONFormatter", "LineHandler", "configure"]

_WAIT_SECONDS = 0.1
"""Seconds that a line may wait for others."""
MOST_WAITING = 256
"""Lines that wait, of some KiB at most: each value in them is cut."""


def configure(level: int = logging.INFO, stream: TextIO | None = None) -> None:
    """Make every logger of the process write lines of JSON, by default to stderr."""
    handler = LineHandler(stream)
    handler.setFormatter(JSONFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # No line has these, and finding them takes as long as the rest. Source: docs.python.org/3/howto/logging.html,
    # "Optimization".
    logging._srcfile = None  # noqa: SLF001 - the documented way
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False


class LineHandler(logging.StreamHandler["TextIO"]):
    """Writes lines in their order. A record that `may_wait` is written a moment later, with others.

    Writing a line costs as much as a simple review, and ten lines together cost little more than one. A record without
    the attribute is written at once, after those that wait, and so are all when the process ends.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        """Begin without lines; `stream` is stderr by default."""
        super().__init__(stream)
        self._waiting: list[logging.LogRecord] = []
        self._timer: asyncio.TimerHandle | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or let it wait."""
        self._waiting.append(record)
        if not (hasattr(record, "may_wait") and len(self._waiting) < MOST_WAITING and self._will_flush()):
            self.flush()

    def flush(self) -> None:
        """Write the records that wait."""
        self.acquire()
        try:
            records, self._waiting = self._waiting, []
            self._write("".join([self._line(record) for record in records]), records)
        finally:
            self.release()

    def _write(self, text: str, records: list[logging.LogRecord]) -> None:
        try:
            self.stream.write(text)
            super().flush()
        except Exception:  # noqa: BLE001 - a log that cannot be written must not end what it reports
            for record in records:
                self.handleError(record)

    def _line(self, record: logging.LogRecord) -> str:
        try:
            return self.format(record) + self.terminator
        except Exception:  # noqa: BLE001 - a record that cannot be formatted must not keep the others back
            self.handleError(record)
            return ""

    def _will_flush(self) -> bool:
        """True if the event loop of this thread will write what waits; False without one."""
        if self._timer is None:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                return False
            self._timer = loop.call_later(_WAIT_SECONDS, self._flush_in_time)
        return True

    def _flush_in_time(self) -> None:
        self._timer = None
        self.flush()


class JSONFormatter(logging.Formatter):
    """Writes a record as one line of JSON: time, level, logger, message, then the record's own `fields`."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return _one_line(line)


def _one_line(line: dict[str, Any]) -> str:
    try:
        written = orjson.dumps(line)
    except TypeError:  # surrogates, out of an exception's text
        return json.dumps(line, default=str)
    # Outside ASCII there are more line ends and control characters than JSON escapes.
    return written.decode() if written.isascii() else json.dumps(line)
