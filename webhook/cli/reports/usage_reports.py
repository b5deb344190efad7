"""The usage of clusters in files, and usage reports as text and JSON."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING

import click

from policies.analyses.usage import READ_FROM, UsageJSON, UsageReport, usage_json, usage_report
from policies.analyses.usage.usage_report import sum_if_known
from policies.devices.resource_claims import UNUSED
from policies.kubernetes.names import format_amount, format_list, format_ranges, printable
from policies.kubernetes.view import UNKNOWN
from webhook.cli.options import check_namespace_exists
from webhook.cli.settings import read_cluster_files
from webhook.cli.text_layout import (
    BAR,
    GAP,
    BarPart,
    Column,
    bar,
    column,
    fitted_columns,
    item,
    output_text,
    paragraph,
    sentence_table,
    table,
    terminal_width,
    truncation,
)
from webhook.cluster.manifests import ManifestsView

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from policies.analyses.usage.node_gpus import NodeGPUs, OfferedKind
    from policies.analyses.usage.usage_report import HolderUse, NamespaceUse, ProductUse
    from policies.devices.resource_claims import Holder
    from webhook.cli.cluster_options import ClusterOptions

    _Row = tuple[list[str], OfferedKind, ProductUse | NodeGPUs, Fraction | None]
    """The first cells of a row, the kind of the devices, their amounts, and what the only namespace holds of them."""


USAGE_WITHOUT = {
    "Node": "device plugins are seen only by the pods that hold their GPUs, and cordons and taints not at all",
    "Pod": "it is unknown how many GPUs of device plugins are held, and which nodes are full",
    "ResourceClaim": "it is unknown how many GPUs of the DRA driver are held",
    "ResourceSlice": "GPUs of the DRA driver are shown only if claims hold them, without their product",
}
"""The consequences for a report if a kind cannot be read."""


@dataclass(frozen=True, slots=True)
class Usage:
    """A usage report, and notes on kinds that cannot be read."""

    report: UsageReport
    notes: tuple[str, ...] = ()
    """Sentences without full stops."""

    @property
    def is_sound(self) -> bool:
        """True if every number is known, and the cluster does not contradict itself."""
        return self.report.is_complete and not self.report.problems


def report_usage_of_files(source: ClusterOptions) -> Usage:
    """Report the usage of the GPUs of a cluster in files.

    Raises:
        UnreadableInputError: Files have problems.
        click.UsageError: The files have no nodes and no slices.
        NoNamespaceError: The namespace does not exist.
    """
    view = ManifestsView(read_cluster_files(source.cluster, None).facts)
    if view.list("Node") is UNKNOWN and view.list("ResourceSlice") is UNKNOWN:
        raise click.UsageError(
            f"nothing to show: no Node and no ResourceSlice in {', '.join(source.cluster)}; "
            "kubectl get nodes,resourceslices -o yaml prints those of a cluster"
        )
    check_namespace_exists(view, source.namespace)
    notes = [f"the files have no {kind}s, so {USAGE_WITHOUT[kind]}" for kind in READ_FROM if view.list(kind) is UNKNOWN]
    return Usage(usage_report(view, source.namespace), tuple(notes))


def as_json(usage: Usage) -> str:
    """The report and the notes as one mapping."""
    return output_text(usage_json(usage.report, usage.notes), UsageJSON)


_MOST_SHOWN = 20
"""Rows of a table, unless `--by` names it; JSON has all of them."""
_SHORTEST_BAR = 10
_COUNT = 3
"""Columns that keep a number on the line of its product."""
_WIDE = 90
"""The columns from which a bar beside sentences has its usual length."""
_NONE = Fraction(0)


class View(StrEnum):
    """The rows of a report."""

    NODE = "node"
    PRODUCT = "product"
    NAMESPACE = "namespace"
    POD = "pod"


def text(usage: Usage, by: View | None = None, width: int | None = None) -> str:
    """The report as tables and sentences.

    Args:
        usage: The report.
        by: What the rows are; several tables if None.
        width: The columns of the terminal; its own if None.
    """
    layout = _Layout(usage.report, terminal_width() if width is None else width)
    if not usage.report.gpus:
        missing = "No GPU can be seen." if usage.report.unknown else "The cluster has no GPUs."
        parts = [[missing]]
    else:
        parts = [[each.sentence for each in usage.report.totals], *layout.tables(by)]
    said = [f"Warning: {problem}." for problem in usage.report.problems] + [f"Note: {note}." for note in usage.notes]
    remarks = [line for each in said for line in paragraph(each, layout.width)]
    return "\n\n".join("\n".join(lines) for lines in (*parts, remarks) if lines)


@dataclass(frozen=True, slots=True)
class _Layout:
    """The tables of a report in so many columns."""

    report: UsageReport
    width: int

    def tables(self, by: View | None) -> Iterator[list[str]]:
        """The tables, one after the other."""
        if by in (None, View.PRODUCT):
            yield list(self._products())
        if by in (None, View.PRODUCT, View.NODE):
            yield list(self._reasons())
        if by in (None, View.NODE):
            yield list(self._nodes(len(self.report.nodes) if by else _MOST_SHOWN))
        if by is View.NAMESPACE or (by is None and not self.report.namespace):
            yield list(self._namespaces(len(self.report.namespaces) if by else _MOST_SHOWN))
        if by is View.POD or (by is None and self.report.namespace):
            yield list(self._holders(len(self.report.holders) if by else _MOST_SHOWN))

    def _products(self) -> Iterator[str]:
        rows: list[_Row] = [([], each.kind, each, each.held_by_namespace) for each in self.report.products]
        return self._uses([], rows)

    def _nodes(self, most: int) -> Iterator[str]:
        rows = [
            (
                [printable(node or "several nodes") if gpus is found[0] else ""],
                gpus.kind,
                gpus,
                self.report.held_by_namespace(gpus),
            )
            for node, found in self.report.nodes[:most]
            for gpus in found
        ]
        if rows:
            yield from self._uses(["NODE"], rows)
            yield from truncation(len(self.report.nodes), most)

    def _uses(self, titles: Sequence[str], rows: Sequence[_Row]) -> Iterator[str]:
        """A table of bars and amounts, one row for each kind of device."""
        by_namespace = ["BY NAMESPACE"] if self.report.namespace else []
        numbers = [
            [
                *(format_amount(use.total), format_amount(use.held)),
                *([format_amount(own)] if by_namespace else []),
                *(format_amount(use.free), format_amount(use.unusable)),
            ]
            for _, _, use, own in rows
        ]
        titles_right = ("TOTAL", "HELD", *by_namespace, "FREE", "UNUSABLE")
        right = fitted_columns(titles_right, numbers, titles_right)
        left = fitted_columns(titles, [names for names, *_ in rows])
        kinds = [printable(str(kind)) for _, kind, *_ in rows]
        room = self.width - sum(each.width + GAP for each in (*left, *right)) - GAP - 2
        size = min(max(room - max(map(len, kinds)), _SHORTEST_BAR), BAR)
        wrapped = [paragraph(kind, max(room - size, *map(len, kind.split()))) for kind in kinds]
        columns = [
            *left,
            column("GPUS", (line for lines in wrapped for line in lines)),
            Column("USE", size + 2),
            *right,
        ]
        cells = [
            [*names, lines, _bar(use, own, size), *amounts]
            for (names, _, use, own), lines, amounts in zip(rows, wrapped, numbers, strict=True)
        ]
        return table(columns, cells)

    def _reasons(self) -> Iterator[str]:
        found = [(use.kind, reason, nodes) for use in self.report.products for reason, nodes in use.reasons]
        if found:
            yield "Free, but no pod can use them now:"
            for kind, reason, nodes in found:
                where = f"on {format_ranges(nodes)}" if any(nodes) else "on several nodes"
                said = f"{format_amount(reason.amount)} {kind} {where}: {reason.sentence}"
                yield from item(said, self.width)

    def _namespaces(self, most: int) -> Iterator[str]:
        whole = sum_if_known(None if each.total is None else each.total * each.kind.gpus for each in self.report.gpus)
        shown, size = self.report.namespaces[:most], BAR if self.width >= _WIDE else _SHORTEST_BAR
        rows = [
            (
                [printable(each.namespace), _share(each, whole, size), format_amount(each.gpus), str(each.pods)],
                _kinds(each.amounts),
            )
            for each in shown
        ]
        if not rows:
            yield _empty_text(self.report)
            return
        yield from self._sentences(("NAMESPACE", "USE", "GPUS", "PODS"), rows)
        yield from truncation(len(self.report.namespaces), most)

    def _holders(self, most: int) -> Iterator[str]:
        rows = [
            ([_holder(each.holder), printable(each.node), format_amount(each.gpus)], _holding_text(each))
            for each in self.report.holders[:most]
        ]
        if not rows:
            yield _empty_text(self.report)
            return
        yield from self._sentences(("HELD BY", "NODE", "GPUS"), rows)
        yield from truncation(len(self.report.holders), most)

    def _sentences(self, titles: Sequence[str], rows: Sequence[tuple[list[str], str]]) -> Iterator[str]:
        """A table whose last column has what is held; numbers are aligned at the right."""
        columns = fitted_columns(titles, [cells for cells, _ in rows], ("GPUS", "PODS"))
        longest = max(len(word) for _, sentence in rows for word in sentence.split())
        return sentence_table(columns, "HOLDS", rows, self.width, longest + _COUNT)


def _bar(use: ProductUse | NodeGPUs, own: Fraction | None, size: int) -> str:
    """Held and unusable devices; those of the only namespace apart from those that others hold."""
    if use.total is None or use.held is None:
        return f"[{'?' * size}]"
    colour = "red" if use.held > use.total else "green"
    if own is None:
        held = [BarPart(use.held, "#", colour)]
    else:
        held = [BarPart(own, "#", colour), BarPart(max(use.held - own, _NONE), "=", "cyan")]
    return bar([*held, BarPart(use.unusable or _NONE, "x", "yellow")], use.total, size)


def _share(use: NamespaceUse, whole: Fraction | None, size: int) -> str:
    """The part of all GPUs that a namespace holds."""
    return f"[{'?' * size}]" if whole is None else bar([BarPart(use.gpus, "#", "green")], whole, size)


def _empty_text(report: UsageReport) -> str:
    where = f" of namespace {report.namespace}" if report.namespace else ""
    known = "" if report.is_complete else ", as far as can be seen"
    return f"No pod or claim{where} holds a GPU{known}."


def _holder(holder: Holder) -> str:
    """The pods that hold devices, or what holds them without a pod."""
    if holder.pods:
        names, more = format_list(holder.pods, 1), ""
    elif holder.pod_groups:
        names, more = format_list(holder.pod_groups, 1), " (PodGroup)"
    else:
        names, more = holder.claim, " (claim)"
    return printable(f"{holder.namespace}/{names}{more}")


def _holding_text(use: HolderUse) -> str:
    devices = [name for each in use.holdings for name in each.devices]
    if not use.holder.claim:
        return _kinds(use.amounts)
    unused = "" if use.holder.is_used else f", {UNUSED}"
    return f"{_kinds(use.amounts)} by claim {use.holder.claim}{unused}: {format_ranges(devices)}"


def _kinds(amounts: Iterable[tuple[OfferedKind, Fraction]]) -> str:
    return ", ".join(f"{format_amount(amount)} {kind}" for kind, amount in amounts)
