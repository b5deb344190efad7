"""The report: waiting pods, GPUs, quotas and findings of a cluster as a page, or as its parts.

The nodes are a list with a line for each. The first lines are in the page as such; the others are in templates, of which
`page.js` shows those near the window, so that a browser has to lay out a few hundred lines only.
"""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.analyses.overview import HIDDEN, NodeState
from policies.analyses.usage.cells import CellState
from policies.analyses.usage.node_gpus import DeviceForm, Provider, UnusableKind
from policies.analyses.usage.usage_report import sum_if_known
from policies.kubernetes.names import format_age, format_amount, format_count, format_list, format_ranges, with_capital
from policies.rules.decision import Severity
from webhook.pages.rendering import coordinate, one_word, render_page, render_part
from webhook.pages.report_model import Tone

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from policies.analyses.audit import AuditFinding, AuditReport
    from policies.analyses.overview import NodeOverview, Overview, QuotaOverview
    from policies.analyses.usage.cells import CellPart, GPUCell
    from policies.analyses.usage.usage_report import FormTotal
    from policies.analyses.wait_reasons import WaitReason
    from policies.devices.resource_claims import Holder
    from policies.rules.decision import Rule


PARTS = ("waiting", "summary", "nodes", "quotas", "migration", "findings")
"""The parts of a report, in their order."""
_MOST_ROWS = 500
"""Rows of a table of namespaces or of holders; the others are counted."""
_FIRST_NODES = 100
"""Lines of nodes that a page without scripts shows."""
_NOTHING = Fraction(0)
_NODES_IN_PART = 250
"""Lines of nodes in a part, which the live page sends again if one of them changes."""


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
    parts = {"tiles": render_part("report_tiles", **facts)}
    parts["filters"] = render_part("report_filters", facets=_facets(overview))
    for name in PARTS:
        parts[name] = render_part(f"report_{name}", **facts)
        if name == "nodes":
            for number, groups in enumerate(facts["more_nodes"], 1):
                parts[f"nodes-{number}"] = render_part("report_more_nodes", groups=groups, **facts)
    return parts


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


class NodeGroup(NamedTuple):
    """Neighbouring lines of nodes with one heading."""

    title: str
    lines: Sequence[NodeLine]


class NodeLine(NamedTuple):
    """A node on one line, and the card below it."""

    node: NodeOverview
    words: str
    """The numbers of its devices: `5 of 8 GPUs held, 3 free`."""
    holders: str
    """The holders with the most devices, each once: `team-a/train x8`."""
    width: int
    """Of the picture."""
    shapes: Sequence[tuple[str, str]]
    """The kinds of the parts of its GPUs, and for each kind the path of a picture that is 12 units high."""
    runs: Sequence[CellRun]
    facets: str
    """`state product namespace...` of its GPUs, separated by commas, for filters."""


class CellRun(NamedTuple):
    """Neighbouring GPUs that are alike, or one GPU with parts."""

    cell: GPUCell
    words: str
    """Their names, or their number."""
    parts: Sequence[tuple[int, CellPart]]
    """Its parts with holders or labels; neighbours that are alike together, with their number."""
    shapes: Sequence[tuple[str, str]]
    """The picture of the parts, as of `NodeLine`, 26 units wide; empty for GPUs without parts."""


def _facts(overview: Overview) -> dict[str, Any]:
    # Sorting keeps the order of names among the nodes of a group.
    nodes = sorted(overview.nodes, key=_node_group)
    rest = range(_FIRST_NODES, len(nodes), _NODES_IN_PART)
    first_nodes = _node_groups(nodes[:_FIRST_NODES])
    more_nodes = [_node_groups(nodes[first : first + _NODES_IN_PART]) for first in rest]
    groups = chain(first_nodes, *more_nodes)
    kinds = {kind for group in groups for line in group.lines for kind, _ in line.shapes}
    return {
        "first_nodes": first_nodes,
        "first_count": _FIRST_NODES,
        "more_nodes": more_nodes,
        "legend": [(kind, words) for kind, words in _MEANINGS.items() if kind in kinds],
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


_MEANINGS = {
    "held": "held through the device plugin",
    "claim": "held by a claim (DRA)",
    "free": "free",
    "unusable": "unusable",
    "over": "given out twice",
    "track": "unknown",
}
"""The kinds of parts of GPUs, in words."""


def _node_group(node: NodeOverview) -> str:
    return f"{node.products}, NVLink clique {node.clique}" if node.clique else node.products


def _node_groups(nodes: Sequence[NodeOverview]) -> list[NodeGroup]:
    return [NodeGroup(title, [*map(_node_line, found)]) for title, found in groupby(nodes, _node_group)]


def _node_line(node: NodeOverview) -> NodeLine:
    held: dict[str, Fraction] = {}
    for each in node.gpus:
        for holding in each.holdings:
            text = _holder_text(holding.holder)
            held[text] = held.get(text, _NOTHING) + holding.amount
    holders = sorted(held.items(), key=lambda item: (-item[1], item[0]))
    texts = [f"{text} x{format_amount(amount)}" if amount != 1 else text for text, amount in holders]
    width, shapes = _picture(node.cells[:_MOST_SQUARES])
    return NodeLine(
        node,
        _node_words(node),
        format_list(texts, 2) if texts else "",
        width,
        shapes,
        [*_runs(node.cells)],
        _gpu_facets(node),
    )


def _node_words(node: NodeOverview) -> str:
    forms = {each.kind.form for each in node.gpus}
    devices = f"{forms.pop().noun}s" if len(forms) == 1 else "devices"
    if len(node.gpus) == 1:
        devices = node.gpus[0].kind.words(node.gpus[0].total)
    total, held = sum_if_known(each.total for each in node.gpus), sum_if_known(each.held for each in node.gpus)
    words = [f"{format_amount(held, total)} of {format_amount(total)} {devices} held"]
    for word in ("free", "unusable"):
        amount = sum_if_known(getattr(each, word) for each in node.gpus)
        if amount:
            words.append(f"{format_amount(amount)} {word}")
    return ", ".join(words)


_MOST_SQUARES = 32
"""Squares of a node; the words beside them count all devices."""
_SQUARE, _DIVIDED, _GAP = 12, 26, 2
"""The sides of a square, the width of a GPU with parts, and the space between two."""


def _picture(cells: Sequence[GPUCell]) -> tuple[int, Sequence[tuple[str, str]]]:
    """The width of the picture of some GPUs, and for each kind of parts the path of all of them."""
    paths: dict[str, list[str]] = {}
    left = 0
    for cell in cells:
        is_one = len(cell.parts) == 1 or (cell.is_over and cell.kind.form is DeviceForm.WHOLE)
        width, gap = (_SQUARE, 0) if is_one else (_DIVIDED, 1)
        for part in cell.parts:
            kind = _part_kind(cell, part)
            inset = 0.5 if kind == "free" else 0  # the line around it is one unit wide
            x, y = left + width * float(part.start) + inset, coordinate(inset)
            w, h = coordinate(max(width * float(part.width) - gap - 2 * inset, 0.5)), coordinate(_SQUARE - 2 * inset)
            paths.setdefault(kind, []).append(f"M{coordinate(x)} {y}h{w}v{h}h-{w}z")
        left += width + _GAP
    return max(left - _GAP, 0), [(kind, "".join(path)) for kind, path in paths.items()]


def _runs(cells: Sequence[GPUCell]) -> Iterator[CellRun]:
    """The GPUs of a node, with those that are alike together."""
    for _, found in groupby(cells, _likeness):
        run = [*found]
        first, *others = run
        names = [cell.name for cell in run if cell.name]
        noun = first.kind.profile or "GPU"
        words = format_ranges(names) if names else f"{len(run)} {noun}s" if others else noun
        shown = groupby((part for part in first.parts if part.holder or part.label), _part_likeness)
        parts = [(len([*alike]), part) for part, alike in shown]
        yield CellRun(first, words, parts, _picture([first])[1] if len(first.parts) > 1 else ())


def _likeness(cell: GPUCell) -> object:
    parts = [part._replace(device="") for part in cell.parts]
    return cell.kind, cell.provider, cell.is_over, cell.is_known, cell.state, parts


def _part_likeness(part: CellPart) -> CellPart:
    return part._replace(start=_NOTHING, width=_NOTHING, device="")


def _gpu_facets(node: NodeOverview) -> str:
    """The states and products of GPUs on a node with the namespaces that hold them, for filters."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for cell in node.cells:
        product, held = one_word(cell.kind.product), {part.holder.namespace: None for part in cell.parts if part.holder}
        found.setdefault((cell.state, product), {}).update(held)
        if cell.state is CellState.PARTLY_HELD:
            found.setdefault((CellState.HELD, product), {}).update(held)
            found.setdefault((CellState.FREE, product), {})
    drawn = {cell.kind.product for cell in node.cells}
    for each in node.gpus:
        if each.kind.product not in drawn:
            product = one_word(each.kind.product)
            if each.holdings:
                found[CellState.HELD, product] = {holding.holder.namespace: None for holding in each.holdings}
            rest = CellState.UNKNOWN if each.free is None else CellState.FREE if each.free else CellState.UNUSABLE
            if each.not_held != 0:
                found[rest, product] = {}
    return " , ".join(" ".join((*words, *filter(None, namespaces))) for words, namespaces in found.items())


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
    namespaces |= {name for each in overview.quotas or () for name in each.report.namespaces}
    if overview.audit is not None:
        namespaces |= {each.namespace for each in overview.audit.readiness}
        namespaces |= {each.namespace for each in overview.audit.findings if each.namespace}
    products = {one_word(each.kind.product) for node in overview.nodes for each in node.gpus}
    return [
        Facet("node", "Node state", ["needs-attention", *(one_word(state) for state in NodeState)]),
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
        [*_reason_details(waiting.counts)],
    )
    yield _amounts_tile("free", [(each, each.free) for each in overview.usage.totals], "#nodes?state=free")
    yield _unusable_tile(overview)
    yield _nodes_tile(overview)
    yield _quotas_tile(overview.quotas)
    yield _findings_tile(overview.audit)


def _quotas_tile(quotas: Sequence[QuotaOverview] | None) -> Tile:
    over = sum(each.report.is_over for each in quotas or ())
    groups = sum(each.report.group is not None for each in quotas or ())
    words = f"{'namespace' if over == 1 else 'namespaces'} over quota"
    details = ["GPUQuotas cannot be read"] if quotas is None else [f"{len(quotas) - groups:,} with a quota"]
    if groups:
        words = f"{'quota' if over == 1 else 'quotas'} over a limit"
        details = [
            f"{format_count(len(quotas or ()) - groups, 'namespace')} with a quota",
            format_count(groups, "group"),
        ]
    return Tile("?" if quotas is None else f"{over:,}", words, "#quotas", Tone.BAD if over else Tone.PLAIN, details)


def _reason_details(counts: Mapping[WaitReason, int]) -> Iterator[str]:
    """The pods by reason; of more than three reasons the first two, and the number of the other pods."""
    shown = [*counts.items()][: 3 if len(counts) <= 3 else 2]
    for reason, number in shown:
        yield f"{reason.words} ({number:,})"
    if others := sum(counts.values()) - sum(number for _, number in shown):
        yield f"other reasons ({others:,})"


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
    unhealthy = defaultdict(Fraction, {each.form: each.unhealthy for each in totals})
    for each in overview.usage.gpus:
        reasons = (reason.amount for reason in each.reasons if reason.kind is UnusableKind.UNHEALTHY)
        unhealthy[each.kind.form] += sum(reasons, Fraction(0))
    broken = [
        f"{format_amount(amount)} {each.words(amount)} {words}"
        for each in totals
        for amount, words in (
            (unhealthy[each.form], "unhealthy"),
            (each.twice, "given out twice"),
            (each.missing, "held that no node shows"),
        )
        if amount
    ]
    tone = Tone.BAD if broken else Tone.WARN if any(amount for _, amount in amounts) else Tone.PLAIN
    unusable = any(each.unusable != 0 for each in totals)
    tile = _amounts_tile(
        "unusable", amounts, f"#nodes?{'state=unusable' if unusable else 'node=needs-attention'}", tone
    )
    return tile._replace(details=[*tile.details, *broken])


def _nodes_tile(overview: Overview) -> Tile:
    if overview.hidden_nodes:
        return Tile(f"{overview.hidden_nodes:,}", "nodes with GPUs", "#nodes", Tone.PLAIN, ["you may not list nodes"])
    nodes = [node for node in overview.nodes if node.name]
    if "Node" in overview.usage.unknown:
        return Tile("?", "nodes ready", "#nodes", Tone.WARN, ["nodes cannot be read"])
    counts = {
        state: sum(state in node.states for node in nodes)
        for state in (NodeState.NOT_READY, NodeState.MISSING, NodeState.CORDONED)
    }
    found = [state for state, number in counts.items() if number]
    ready = len(nodes) - counts[NodeState.NOT_READY] - counts[NodeState.MISSING]
    return Tile(
        f"{ready:,}",
        f"of {format_count(len(nodes), 'node')} ready",
        f"#nodes?node={one_word(found[0])}" if found else "#nodes",
        Tone.BAD if ready < len(nodes) else Tone.WARN if found else Tone.PLAIN,
        [f"{counts[state]:,} {state}" for state in found],
    )


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
