"""The usage of clusters in files, and usage reports as text and JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING

import click

from policies.analyses.usage import READ_FROM, UsageJSON, UsageReport, usage_json, usage_report
from policies.analyses.usage.usage_report import sum_if_known
from policies.analyses.wait_list import WaitList, wait_list
from policies.analyses.waiting import stuck_pods
from policies.devices.resource_claims import UNUSED
from policies.kubernetes.names import (
    format_age,
    format_amount,
    format_list,
    format_ranges,
    with_capital,
    with_full_stop,
)
from policies.kubernetes.view import UNKNOWN
from policies.outcome import Audience
from policies.quota.demands.device_kinds import unlimited_remark
from webhook.cli.options import check_namespace_exists
from webhook.cli.progress import current_progress
from webhook.cli.settings import read_cluster_files
from webhook.cli.text_layout import output_text
from webhook.cluster.manifests import ManifestsView
from webhook.pages.report_model import Bar, BarPart, Bullets, Column, Lines, Section, Table, Tone, notes, numbers
from webhook.pages.text_report import render_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from policies.analyses.usage.node_gpus import NodeGPUs, OfferedKind
    from policies.analyses.usage.usage_report import HolderUse, ProductUse
    from policies.devices.resource_claims import Holder
    from policies.fleet.bound_pods import StuckPod
    from policies.kubernetes.view import ClusterView
    from policies.rules.settings.choices import Quotas
    from webhook.cli.cluster_options import ClusterOptions
    from webhook.pages.report_model import Cell

    _Row = tuple[list[str], ProductUse | NodeGPUs, Fraction | None]
    """The first cells of a row, the amounts, and what the only namespace holds of them."""


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
    stuck: tuple[StuckPod, ...] = ()
    """The pods of the report that hold devices on a node and do not run."""
    waiting: WaitList = field(default_factory=WaitList)
    """The pods and workloads that wait for GPUs."""

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
    files = read_cluster_files(source.cluster, source.settings)
    view = ManifestsView(files.facts)
    if view.list("Node") is UNKNOWN and view.list("ResourceSlice") is UNKNOWN:
        raise click.UsageError(
            f"nothing to show: no Node and no ResourceSlice in {', '.join(source.cluster)}; "
            "kubectl get nodes,resourceslices -o yaml prints those of a cluster"
        )
    check_namespace_exists(view, source.namespace)
    notes = [f"the files have no {kind}s, so {USAGE_WITHOUT[kind]}" for kind in READ_FROM if view.list(kind) is UNKNOWN]
    notes += sharing_notes(view, files.settings.quota)
    now, namespace = datetime.now(UTC), source.namespace
    current_progress().show("counting GPUs")
    report = usage_report(view, namespace, settings=files.settings.quota)
    current_progress().show("finding out why pods wait")
    waiting = wait_list(view, files.settings, now, Audience(namespace))
    return Usage(report, tuple(notes), stuck_in(view, namespace, now), waiting)


def sharing_notes(view: ClusterView, settings: Quotas) -> list[str]:
    """A note if claims count as whole GPUs that others can get too; a sentence without a full stop."""
    remark = unlimited_remark(view, settings)
    return [f"pods can also get GPUs that are held: {remark}"] if remark else []


def stuck_in(view: ClusterView, namespace: str, now: datetime) -> tuple[StuckPod, ...]:
    """The pods of a namespace, or of all, that hold devices on a node and do not run now."""
    return tuple(each for each in stuck_pods(view, now) if namespace in ("", each.namespace))


def as_json(usage: Usage) -> str:
    """The report and the notes as one mapping."""
    return output_text(usage_json(usage.report, usage.notes, usage.stuck, usage.waiting), UsageJSON)


def wait_text(waiting: WaitList, width: int | None = None) -> str:
    """The wait list as text; `width` is that of the terminal if None."""
    return render_text([wait_section(waiting)], width)


def wait_section(waiting: WaitList, most: int | None = None) -> Section:
    """The pods and workloads that wait for GPUs, with counts by reason above them.

    Args:
        waiting: The wait list.
        most: The most rows; all if None.
    """
    rows: list[list[Cell]] = [
        [
            row.label,
            row.wants or "?",
            format_age(waiting.age_of(row)) or "?",
            row.fit_text,
            [row.why, *([f"- {row.remedy}"] if row.remedy else [])],
        ]
        for row in waiting.rows
    ]
    columns = [
        Column("WAITING", wraps=True, share=4),
        Column("EACH WANTS", wraps=True, share=5),
        *numbers("FOR", "FIT NOW"),
        Column("WHY, AND WHAT WOULD HELP", wraps=True),
    ]
    return Section([Lines([with_full_stop(with_capital(waiting.summary))]), Table(columns, rows, most)])


_MOST_SHOWN = 20
"""Rows of a table, unless `--by` names it; JSON has all of them."""
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
    return render_text(_sections(usage, by), width)


def _sections(usage: Usage, by: View | None) -> Iterator[Section]:
    report, most = usage.report, None if by else _MOST_SHOWN
    if by is None:
        yield wait_section(usage.waiting, most)
    if not report.gpus:
        yield Section([Lines(["No GPU can be seen." if report.unknown else "The cluster has no GPUs."])])
    else:
        yield Section([Lines([each.sentence for each in report.totals])])
        if by in (None, View.PRODUCT):
            yield Section([_uses(report, [], [([], each, each.held_by_namespace) for each in report.products])])
        if by in (None, View.PRODUCT, View.NODE):
            reasons = [
                f"{format_amount(reason.amount)} {use.kind} on {format_ranges(nodes) if any(nodes) else 'several nodes'}: "
                f"{reason.sentence}"
                for use in report.products
                for reason, nodes in use.reasons
            ]
            yield Section([Lines(["Free, but no pod can use them now:"]), Bullets(reasons)] if reasons else [])
        unhealthy = [
            f"{_holder(use.holder)}{f' on {use.node}' if use.node else ''}: {problem}"
            for use in report.holders
            for problem in use.problems
        ]
        yield Section([Lines(["Held, but unhealthy:"]), Bullets(unhealthy, most)] if unhealthy else [])
        if by in (None, View.NODE):
            shown = report.nodes[:most]
            rows: list[_Row] = [
                ([(node or "several nodes") if gpus is found[0] else ""], gpus, report.held_by_namespace(gpus))
                for node, found in shown
                for gpus in found
            ]
            yield Section([_uses(report, ["NODE"], rows, left_out=len(report.nodes) - len(shown))])
        if by is View.NAMESPACE or (by is None and not report.namespace):
            whole = sum_if_known(None if each.total is None else each.total * each.kind.gpus for each in report.gpus)
            held: list[list[Cell]] = [
                [
                    each.namespace,
                    Bar([BarPart(each.gpus if whole is None else min(each.gpus, whole), "#", Tone.GOOD)], whole),
                    format_amount(each.gpus),
                    str(each.pods),
                    _kinds(each.amounts),
                ]
                for each in report.namespaces
            ]
            yield Section([_holding_table(report, ["NAMESPACE", "USE", *numbers("GPUS", "PODS")], held, most)])
        if by is View.POD or (by is None and report.namespace):
            held = [
                [_holder(each.holder), each.node, format_amount(each.gpus), _holding_text(each)]
                for each in report.holders
            ]
            yield Section([_holding_table(report, ["HELD BY", "NODE", *numbers("GPUS")], held, most)])
    yield Section([*notes(report.problems, "Warning"), *notes(usage.notes)])


def _uses(report: UsageReport, titles: Sequence[str], rows: Sequence[_Row], left_out: int = 0) -> Table:
    """A table of bars and amounts, one row for each kind of device."""
    own_amount = ["BY NAMESPACE"] if report.namespace else []
    columns = [Column("GPUS", wraps=True), Column("USE")]
    cells: list[list[Cell]] = [
        [
            *names,
            use.kind.name(use.total),
            _bar(use, own),
            format_amount(use.total),
            f"{format_amount(use.held, use.total)}{f' ({format_amount(use.over)} twice)' if use.over and use.total else ''}",
            *(
                format_amount(each, use.total)
                for each in (*([own] if report.namespace else []), use.free, use.unusable)
            ),
        ]
        for names, use, own in rows
    ]
    amounts = numbers("TOTAL", "HELD", *own_amount, "FREE", "UNUSABLE")
    return Table([*titles, *columns, *amounts], cells, left_out=left_out)


def _holding_table(
    report: UsageReport, columns: Sequence[Column | str], rows: Sequence[Sequence[Cell]], most: int | None
) -> Table | Lines:
    """A table whose last column has what is held; a sentence if nothing is."""
    if rows:
        return Table([*columns, Column("HOLDS", wraps=True)], rows, most)
    where = f" of namespace {report.namespace}" if report.namespace else ""
    known = "" if report.is_complete else ", as far as can be seen"
    return Lines([f"No pod or claim{where} holds a GPU{known}."])


def _bar(use: ProductUse | NodeGPUs, own: Fraction | None) -> Bar:
    """Held and unusable devices; those of the only namespace apart from those that others hold."""
    if use.total is None or use.held is None:
        return Bar()
    tone = Tone.BAD if use.over else Tone.GOOD
    held = [BarPart(use.held if own is None else own, "#", tone)]
    if own is not None:
        held.append(BarPart(max(use.held - own, _NONE), "=", Tone.NOTE))
    return Bar([*held, BarPart(use.unusable or _NONE, "x", Tone.WARN)], use.total)


def _holder(holder: Holder) -> str:
    """The pods that hold devices, or what holds them without a pod."""
    if holder.pods:
        names, more = format_list(holder.pods, 1), ""
    elif holder.pod_groups:
        names, more = format_list(holder.pod_groups, 1), " (PodGroup)"
    else:
        names, more = holder.claim, " (claim)"
    return f"{holder.namespace}/{names}{more}"


def _holding_text(use: HolderUse) -> str:
    devices = [name for each in use.holdings for name in each.devices]
    if not use.holder.claim:
        return _kinds(use.amounts)
    unused = "" if use.holder.is_used else f", {UNUSED}"
    return f"{_kinds(use.amounts)} by claim {use.holder.claim}{unused}: {format_ranges(devices)}"


def _kinds(amounts: Iterable[tuple[OfferedKind, Fraction]]) -> str:
    return ", ".join(f"{format_amount(amount)} {kind}" for kind, amount in amounts)
