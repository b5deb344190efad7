"""Checks of a cluster: what was looked at, the answer, and what to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from operator import not_

__all__ = ["Check", "Status", "forbidden_check"]


class Status(StrEnum):
    """The answer of a check, the worst first."""

    FAILING = "failing"
    UNKNOWN = "unknown"
    """The check could not be answered; its remedy names the missing right."""
    WARNING = "warning"
    OK = "ok"


# Read by pydantic when a check is written as JSON.
_WITHOUT_EMPTY = {"exclude_if": not_}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The answer of a check, without empty fields."""

    name: str
    """Several checks may have one name."""
    status: Status
    what: str
    where: str = field(default="", metadata=_WITHOUT_EMPTY)
    why: str = field(default="", metadata=_WITHOUT_EMPTY)
    remedy: str = field(default="", metadata=_WITHOUT_EMPTY)


def forbidden_check(name: str, what: str, right: str) -> Check:
    """The check that is unknown because the user lacks a right, as `list nodes`."""
    remedy = f"allow the user to {right}"
    return Check(name=name, status=Status.UNKNOWN, what=what, why=f"you may not {right}", remedy=remedy)
