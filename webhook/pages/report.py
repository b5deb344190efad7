"""The report: waiting pods, GPUs, quotas and findings of a cluster as a page, or as its parts."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.analyses.overview import HIDDEN
from policies.analyses.usage.cells import CellState
from policies.analyses.usage.node_gpus import Provider, UnusableKind
from policies.kubernetes.names import format_age, format_amount, format_count, format_list, format_ranges, with_capital
from policies.rules.decision import Severity
from webhook.pages.rendering import one_word, render_page, render_part
from webhook.pages.report_model import Tone

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.analyses.audit import AuditFinding, AuditReport
    from policies.analyses.overview import Overview
    from policies.analyses.usage.cells import CellPart, GPUCell
    from policies.analyses.usage.usage_report import FormTotal
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
    """The parts of the report by name, with `tiles` and `filters`, for a page with style and script."""
    facts = _facts(overview)
    parts = {name: render_part(f"report_{name}", **facts) for name in ("tiles", *PARTS)}
    return {"tiles": parts.pop("tiles"), "filters": render_part("report_filters", facets=_facets(overview)), **parts}


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
        "tiles": [*_tiles(overview)],
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


class Tile(NamedTuple):
    """A number that a reader looks at first."""

    number: str
    words: str
    link: str
    """The part that shows more, with its filters."""
    tone: Tone
    """Plain if there is no trouble."""
    details: Sequence[str] = ()


def _tiles(overview: Overview) -> Iterator[Tile]:
    """The tiles: what waits, what is free, what is broken."""
    waiting = overview.waiting
    yield Tile(
        f"{waiting.total:,}" if waiting.is_known else "?",
        f"{'pod waits' if waiting.total == 1 else 'pods wait'} for GPUs",
        "#waiting",
        Tone.WARN if waiting.total or not waiting.is_known else Tone.PLAIN,
        [f"{number:,} {reason.words}" for reason, number in [*waiting.counts.items()][:2]],
    )
    yield _amounts_tile("free", [(each, each.free) for each in overview.usage.totals], "#nodes?state=free")
    yield _unusable_tile(overview)
    quotas = overview.quotas
    over = sum(each.is_over for each in quotas or ())
    yield Tile(
        "?" if quotas is None else f"{over:,}",
        f"{'namespace' if over == 1 else 'namespaces'} over quota",
        "#quotas",
        Tone.BAD if over else Tone.PLAIN,
        ["GPUQuotas cannot be read"] if quotas is None else [f"{len(quotas):,} with a quota"],
    )
    yield _findings_tile(overview.audit)


def _amounts_tile(
    words: str, amounts: Sequence[tuple[FormTotal, Fraction | None]], link: str, tone: Tone = Tone.PLAIN
) -> Tile:
    """The amounts by form: the first form of which there are any, with the others as details."""
    amounts = [each for each in amounts if each[1] != 0] or amounts[:1]
    if not amounts:
        return Tile("0", f"GPUs {words}", link, tone)
    (first, amount), *others = amounts
    details = [f"{format_amount(other)} {total.words(other)}" for total, other in others]
    return Tile(format_amount(amount), f"{first.words(amount)} {words}", link, tone, details)


def _unusable_tile(overview: Overview) -> Tile:
    totals = overview.usage.totals
    amounts = [(each, None if each.unusable is None else each.unusable + each.unhealthy) for each in totals]
    broken = {
        "held and unhealthy": sum((each.unhealthy for each in totals), Fraction(0)),
        "given out twice": overview.given_out_twice,
    }
    tone = Tone.BAD if any(broken.values()) else Tone.WARN if any(amount for _, amount in amounts) else Tone.PLAIN
    tile = _amounts_tile("unusable", amounts, "#nodes?node=needs-attention", tone)
    shown = [f"{format_amount(amount)} {words}" for words, amount in broken.items() if amount]
    return tile._replace(details=[*tile.details, *shown])


def _findings_tile(audit: AuditReport | None) -> Tile:
    if audit is None:
        return Tile("?", "findings", "#findings", Tone.PLAIN, ["the cluster was not audited"])
    counts = {each: audit.count(each) for each in Severity if each is not Severity.OFF and audit.count(each)}
    worst = next(iter(counts), None)
    total = sum(counts.values())
    return Tile(
        f"{total:,}",
        "finding" if total == 1 else "findings",
        f"#findings?severity={worst}" if worst else "#findings",
        {None: Tone.PLAIN, Severity.DENY: Tone.BAD}.get(worst, Tone.WARN),
        [f"{number:,} {severity}" for severity, number in counts.items()],
    )
