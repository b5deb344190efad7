"""Deadlines: until when an answer is worth anything to the API server."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["DEFAULT_SECONDS", "LONGEST_SECONDS", "BadDuration", "Deadline", "parse_duration"]

DEFAULT_SECONDS = 10.0
"""`timeoutSeconds` of a webhook that names none."""
LONGEST_SECONDS = 30.0
"""The most that `timeoutSeconds` may be."""
_MARGIN = 0.5
_MARGIN_OF_SHORT = 0.1
_TO_ANSWER = 0.25
"""Seconds that parts of a deadline leave for the answer: longer than one review may hold the event loop."""
_TO_ANSWER_SHORT = 0.1

# Go takes both letters mu, and so do we.
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}
_TERM = r"([0-9]+\.?[0-9]*|\.[0-9]+)(ms|us|µs|μs|ns|h|m|s)"
_ONE_TERM = re.compile(_TERM)
_DURATION = re.compile(f"(?:{_TERM})+")


class BadDuration(ValueError):  # noqa: N818 - the name says what is wrong; "Error" would only say it twice
    """A text is not a duration."""


@lru_cache(maxsize=64)
def parse_duration(text: str) -> float:
    """Seconds of a duration as Go writes it: `5s`, `1m0s`, `500ms`; none is negative.

    Source: Go's time.ParseDuration.

    Raises:
        BadDuration: The text is not a duration.
    """
    if text == "0":
        return 0.0
    if len(text) > 100 or not _DURATION.fullmatch(text):
        raise BadDuration("The timeout in the query is not a duration; write it as in ?timeout=10s.")
    return sum(float(amount) * _UNITS[unit] for amount, unit in _ONE_TERM.findall(text))


@dataclass(frozen=True, slots=True)
class Deadline:
    """The time by which an answer must be sent."""

    clock: Callable[[], float]
    """Returns monotonic seconds."""
    started: float
    seconds: float
    """From start to deadline."""

    @classmethod
    def start(cls, clock: Callable[[], float], timeout: str | None = None) -> Deadline:
        """Begin a deadline that ends a little before the timeout of the caller.

        Args:
            clock: Returns monotonic seconds.
            timeout: The `timeout` that the API server sends in the query; None if it is missing.

        Raises:
            BadDuration: `timeout` is not a duration.
        """
        seconds = DEFAULT_SECONDS if timeout is None else min(parse_duration(timeout), LONGEST_SECONDS)
        return cls(clock, clock(), seconds - min(_MARGIN, seconds * _MARGIN_OF_SHORT))

    def part(self, parts: int) -> Deadline:
        """The deadline of the first of so many equal parts of the time left, less the time to answer.

        So a call can still be answered after the last part has passed.
        """
        left = max(self.remaining, 0)
        return Deadline(self.clock, self.clock(), (left - min(_TO_ANSWER, left * _TO_ANSWER_SHORT)) / parts)

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self.clock() - self.started

    @property
    def remaining(self) -> float:
        """Seconds until the deadline; negative after it."""
        return self.seconds - self.elapsed

    @property
    def has_passed(self) -> bool:
        """True if an answer would be too late."""
        return self.remaining <= 0
