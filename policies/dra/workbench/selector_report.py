"""A selector as data: its costs, its conditions, and the findings of review."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from policies.dra.cel import MOST_COST, UNBOUNDED_COST

__all__ = ["ClauseReport", "SelectorJSON", "SelectorProblem", "SelectorProblemJSON", "SelectorReport"]


class SelectorProblemJSON(TypedDict):
    """A finding of review about a selector; line and column are 0 if it has no place."""

    rule: str
    message: str
    remedy: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class SelectorProblem:
    """A finding of review about a selector."""

    rule: str
    """The rule, `GA215`."""
    message: str
    remedy: str
    line: int = 0
    """The line in the expression, from 1; 0 if the problem has no place."""
    column: int = 0

    def __str__(self) -> str:
        where = f"line {self.line}, column {self.column}: " if self.line else ""
        return f"{where}{self.message}{f'; {self.remedy}' if self.remedy else ''} [{self.rule}]"

    def as_json(self) -> SelectorProblemJSON:
        """As plain data."""
        return {
            "rule": self.rule,
            "message": self.message,
            "remedy": self.remedy,
            "line": self.line,
            "column": self.column,
        }


class _ClauseJSON(TypedDict):
    """One condition of a selector, with numbers of devices."""

    text: str
    true: int
    false: int
    failed: int
    excluded: int
    alone: int


@dataclass(frozen=True, slots=True)
class ClauseReport:
    """One condition of a selector: an operand of its outermost `&&`. All numbers count devices."""

    text: str
    true: int = 0
    false: int = 0
    failed: int = 0
    excluded: int = 0
    """The number of devices for which it is the first condition that is false."""
    alone: int = 0
    """The number of devices that match without it. 0 for conditions of a class."""

    def as_json(self) -> _ClauseJSON:
        """As plain data."""
        return {
            "text": self.text,
            "true": self.true,
            "false": self.false,
            "failed": self.failed,
            "excluded": self.excluded,
            "alone": self.alone,
        }


class _CostsJSON(TypedDict):
    """The least and the highest cost for one of the devices."""

    least: int
    most: int


class SelectorJSON(TypedDict):
    """One selector, with its cost and its conditions."""

    owner: str
    text: str
    estimatedCost: int | None
    costLimit: int
    costs: _CostsJSON | None
    clauses: list[_ClauseJSON]


@dataclass(frozen=True, slots=True)
class SelectorReport:
    """One selector, with its cost and its conditions."""

    owner: str
    """`DeviceClass gpu.nvidia.com`; empty for the analyzed selectors themselves."""
    text: str
    estimate: int | None
    """The API server's estimate of the cost for one device; None if the selector does not compile."""
    costs: tuple[int, int] | None
    """The least and the highest cost for one of the devices; None if no device was evaluated."""
    clauses: tuple[ClauseReport, ...]

    @property
    def is_affordable(self) -> bool:
        """True if the API server accepts the estimate."""
        return self.estimate is not None and self.estimate <= MOST_COST

    @property
    def cost_sentence(self) -> str:
        """The costs beside the limit, as a sentence."""
        if self.estimate is None:
            return "The selector does not compile."
        estimate = "has no bound" if self.estimate >= UNBOUNDED_COST else f"is {self.estimate:,}"
        is_refused = "" if self.is_affordable else ", so the API server refuses it"
        sentence = f"The estimated cost for one device {estimate} of at most {MOST_COST:,}{is_refused}"
        if self.costs is None:
            return f"{sentence}."
        least, most = self.costs
        return f"{sentence}; for these devices it is {f'{least:,} to {most:,}' if least < most else f'{most:,}'}."

    def as_json(self) -> SelectorJSON:
        """As plain data."""
        return {
            "owner": self.owner,
            "text": self.text,
            "estimatedCost": self.estimate,
            "costLimit": MOST_COST,
            "costs": None if self.costs is None else {"least": self.costs[0], "most": self.costs[1]},
            "clauses": [clause.as_json() for clause in self.clauses],
        }
