"""Quotas of clusters in files, and quota reports as text and JSON."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from policies.kubernetes.names import printable
from policies.kubernetes.view import UNKNOWN, Unknown
from policies.quota.limits.amounts import amount_with_unit
from policies.quota.quota_json import QuotasJSON, quotas_json
from policies.quota.quota_report import COUNTED_FROM, QUOTA, QuotaState, quota_reports
from webhook.cli.options import check_namespace_exists
from webhook.cli.settings import read_cluster_files
from webhook.cli.text_layout import (
    BAR,
    BarPart,
    bar,
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
    from collections.abc import Iterator, Sequence
    from datetime import timedelta
    from fractions import Fraction

    from policies.kubernetes.view import ClusterView
    from policies.quota.quota_report import LimitUse, QuotaReport
    from policies.rules.charges import Amounts, Unit
    from policies.rules.settings import GPUAdmissionPolicy
    from webhook.cli.cluster_options import ClusterOptions


WITHOUT = {
    "Pod": "what they hold is not shown, and usage is shown only if a status has it",
    "ResourceClaim": "what they hold is not shown",
    "Node": "pods are shown with the most that they could have got",
    "ResourceSlice": "pods and claims with devices of DRA are shown with the most that they could have got",
}
"""The gaps of a report if a kind cannot be read."""


@dataclass(frozen=True, slots=True)
class QuotaReports:
    """The reports on all quotas, and notes on settings and on kinds that cannot be read."""

    reports: tuple[QuotaReport, ...]
    """Sorted by namespace."""
    namespace: str
    """The only namespace that was looked into; empty for all."""
    notes: tuple[str, ...]
    """Sentences without full stops."""

    @property
    def all_within_limits(self) -> bool:
        """True if every quota is counted and within its limits."""
        return all(report.state is QuotaState.WITHIN for report in self.reports)


def report_quotas_of_files(source: ClusterOptions) -> QuotaReports:
    """Report the quotas of a cluster in files.

    Raises:
        UnreadableInputError: Files have problems.
        click.UsageError: The files have no GPUQuotas.
        NoNamespaceError: The namespace does not exist.
    """
    files, namespace = read_cluster_files(source.cluster, source.settings), source.namespace
    view = ManifestsView(files.facts)
    if view.list(QUOTA, namespace) is UNKNOWN:
        raise click.UsageError(
            f"nothing to show: no GPUQuota in {', '.join(source.cluster)}; kubectl get gpuquotas -A -o yaml prints those of a "
            "cluster"
        )
    check_namespace_exists(view, namespace)
    gaps = [f"the files have no {kind}s, so {WITHOUT[kind]}" for kind in unknown_kinds(view, namespace)]
    return report_quotas_of_view(view, files.settings, namespace, [*files.notes, *gaps])


def report_quotas_of_view(
    view: ClusterView, policy: GPUAdmissionPolicy, namespace: str, notes: Sequence[str]
) -> QuotaReports:
    """Report the quotas of a namespace, or of all if it is empty; without a quota, the notes are dropped."""
    found = quota_reports(view, policy, datetime.now(UTC), namespace)
    reports = () if isinstance(found, Unknown) else found
    return QuotaReports(reports, namespace, tuple(notes) if reports else ())


def unknown_kinds(view: ClusterView, namespace: str) -> list[str]:
    """The kinds that quotas are counted from and that cannot be read; an empty `namespace` stands for all."""
    return [kind for kind in COUNTED_FROM if view.list(kind, namespace) is UNKNOWN]


def as_json(quotas: QuotaReports) -> str:
    """The reports and the notes as one mapping."""
    return output_text(quotas_json(quotas.reports, quotas.notes), QuotasJSON)


_MOST_SHOWN = 20
"""Holders and reservations of a quota; JSON has all of them."""
_COLOURS = {
    QuotaState.WITHIN: "green",
    QuotaState.OVER: "red",
    QuotaState.UNCOUNTED: "yellow",
    QuotaState.UNREADABLE: "red",
}
_FAILING = {
    True: "The namespace enforces it: while it cannot be checked, pods that get GPUs are refused",
    False: "The namespace does not enforce it: while it cannot be checked, all pods are admitted",
    None: "Whether the namespace enforces it is unknown",
}
_AGES = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def text(quotas: QuotaReports, width: int | None = None) -> str:
    """All reports, with a summary if there are several; `width` is that of the terminal if None."""
    width = terminal_width() if width is None else width
    parts = ["\n".join(_lines(report, width)) for report in quotas.reports] or [_no_quota(quotas.namespace)]
    notes = [line for note in quotas.notes for line in paragraph(f"Note: {note}.", width)]
    summary = [_summary(quotas.reports)] if len(quotas.reports) > 1 else []
    return "\n\n".join([*parts, *(["\n".join(notes)] if notes else []), *summary])


def _no_quota(namespace: str) -> str:
    if namespace:
        return f"Namespace {namespace} has no GPUQuota, so it has no limits; the command usage lists pods with GPUs."
    return "No GPUQuota exists, so no namespace has limits; the command usage lists pods with GPUs."


def _summary(reports: Sequence[QuotaReport]) -> str:
    counts = Counter(report.state for report in reports)
    return f"{len(reports)} quotas: {', '.join(f'{counts[state]} {state}' for state in QuotaState if counts[state])}"


def _lines(report: QuotaReport, width: int) -> Iterator[str]:
    state = click.style(str(report.state), fg=_COLOURS[report.state], bold=True)
    yield f"{click.style(printable(f'GPUQuota {report.namespace}/{report.name}'), bold=True)}  {state}"
    if report.quota is None:
        yield from paragraph(_unreadable(report), width)
        for path, sentence in report.problems:
            yield from item(f"{path}: {sentence}" if path else sentence, width)
    else:
        if not report.exempt:
            yield from paragraph(_modes(report), width)
        for remark in report.remarks:
            yield from paragraph(f"Warning: {remark}.", width)
        yield ""
        cells = [
            [
                each.limit.name,
                _bar(each),
                _amount(each.limit.unit, each.used),
                _amount(each.limit.unit, each.reserved),
                _amount(each.limit.unit, each.left),
                amount_with_unit(each.limit.unit, each.limit.hard),
            ]
            for each in report.limits
        ]
        titles = ("LIMIT", "USE", "USED", "RESERVED", "LEFT", "HARD")
        yield from table(fitted_columns(titles, cells, titles[2:5]), cells)
        yield from _holders(report, width)
        yield from _reservations(report, width)
    yield from _conditions(report, width)


def _unreadable(report: QuotaReport) -> str:
    if report.enforced:
        return "It cannot be read, and the namespace enforces it, so pods that get GPUs are refused."
    return "It cannot be read, so it limits nothing."


def _modes(report: QuotaReport) -> str:
    """The mode, and what happens while the quota cannot be checked."""
    warns = report.quota is not None and report.quota.mode == "Warn"
    result = "admitted with a warning (mode Warn)" if warns else "refused (mode Enforce)"
    return f"Pods over a limit are {result}. {_FAILING[report.enforced]}."


def _bar(use: LimitUse) -> str:
    """The used and reserved parts of a limit; the bar of an exceeded limit ends with an arrow."""
    if use.used is None:
        return f"[{'?' * BAR}]"
    used = BarPart(use.used, "#", "red" if use.is_over else "green")
    return bar([used, BarPart(use.reserved, "=", "cyan")], use.limit.hard)


def _holders(report: QuotaReport, width: int) -> Iterator[str]:
    if report.holders is None:
        return
    yield ""
    if not report.holders:
        yield "No pod or claim holds any of it."
        return
    shown = report.holders[:_MOST_SHOWN]
    rows = [(each.name, _age(each.age), _amounts(report, each.amounts)) for each in shown]
    yield from _table_of_sentences(("HELD BY", "AGE", "HOLDS"), rows, width)
    yield from truncation(len(report.holders), _MOST_SHOWN)


def _reservations(report: QuotaReport, width: int) -> Iterator[str]:
    if not report.reservations:
        return
    yield ""
    rows = []
    for each in report.reservations[:_MOST_SHOWN]:
        owner = "pod" if each.of_kind == "Pod" else each.of_kind
        counted = f", counted with {owner} {each.of}" if each.of else ""
        takes = _amounts(report, each.amounts) or "nothing of a limit"
        name = f"{each.kind} {each.name}"
        seen = f"{' and '.join(each.waits_for)} {'is' if len(each.waits_for) == 1 else 'are'} seen"
        rows.append((name, _age(each.age), f"{takes}{counted}; until {seen}"))
    yield from _table_of_sentences(("ON ITS WAY", "AGE", "RESERVES"), rows, width)
    yield from truncation(len(report.reservations), _MOST_SHOWN)


def _table_of_sentences(
    titles: tuple[str, str, str], rows: Sequence[tuple[str, str, str]], width: int
) -> Iterator[str]:
    """A table of names, ages and sentences; without the column of ages if no age is known."""
    with_ages = any(age for _, age, _ in rows)
    cells = [((printable(name), age) if with_ages else (printable(name),), sentence) for name, age, sentence in rows]
    columns = fitted_columns(titles[: 1 + with_ages], [names for names, _ in cells], titles[1:2])
    return sentence_table(columns, titles[2], cells, width, width // 3)


def _conditions(report: QuotaReport, width: int) -> Iterator[str]:
    if not report.conditions:
        return
    yield ""
    for each in report.conditions:
        status = {"True": "yes", "False": "no"}.get(each.status, "unknown")
        reason = f" ({each.reason})" if each.reason else ""
        message = f": {each.message}" if each.message else ""
        yield from paragraph(f"{each.type} {status}{reason}{message}", width)


def _amounts(report: QuotaReport, amounts: Amounts) -> str:
    """The amounts, in the order of the limits."""
    by_limit = [(each.limit, amounts.get(each.limit.name)) for each in report.limits]
    return ", ".join(f"{limit.name} {_amount(limit.unit, amount)}" for limit, amount in by_limit if amount)


def _amount(unit: Unit, amount: Fraction | None) -> str:
    if amount is None:
        return "?"
    return amount_with_unit(unit, amount) if unit == "memory" else str(amount)


def _age(age: timedelta | None) -> str:
    """An age in its largest unit, as kubectl prints it; empty if it is unknown, as for manifests."""
    seconds = int(age.total_seconds()) if age else 0
    size, suffix = next((each for each in _AGES if seconds >= each[0]), (1, ""))
    return f"{seconds // size}{suffix}" if suffix else ""
