"""Analyses as data: the selectors, their conditions, and their result for each kind of device."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, TypedDict

from policies.phrases import format_count

if TYPE_CHECKING:
    from policies.dra.workbench.selector_report import (
        SelectorJSON,
        SelectorProblem,
        SelectorProblemJSON,
        SelectorReport,
    )

__all__ = [
    "Analysis",
    "AnalysisJSON",
    "DeviceChange",
    "DeviceRow",
    "EditComparison",
    "EditEffect",
    "Truth",
]


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


class _ExcludedByJSON(TypedDict):
    """The selector and condition that exclude devices; null if several conditions do together."""

    selector: int
    clause: int | None


class _DeviceRowJSON(TypedDict):
    """Alike devices for which the selectors have the same result."""

    kind: str
    count: int
    nodes: int
    devices: list[str]
    verdict: Annotated[str, DeviceVerdict]
    truths: list[list[Annotated[str, Truth]]]
    excludedBy: _ExcludedByJSON | None
    why: str
    error: str


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
            "excludedBy": None if by is None else {"selector": by[0], "clause": by[1] if by[1] >= 0 else None},
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

    change: Annotated[str, EditEffect]


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
    """The number of devices on which a selector fails that did not before."""
    changes: tuple[DeviceChange, ...] = ()
    """The largest rows first."""
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
    """Which devices of a cluster the selectors of one request or class match."""

    label: str
    selectors: list[SelectorJSON]
    problems: list[SelectorProblemJSON]
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
    """Which devices of a cluster the selectors of one request or class match."""

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
            "notEvaluated": self.not_evaluated,
            "rows": [each.as_json() for each in self.rows],
            "rowsLeftOut": self.rows_left_out,
            "notes": list(self.notes),
            "comparison": None if self.comparison is None else self.comparison.as_json(),
        }
