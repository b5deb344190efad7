"""Checks: what was looked at, and the answer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Check", "Status"]


class Status(StrEnum):
    """The answer of a check, the worst first."""

    FAILING = "failing"
    UNKNOWN = "unknown"
    WARNING = "warning"
    OK = "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One answer: what, where, why and what to do."""

    name: str
    status: Status
    what: str
    where: str = ""
    why: str = ""
    remedy: str = ""
