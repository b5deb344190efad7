"""`gpu-admission quota --since`: the GPU hours of quotas, read and shown."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from typing import TYPE_CHECKING

from policies.kubernetes.names import format_amount, format_list
from policies.quota.hours_report import HoursJSON, hours_of_quotas
from webhook.cli.options import check_namespace_exists
from webhook.cli.settings import read_cluster_files
from webhook.cli.text_layout import output_text
from webhook.cluster.manifests import ManifestsView
from webhook.pages.report_model import Column, Lines, Paragraph, Section, Table, Tone, notes, numbers
from webhook.pages.text_report import render_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.kubernetes.view import ClusterView
    from policies.quota.hours_report import KindHours, QuotaHours
    from webhook.cli.cluster_options import ClusterOptions
    from webhook.pages.report_model import Block


_MOST_GAPS = 5
"""Days with gaps that are named; JSON has all of them."""


@dataclass(frozen=True, slots=True)
class HoursReport:
    """The GPU hours of all quotas of the question."""

    first: date
    hours: tuple[QuotaHours, ...]
    namespace: str
    """The only namespace that was looked into; empty for all."""
    notes: tuple[str, ...] = ()
    """Sentences without full stops."""

    @property
    def json(self) -> str:
        """The report as one mapping."""
        return output_text(HoursJSON(self.first, self.hours, self.notes), HoursJSON)

    def text(self, width: int | None = None) -> str:
        """The report for people; `width` is that of the terminal if None."""
        sections = [section for each in self.hours for section in _sections(each, self.first)]
        if not sections:
            where = f"Namespace {self.namespace} has no quota" if self.namespace else "No namespace has a quota"
            sections = [Section([Lines([f"{where}, and GPU hours are summed for quotas only."])])]
        return render_text([*sections, Section(notes(self.notes))], width)


def hours_of_files(days: int, source: ClusterOptions) -> HoursReport:
    """The GPU hours of the last days, today included, of a cluster in files.

    Raises:
        UnreadableInputError: Files have problems.
        NoNamespaceError: The namespace does not exist.
    """
    files = read_cluster_files(source.cluster, source.settings)
    return hours_of_view(ManifestsView(files.facts), source.namespace, days, files.notes, is_live=False)


def hours_of_view(
    view: ClusterView, namespace: str, days: int, remarks: Sequence[str], *, is_live: bool
) -> HoursReport:
    """The GPU hours of the last days of a namespace and its group, or of all if it is empty."""
    check_namespace_exists(view, namespace)
    now = datetime.now(UTC)
    first = now.date() - timedelta(days=days - 1)
    found = hours_of_quotas(view, first, now if is_live else None, namespace)
    return HoursReport(first, found, namespace, tuple(remarks))


def _sections(hours: QuotaHours, first: date) -> Iterator[Section]:
    blocks: list[Block] = []
    if hours.until is None and not hours.remarks:
        blocks.append(Paragraph("It has not counted a GPU yet."))
    elif hours.until is not None:
        total = f"{format_amount(hours.gpu_hours)} GPU {'hour' if hours.gpu_hours == 1 else 'hours'}"
        until = f"{hours.until:%Y-%m-%d %H:%M} UTC"
        end = f", summed up to {until}" if hours.holds_gpus else f"; it has held no GPU since {until}"
        blocks.append(Paragraph(f"{total} since {first}{end}."))
    if hours.gap_seconds:
        gaps = [f"{each.day}" for each in hours.days if each.gap_seconds]
        lost = format_amount(Fraction(hours.gap_seconds, 3600))
        when = format_list(gaps, _MOST_GAPS)
        blocks.append(Paragraph(f"No replica counted for {lost} h, which have no GPU hours: {when}.", Tone.WARN))
    blocks += notes(hours.remarks, "Warning")
    if hours.kinds:
        has_profile = any(each.profile for each in hours.kinds)
        namespaces = ["NAMESPACE"] if not hours.namespace else []
        profiles = ["MIG PROFILE"] if has_profile else []
        rows = [_row(each, hours, has_profile=has_profile) for each in hours.kinds]
        blocks.append(Table([*namespaces, Column("PRODUCT", wraps=True), *profiles, *numbers("GPU HOURS")], rows))
    yield Section(blocks, hours.label)


def _row(each: KindHours, hours: QuotaHours, *, has_profile: bool) -> list[str]:
    namespaces = [] if hours.namespace else [each.namespace or "-"]
    profiles = [each.profile or "-"] if has_profile else []
    return [*namespaces, each.product or "not known", *profiles, format_amount(each.gpu_hours)]
