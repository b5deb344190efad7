"""The report: waiting pods, GPUs, quotas and findings of a cluster as a page, or as its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from policies.analyses.overview import HIDDEN
from policies.analyses.usage.cells import CellState
from policies.analyses.usage.node_gpus import Provider, UnusableKind
from policies.kubernetes.names import format_age, format_count, format_list, format_ranges, with_capital
from policies.rules.decision import Severity
from webhook.pages.rendering import one_word, render_page, render_part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.analyses.audit import AuditFinding
    from policies.analyses.overview import Overview
    from policies.analyses.usage.cells import CellPart, GPUCell
    from policies.devices.resource_claims import Holder
    from policies.rules.decision import Rule


PARTS = ("waiting", "summary", "nodes", "quotas", "migration", "findings")
"""The parts of a report, in their order."""
_MOST_ROWS = 500
"""Rows of a table of namespaces or of holders; the others are counted."""


def render_report(overview: Overview, *, title: str, moment: str, notes: Sequence[str] = ()) -> str:
    """The report as one page that needs no network.

    Args:
        overview: What the page shows.
        title: The heading of the page, which names the cluster.
        moment: When the cluster was read, for people.
        notes: What could not be read, as sentences without full stops.
    """
    facts = _facts(overview)
    return render_page(
        "report", title=title, moment=moment, notes=notes, parts=PARTS, facets=_facets(overview), **facts
    )


def render_report_parts(overview: Overview) -> dict[str, str]:
    """The parts of the report by name, and `filters`, for a page with the style and the script."""
    facts = _facts(overview)
    parts = {name: render_part(f"report_{name}", **facts) for name in PARTS}
    return {"filters": render_part("report_filters", facets=_facets(overview)), **parts}


class RuleFindings(NamedTuple):
    """The findings of one rule with one severity."""

    rule: Rule
    severity: Severity
    findings: tuple[AuditFinding, ...]
    objects: int
    """The number of objects, with those whose findings are not shown."""


class Facet(NamedTuple):
    """A filter with a list of values."""

    name: str
    title: str
    values: Sequence[str]


def _facts(overview: Overview) -> dict[str, Any]:
    return {
        "overview": overview,
        "waiting": overview.waiting,
        "usage": overview.usage,
        "rules": _rules(overview),
        "holder_text": _holder_text,
        "part_kind": _part_kind,
        "reason_words": _REASON_WORDS,
        "hidden": HIDDEN,
        "most": _MOST_ROWS,
        "count": format_count,
        "age": format_age,
        "sentence": with_capital,
        "ranges": format_ranges,
    }


_REASON_WORDS = {
    UnusableKind.CORDONED: "cordoned",
    UnusableKind.TAINTED: "tainted node",
    UnusableKind.NO_ROOM: "no room on the node",
    UnusableKind.UNHEALTHY: "unhealthy",
    UnusableKind.DEVICE_TAINTED: "tainted",
    UnusableKind.POOL: "incomplete pool",
    UnusableKind.FRAGMENTED: "too small a rest",
    UnusableKind.NODE_MISSING: "no such node",
    UnusableKind.NOT_ADVERTISED: "not offered",
}
"""The reasons why a GPU is unusable, in words that are short enough for a cell."""


def _rules(overview: Overview) -> list[RuleFindings]:
    """The findings by rule and severity, the most severe first."""
    if overview.audit is None:
        return []
    grouped: dict[tuple[Rule, Severity], list[AuditFinding]] = {}
    for finding in overview.audit.findings:
        grouped.setdefault((finding.rule, finding.severity), []).append(finding)
    found = overview.audit.found
    order = tuple(Severity)
    return [
        RuleFindings(rule, severity, tuple(grouped.get((rule, severity), ())), count)
        for (rule, severity), count in sorted(found.items(), key=lambda item: (order.index(item[0][1]), item[0][0].id))
    ]


def _facets(overview: Overview) -> list[Facet]:
    namespaces = {each.namespace for each in overview.usage.namespaces if each.namespace}
    namespaces |= {row.namespace for row in overview.waiting.rows}
    namespaces |= {each.report.namespace for each in overview.quotas or ()}
    if overview.audit is not None:
        namespaces |= {each.namespace for each in overview.audit.readiness}
        namespaces |= {each.namespace for each in overview.audit.findings if each.namespace}
    products = {one_word(cell.kind.product) for node in overview.nodes for cell in node.cells}
    return [
        Facet("state", "GPU state", [str(state) for state in CellState]),
        Facet("product", "Product", sorted(products)),
        Facet("reason", "Waiting because", [one_word(reason.words) for reason in overview.waiting.counts]),
        Facet("namespace", "Namespace", sorted(namespaces)[:_MOST_ROWS]),
        Facet("severity", "Severity", [str(severity) for severity in Severity if severity is not Severity.OFF]),
    ]


def _holder_text(holder: Holder) -> str:
    """The holder of a part of a GPU, short enough for a cell."""
    if holder == HIDDEN:
        return "another namespace"
    if holder.is_used:
        return f"{holder.namespace}/{format_list(holder.pods or holder.pod_groups, 1)}"
    return f"{holder.namespace}/{holder.claim} (claim without a pod)"


def _part_kind(cell: GPUCell, part: CellPart) -> str:
    """The class of a part in the style of the page."""
    if cell.is_over:
        return "over"
    if part.holder is not None:
        # A hidden holder does not say whether it is a claim.
        return "claim" if part.holder.claim or cell.provider is Provider.DRA else "held"
    if part.reason is not None:
        return "unusable"
    return "free" if cell.is_known else "track"
