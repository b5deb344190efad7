"""A selector as data: its costs, its conditions, and the findings of review."""

from __future__ import annotations

from dataclasses import dataclass

from policies.dra.cel import MOST_COST, UNBOUNDED_COST

__all__ = ["Clause", "SelectorProblem", "SelectorReport"]


@dataclass(frozen=True, slots=True)
class SelectorProblem:
    """A finding of review about a selector; line and column are 0 if it has no place."""

    rule: str
    """The rule, `GA215`."""
    message: str
    remedy: str
    line: int = 0
    """The line in the expression, from 1."""
    column: int = 0

    def __str__(self) -> str:
        where = f"line {self.line}, column {self.column}: " if self.line else ""
        return f"{where}{self.message}{f'; {self.remedy}' if self.remedy else ''} [{self.rule}]"


@dataclass(frozen=True, slots=True)
class Clause:
    """One condition of a selector, with numbers of devices."""

    text: str
    """An operand of the outermost `&&`."""
    true: int = 0
    false: int = 0
    failed: int = 0
    excluded: int = 0
    """The number of devices for which it is the first condition that is false."""
    alone: int = 0
    """The number of devices that match without it. 0 for conditions of a class."""


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
    clauses: tuple[Clause, ...]

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
