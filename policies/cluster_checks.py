"""Checks of a cluster: what was looked at, the answer, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Check", "Status", "forbidden_check"]


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


def forbidden_check(name: str, what: str, right: str) -> Check:
    """The check that is unknown because the user lacks a right, as `list nodes`."""
    remedy = f"allow the user to {right}"
    return Check(name=name, status=Status.UNKNOWN, what=what, why=f"you may not {right}", remedy=remedy)
