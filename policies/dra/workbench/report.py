"""Analyses as data: the selectors, their conditions, and what they say of each kind of device."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypedDict

from policies.dra.cel import MOST_COST, UNBOUNDED_COST
from policies.phrases import format_count

__all__ = [
    "Analysis",
    "AnalysisJSON",
    "ClauseReport",
    "DeviceChange",
    "DeviceRow",
    "DeviceVerdict",
    "EditComparison",
    "EditEffect",
    "SelectorProblem",
    "SelectorReport",
    "Truth",
]


class DeviceVerdict(StrEnum):
    """What selectors say of a device."""

    MATCHES = "matches"
    EXCLUDED = "excluded"
    FAILS = "fails"
    """A selector fails on it with an error; that stops a pod on every node."""
    UNKNOWN = "not evaluated"
    """Evaluating the selectors on all devices would be too much work."""


class Truth(StrEnum):
    """What one condition says of a device."""

    TRUE = "true"
    FALSE = "false"
    FAILS = "fails"
    NOT_ASKED = "not asked"
    """The class excludes the device."""


class _SelectorProblemJSON(TypedDict):
    """What review says of a selector; line and column are 0 if the problem has no place."""

    rule: str
    message: str
    remedy: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class SelectorProblem:
    """What review says of a selector."""

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

    def as_json(self) -> _SelectorProblemJSON:
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
    """One condition of a selector: what `&&` joins at its top. The numbers are of devices."""

    text: str
    true: int = 0
    false: int = 0
    failed: int = 0
    excluded: int = 0
    """Of how many devices it is the first condition that is false."""
    alone: int = 0
    """How many devices nothing else excludes: they match without it. 0 for conditions of a class."""

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


class _SelectorJSON(TypedDict):
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
    """The least and the highest cost for one of the devices; None if no device was asked."""
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

    def as_json(self) -> _SelectorJSON:
        """As plain data."""
        return {
            "owner": self.owner,
            "text": self.text,
            "estimatedCost": self.estimate,
            "costLimit": MOST_COST,
            "costs": None if self.costs is None else {"least": self.costs[0], "most": self.costs[1]},
            "clauses": [clause.as_json() for clause in self.clauses],
        }


class _ExcludedByJSON(TypedDict):
    """The condition that excludes devices; -1 if only several together do."""

    selector: int
    clause: int


class _DeviceRowJSON(TypedDict):
    """Alike devices of which the selectors say the same."""

    kind: str
    count: int
    nodes: int
    devices: list[str]
    verdict: str
    truths: list[list[str]]
    excludedBy: _ExcludedByJSON | None
    why: str
    error: str


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """Alike devices of which the selectors say the same."""

    kind: str
    """`NVIDIA-H100-80GB-HBM3`, `channel of compute-domain.nvidia.com`."""
    count: int
    nodes: int
    """The number of nodes that have some of them."""
    devices: tuple[str, ...]
    """The first ones: `gpu-0 on node-1`."""
    verdict: DeviceVerdict
    truths: tuple[tuple[Truth, ...], ...]
    """For each selector, what each condition says; empty if the devices were left out."""
    excluded_by: tuple[int, int] | None = None
    """The selector and the condition that excludes them; the condition is -1 if only several together do."""
    why: str = ""
    """Why they are excluded, a predicate in the singular: `has 40Gi of memory, 80Gi requested`."""
    error: str = ""
    """The error of the selector that fails: `no such key: model`."""

    @property
    def places(self) -> str:
        """The first device, and how many more there are: `gpu-0 on node-1 and 15 more`."""
        first = self.devices[0] if self.devices else ""
        return f"{first} and {self.count - 1:,} more" if self.count > 1 else first

    def as_json(self) -> _DeviceRowJSON:
        """As plain data."""
        by = self.excluded_by
        return {
            "kind": self.kind,
            "count": self.count,
            "nodes": self.nodes,
            "devices": list(self.devices),
            "verdict": str(self.verdict),
            "truths": [[str(truth) for truth in each] for each in self.truths],
            "excludedBy": None if by is None else {"selector": by[0], "clause": by[1]},
            "why": self.why,
            "error": self.error,
        }


class EditEffect(StrEnum):
    """What an edit changes for a device."""

    GAINED = "gained"
    """It did not match before."""
    LOST = "lost"
    """It matched before."""
    FAILS = "fails now"
    """A selector fails on it that did not before."""


class _DeviceChangeJSON(_DeviceRowJSON):
    """Alike devices for which an edit changes the same."""

    change: str


@dataclass(frozen=True, slots=True)
class DeviceChange:
    """Alike devices for which an edit changes the same."""

    change: EditEffect
    row: DeviceRow
    """The devices, as the edited selectors see them."""

    def as_json(self) -> _DeviceChangeJSON:
        """As plain data."""
        return {"change": str(self.change), **self.row.as_json()}


class _ComparisonJSON(TypedDict):
    """What an edit changes."""

    edited: AnalysisJSON
    gained: int
    lost: int
    failing: int
    changes: list[_DeviceChangeJSON]
    changesLeftOut: int


@dataclass(frozen=True, slots=True)
class EditComparison:
    """What an edit changes."""

    edited: Analysis
    gained: int = 0
    lost: int = 0
    failing: int = 0
    """On how many devices a selector fails that did not before."""
    changes: tuple[DeviceChange, ...] = ()
    """Those that concern most devices first."""
    changes_left_out: int = 0

    def as_json(self) -> _ComparisonJSON:
        """As plain data."""
        return {
            "edited": self.edited.as_json(),
            "gained": self.gained,
            "lost": self.lost,
            "failing": self.failing,
            "changes": [each.as_json() for each in self.changes],
            "changesLeftOut": self.changes_left_out,
        }


class AnalysisJSON(TypedDict):
    """What the selectors of one request or class say of the devices of a cluster."""

    label: str
    selectors: list[_SelectorJSON]
    problems: list[_SelectorProblemJSON]
    compiles: bool
    devices: int | None
    matched: int
    excluded: int
    failed: int
    notEvaluated: int
    rows: list[_DeviceRowJSON]
    rowsLeftOut: int
    notes: list[str]
    comparison: _ComparisonJSON | None


@dataclass(frozen=True, slots=True)
class Analysis:
    """What the selectors of one request or class say of the devices of a cluster."""

    label: str
    selectors: tuple[SelectorReport, ...]
    """Those of the class first, as the scheduler evaluates them."""
    problems: tuple[SelectorProblem, ...] = ()
    """What review says of the selectors, errors of the compiler first."""
    compiles: bool = True
    """False if a selector does not compile; then no device was asked."""
    devices: int | None = None
    """The number of devices; None if they are unknown."""
    matched: int = 0
    excluded: int = 0
    failed: int = 0
    unknown: int = 0
    rows: tuple[DeviceRow, ...] = ()
    """What matches first, then what fails, then what is excluded; of each, the most devices first."""
    rows_left_out: int = 0
    notes: tuple[str, ...] = ()
    """What is unknown or was left out; sentences without a full stop."""
    comparison: EditComparison | None = None
    """What an edit changes; None without an edit."""

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

    def as_json(self) -> AnalysisJSON:
        """As plain data."""
        return {
            "label": self.label,
            "selectors": [each.as_json() for each in self.selectors],
            "problems": [each.as_json() for each in self.problems],
            "compiles": self.compiles,
            "devices": self.devices,
            "matched": self.matched,
            "excluded": self.excluded,
            "failed": self.failed,
            "notEvaluated": self.unknown,
            "rows": [each.as_json() for each in self.rows],
            "rowsLeftOut": self.rows_left_out,
            "notes": list(self.notes),
            "comparison": None if self.comparison is None else self.comparison.as_json(),
        }
