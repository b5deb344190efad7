"""Answers of an API server, with their warnings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer."""

    code: int
    body: Any
    """The object, the list, or the Status of a refusal."""
    warnings: tuple[str, ...] = ()
    """As kubectl prints them after `Warning: `."""

    @property
    def accepted(self) -> bool:
        """True if it was done."""
        return self.code < 300

    @property
    def object(self) -> Any:
        """The object.

        Raises:
            AssertionError: the request was refused.
        """
        assert self.accepted, f"refused with {self.code}: {self.message}"
        return self.body

    @property
    def message(self) -> str:
        """The reason of a refusal: what kubectl prints after `Error from server (Forbidden): ... `.

        Raises:
            AssertionError: it was not.
        """
        assert not self.accepted, f"not refused: {self.body}"
        return str(self.body.get("message") if isinstance(self.body, dict) else self.body)

    @property
    def causes(self) -> list[str]:
        """The lines that kubectl prints instead of the message of a 422."""
        details = self.body.get("details") or {}
        return [f"{cause['field']}: {cause['message']}" for cause in details.get("causes") or []]


def warnings_in(headers: Iterable[str]) -> tuple[str, ...]:
    """The texts of `Warning` headers."""
    found = (text for header in headers for text in _WARNING.findall(header))
    return tuple(re.sub(r"\\(.)", r"\1", text) for text in found)
