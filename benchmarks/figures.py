"""The model of benchmarks: a figure is a ratio to a control of the same run, with an aim and a limit.

Milliseconds depend on the machine and on its neighbours. A ratio of two numbers that were measured in turns does not, so
only ratios have thresholds.
"""

from __future__ import annotations

import statistics
from enum import StrEnum
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


Pair = tuple[float, float]
"""What was measured in one round, and its control."""
Column = tuple[float, float | None]
"""A further number of a figure, and that of the control if it has one."""
ALLOWANCE = "allowance"
"""The control of memory and lateness: a fixed number, which is the same on every machine."""
_DIGITS = 4
"""Significant digits that a results file keeps; more would only be noise."""


class Verdict(StrEnum):
    """The verdict of the thresholds of a figure."""

    GOOD = "within the aim"
    FAIR = "aim missed"
    BAD = "over the limit"


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Figure(_Model):
    """One number beside its control. Less is better."""

    name: str
    group: str = ""
    """What figures of one name differ in, for example the number of clients."""
    unit: str
    value: float
    beside: str
    """The name of the control."""
    control: float
    """The control in the same unit."""
    ratio: float
    """The median of the ratios of the rounds, which may differ from the ratio of the medians."""
    aim: float
    """The ratio that we want; a larger one is a warning."""
    limit: float
    """The largest ratio that is right; a larger one is a failure."""
    more: dict[str, Column] = Field(default_factory=dict)
    """Further numbers, by a name with a unit."""

    @property
    def verdict(self) -> Verdict:
        """The verdict of the thresholds."""
        if self.ratio > self.limit:
            return Verdict.BAD
        return Verdict.GOOD if self.ratio <= self.aim else Verdict.FAIR

    @property
    def label(self) -> str:
        """The name with its group."""
        return f"{self.name}, {self.group}" if self.group else self.name

    def __str__(self) -> str:
        return (
            f"{self.verdict:<15} {self.label}: {self.ratio:.3g} x {self.beside} (aim {self.aim:g}, limit {self.limit:g}); "
            f"{self.value:.4g} beside {self.control:.4g} {self.unit}"
        )


class Theme(_Model):
    """The subject of some figures, for the page."""

    title: str
    text: str
    """How it is measured, and what the control is."""
    charts: tuple[str, ...] = ()
    """Names of `more` that have a chart of their own."""


class ThemeResults(Theme):
    """A theme that was measured."""

    name: str
    """The module of `benchmarks.themes`."""
    seconds: float
    """How long it took."""
    figures: tuple[Figure, ...]
    """Empty if the measurement failed."""

    @property
    def worst(self) -> Figure:
        """The figure that is nearest to its limit, or furthest beyond it."""
        return max(self.figures, key=lambda figure: figure.ratio / figure.limit)


def figure_of_rounds(
    name: str,
    rounds: Sequence[Pair],
    *,
    unit: str,
    beside: str,
    aim: float,
    limit: float,
    group: str = "",
    more: Mapping[str, Column] | None = None,
) -> Figure:
    """A figure of the medians of some rounds."""
    value, control = (statistics.median(column) for column in zip(*rounds, strict=True))
    ratio = statistics.median(one / other for one, other in rounds)
    return Figure(
        name=name,
        group=group,
        unit=unit,
        value=_short(value),
        beside=beside,
        control=_short(control),
        ratio=_short(ratio),
        aim=aim,
        limit=limit,
        more={
            column: (_short(one), None if other is None else _short(other))
            for column, (one, other) in (more or {}).items()
        },
    )


def _short(number: float) -> float:
    return float(f"{number:.{_DIGITS}g}")
