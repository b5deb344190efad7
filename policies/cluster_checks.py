"""Checks of a cluster: what was looked at, the answer, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Check", "Status"]


class Status(StrEnum):
    """The answer of a check, the worst first."""

    FAILING = "failing"
    UNKNOWN = "unknown"
    """The check could not be answered; its remedy names the missing right."""
    WARNING = "warning"
    OK = "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One answer. Several checks may have one name."""

    name: str
    status: Status
    what: str
    where: str = ""
    why: str = ""
    remedy: str = ""
