"""The report on a selector: its costs, its conditions and the devices; also as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from policies.cel import MOST_COST, UNBOUNDED_COST
from policies.kubernetes.names import format_count
from policies.kubernetes.objects import filled_record


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


class DeviceVerdict(StrEnum):
    """The result of the selectors for a device."""

    MATCHES = "matches"
    EXCLUDED = "excluded"
    FAILS = "fails"
    """A selector fails with an error; then the scheduler cannot place the pod on any node."""
    NOT_EVALUATED = "not evaluated"
    """Evaluating the selectors on all devices would be too much work."""


class Truth(StrEnum):
    """The result of one condition for a device."""

    TRUE = "true"
    FALSE = "false"
    FAILS = "fails"
    SKIPPED = "skipped"
    """The class excludes the device."""


@dataclass(frozen=True, slots=True)
class ExcludedBy:
    """The selector and condition that exclude devices; null if several conditions do together."""

    selector: int
    clause: int | None


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """Alike devices for which the selectors have the same result."""

    kind: str
    """`NVIDIA-H100-80GB-HBM3`, `channel of compute-domain.nvidia.com`."""
    count: int
    nodes: int
    """The number of nodes that have some of them."""
    devices: tuple[str, ...]
    """The first ones: `gpu-0 on node-1`."""
    verdict: DeviceVerdict
    truths: tuple[tuple[Truth, ...], ...]
    """For each selector, the result of each condition; empty if the devices were not evaluated."""
    excluded_by: ExcludedBy | None = None
    why: str = ""
    """The reason why they are excluded, a predicate in the singular: `has 40Gi of memory, 80Gi requested`."""
    error: str = ""
    """The error of the selector that fails: `no such key: model`."""

    @property
    def places(self) -> str:
        """The first device, and how many more there are: `gpu-0 on node-1 and 15 more`."""
        first = self.devices[0] if self.devices else ""
        return f"{first} and {self.count - 1:,} more" if self.count > 1 else first


class EditEffect(StrEnum):
    """The effect of an edit on a device."""

    GAINED = "gained"
    """It did not match before."""
    LOST = "lost"
    """It matched before."""
    FAILS = "fails now"
    """A selector fails on it that did not before."""


@dataclass(frozen=True, slots=True)
class DeviceChange:
    """Alike devices for which an edit changes the same."""

    change: EditEffect
    row: DeviceRow
    """The devices, as the edited selectors see them."""


@dataclass(frozen=True, slots=True)
class EditComparison:
    """The effect of an edit."""

    edited: Analysis
    gained: int = 0
    lost: int = 0
    failing: int = 0
    """The number of devices on which a selector fails that did not before."""
    changes: tuple[DeviceChange, ...] = ()
    """The largest rows first."""
    changes_left_out: int = 0


@dataclass(frozen=True, slots=True)
class Analysis:
    """The devices of a cluster that the selectors of one request or class match."""

    label: str
    selectors: tuple[SelectorReport, ...]
    """The selectors of the class first, in the order of the scheduler."""
    problems: tuple[SelectorProblem, ...] = ()
    """The findings of review about the selectors, errors of the compiler first."""
    compiles: bool = True
    """False if a selector does not compile; then no device was evaluated."""
    devices: int | None = None
    """The number of devices; None if they are unknown."""
    matched: int = 0
    excluded: int = 0
    failed: int = 0
    not_evaluated: int = 0
    rows: tuple[DeviceRow, ...] = ()
    """Devices that match, then those that fail, then those that are excluded; each with the largest rows first."""
    rows_left_out: int = 0
    notes: tuple[str, ...] = ()
    """The facts that are unknown or were left out; sentences without a full stop."""
    comparison: EditComparison | None = None
    """The effect of an edit; None without one."""

    @property
    def is_valid(self) -> bool:
        """True if the API server accepts the selectors, and none fails on a device."""
        return self.compiles and not self.failed and all(each.is_affordable for each in self.selectors)

    @property
    def summary(self) -> str:
        """The numbers of devices in a clause: `16 of 39 devices match, 4 fail`."""
        if not self.compiles:
            return "does not compile"
        if self.devices is None:
            return "devices unknown"
        fail = f", {self.failed:,} {'fails' if self.failed == 1 else 'fail'}" if self.failed else ""
        what = f"{self.matched:,} of {format_count(self.devices, 'device')}"
        return f"{what} {'matches' if self.matched == 1 else 'match'}{fail}"


@dataclass(frozen=True, slots=True)
class _CostsJSON:
    """The least and the highest cost for one of the devices."""

    least: int
    most: int


@dataclass(frozen=True, slots=True)
class _SelectorJSON:
    """One selector, with its cost and its conditions."""

    owner: str
    text: str
    estimated_cost: int | None
    cost_limit: int
    costs: _CostsJSON | None
    clauses: tuple[Clause, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _DeviceChangeJSON(DeviceRow):
    """Alike devices for which an edit changes the same."""

    change: EditEffect


@dataclass(frozen=True, slots=True)
class _ComparisonJSON:
    """The effect of an edit."""

    edited: AnalysisJSON
    gained: int
    lost: int
    failing: int
    changes: tuple[_DeviceChangeJSON, ...]
    changes_left_out: int


@dataclass(frozen=True, slots=True)
class AnalysisJSON:
    """The devices of a cluster that the selectors of one request or class match."""

    label: str
    selectors: tuple[_SelectorJSON, ...]
    problems: tuple[SelectorProblem, ...]
    compiles: bool
    devices: int | None
    matched: int
    excluded: int
    failed: int
    not_evaluated: int
    rows: tuple[DeviceRow, ...]
    rows_left_out: int
    notes: tuple[str, ...]
    comparison: _ComparisonJSON | None


def analysis_json(analysis: Analysis) -> AnalysisJSON:
    """The analysis as its JSON has it."""
    selectors = tuple(
        filled_record(
            _SelectorJSON,
            each,
            estimated_cost=each.estimate,
            cost_limit=MOST_COST,
            costs=None if each.costs is None else _CostsJSON(*each.costs),
        )
        for each in analysis.selectors
    )
    comparison = None
    if (found := analysis.comparison) is not None:
        changes = tuple(filled_record(_DeviceChangeJSON, each, each.row) for each in found.changes)
        comparison = filled_record(_ComparisonJSON, found, edited=analysis_json(found.edited), changes=changes)
    return filled_record(AnalysisJSON, analysis, selectors=selectors, comparison=comparison)
