"""Analyses of selectors as JSON; docs/schemas is generated from the types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.analyses.selectors.report import Clause, DeviceVerdict, EditEffect, SelectorProblem, Truth
from policies.cel import MOST_COST

if TYPE_CHECKING:
    from policies.analyses.selectors.report import Analysis, DeviceChange, DeviceRow, EditComparison, SelectorReport

__all__ = ["AnalysisJSON", "analysis_json"]


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


@dataclass(frozen=True, slots=True)
class _ExcludedByJSON:
    """The selector and condition that exclude devices; null if several conditions do together."""

    selector: int
    clause: int | None


@dataclass(frozen=True, slots=True)
class _DeviceRowJSON:
    """Alike devices for which the selectors have the same result."""

    kind: str
    count: int
    nodes: int
    devices: tuple[str, ...]
    verdict: DeviceVerdict
    truths: tuple[tuple[Truth, ...], ...]
    excluded_by: _ExcludedByJSON | None
    why: str
    error: str


@dataclass(frozen=True, slots=True)
class _DeviceChangeJSON(_DeviceRowJSON):
    """Alike devices for which an edit changes the same."""

    change: EditEffect


@dataclass(frozen=True, slots=True)
class _ComparisonJSON:
    """What an edit changes."""

    edited: AnalysisJSON
    gained: int
    lost: int
    failing: int
    changes: tuple[_DeviceChangeJSON, ...]
    changes_left_out: int


@dataclass(frozen=True, slots=True)
class AnalysisJSON:
    """Which devices of a cluster the selectors of one request or class match."""

    label: str
    selectors: tuple[_SelectorJSON, ...]
    problems: tuple[SelectorProblem, ...]
    compiles: bool
    devices: int | None
    matched: int
    excluded: int
    failed: int
    not_evaluated: int
    rows: tuple[_DeviceRowJSON, ...]
    rows_left_out: int
    notes: tuple[str, ...]
    comparison: _ComparisonJSON | None


def analysis_json(analysis: Analysis) -> AnalysisJSON:
    """The analysis as its JSON has it."""
    return AnalysisJSON(
        label=analysis.label,
        selectors=tuple(map(_selector, analysis.selectors)),
        problems=analysis.problems,
        compiles=analysis.compiles,
        devices=analysis.devices,
        matched=analysis.matched,
        excluded=analysis.excluded,
        failed=analysis.failed,
        not_evaluated=analysis.not_evaluated,
        rows=tuple(_DeviceRowJSON(*_row_fields(each)) for each in analysis.rows),
        rows_left_out=analysis.rows_left_out,
        notes=analysis.notes,
        comparison=None if analysis.comparison is None else _comparison(analysis.comparison),
    )


def _selector(selector: SelectorReport) -> _SelectorJSON:
    return _SelectorJSON(
        owner=selector.owner,
        text=selector.text,
        estimated_cost=selector.estimate,
        cost_limit=MOST_COST,
        costs=None if selector.costs is None else _CostsJSON(*selector.costs),
        clauses=selector.clauses,
    )


def _comparison(comparison: EditComparison) -> _ComparisonJSON:
    return _ComparisonJSON(
        edited=analysis_json(comparison.edited),
        gained=comparison.gained,
        lost=comparison.lost,
        failing=comparison.failing,
        changes=tuple(map(_change, comparison.changes)),
        changes_left_out=comparison.changes_left_out,
    )


def _change(change: DeviceChange) -> _DeviceChangeJSON:
    return _DeviceChangeJSON(*_row_fields(change.row), change.change)


_RowFields = tuple[
    str, int, int, tuple[str, ...], DeviceVerdict, tuple[tuple[Truth, ...], ...], _ExcludedByJSON | None, str, str
]


def _row_fields(row: DeviceRow) -> _RowFields:
    by = row.excluded_by
    excluded_by = None if by is None else _ExcludedByJSON(by[0], by[1] if by[1] >= 0 else None)
    return row.kind, row.count, row.nodes, row.devices, row.verdict, row.truths, excluded_by, row.why, row.error
