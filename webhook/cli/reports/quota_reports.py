"""Quotas of clusters in files, and quota reports as text and JSON."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from textwrap import wrap
from typing import TYPE_CHECKING, NamedTuple

from policies.devices.resource_claims import MOST_DEVICES
from policies.kubernetes.names import format_age, format_amount, format_count, format_list
from policies.kubernetes.objects import DEFAULT_NAMESPACE, name_of, namespace_of
from policies.kubernetes.view import UNKNOWN, Unknown
from policies.quota.demands.device_kinds import unlimited_remark
from policies.quota.limits.amounts import amount_text
from policies.quota.limits.cluster_quota import CLUSTER_QUOTA, group_shown, tenancy
from policies.quota.limits.quota import QuotaError, parse_quota
from policies.quota.native_limits import native_form
from policies.quota.quota_json import QuotasJSON, quotas_json
from policies.quota.quota_report import COUNTED_FROM, QUOTA, QuotaState, quota_reports
from webhook.cli.options import check_namespace_exists
from webhook.cli.progress import current_progress
from webhook.cli.settings import read_cluster_files
from webhook.cli.text_layout import dump, output_text
from webhook.cluster.manifests import ManifestsView
from webhook.pages.report_model import (
    Bar,
    BarPart,
    Bullets,
    Column,
    Lines,
    Paragraph,
    Section,
    Table,
    Tone,
    notes,
    numbers,
)
from webhook.pages.text_report import render_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from fractions import Fraction

    from policies.analyses.explain import Headroom
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.quota.ledger.ledger import Reservation
    from policies.quota.limits.quota import Limit
    from policies.quota.quota_report import Condition, LimitUse, QuotaReport
    from policies.rules.charges import Amounts, Unit
    from policies.rules.settings import GPUAdmissionPolicy
    from webhook.cli.cluster_options import ClusterOptions
    from webhook.pages.report_model import Block, Cell


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
    unreadable: tuple[str, ...] = ()
    """A sentence without a full stop for each ClusterGPUQuota that cannot be read."""

    @property
    def all_within_limits(self) -> bool:
        """True if every quota can be read, is counted, and is within its limits."""
        return not self.unreadable and all(report.state is QuotaState.WITHIN for report in self.reports)


def report_quotas_of_files(source: ClusterOptions) -> QuotaReports:
    """Report the quotas of a cluster in files.

    Raises:
        UnreadableInputError: Files have problems.
        NoNamespaceError: The namespace does not exist.
    """
    files, namespace = read_cluster_files(source.cluster, source.settings), source.namespace
    view = ManifestsView(files.facts)
    check_namespace_exists(view, namespace)
    if view.list(QUOTA, namespace) is UNKNOWN and view.list(CLUSTER_QUOTA) is UNKNOWN:
        note = "the files have no GPUQuotas; kubectl get gpuquotas -A -o yaml prints those of a cluster"
        return QuotaReports((), namespace, (note,))
    gaps = [f"the files have no {kind}s, so {WITHOUT[kind]}" for kind in unknown_kinds(view, namespace)]
    return report_quotas_of_view(view, files.settings, namespace, [*files.notes, *gaps])


def report_quotas_of_view(
    view: ClusterView, policy: GPUAdmissionPolicy, namespace: str, remarks: Sequence[str]
) -> QuotaReports:
    """Report the quotas of a namespace, or of all if it is empty; without a quota, nothing is remarked."""
    current_progress().show("counting what quotas use")
    found = quota_reports(view, policy, datetime.now(UTC), namespace)
    reports = () if isinstance(found, Unknown) else found
    remark = unlimited_remark(view, policy.quota)
    teams = tenancy(view)
    unreadable = {} if isinstance(teams, Unknown) else teams.unreadable
    return QuotaReports(
        reports,
        namespace,
        (*remarks, *([remark] if remark else ())) if reports else (),
        tuple(
            f"{CLUSTER_QUOTA} {name} cannot be read, and its groups stay as they are. {error}"
            for name, error in unreadable.items()
        ),
    )


class NativeQuotas(NamedTuple):
    """The ResourceQuotas for the limits of GPUQuotas that Kubernetes' own quota expresses."""

    text: str
    """YAML; comments name the limits, and the reasons why others are lost."""
    is_whole: bool
    """True if every limit is expressed."""


def compile_quotas_of_files(source: ClusterOptions) -> NativeQuotas:
    """The ResourceQuotas for the GPUQuotas of a cluster in files.

    Raises:
        UnreadableInputError: Files have problems.
        NoNamespaceError: The namespace does not exist.
    """
    files = read_cluster_files(source.cluster, source.settings)
    view = ManifestsView(files.facts)
    check_namespace_exists(view, source.namespace)
    return compile_quotas_of_view(view, files.settings, source.namespace, files.notes)


def compile_quotas_of_view(
    view: ClusterView, policy: GPUAdmissionPolicy, namespace: str, remarks: Sequence[str]
) -> NativeQuotas:
    """The ResourceQuotas for the GPUQuotas of a namespace, or of all if it is empty."""
    blocks, is_whole = [], True
    for document in sorted(view.known_objects(QUOTA, namespace), key=namespace_of):
        block, is_exact = _native_block(document, view, policy)
        blocks.append(block)
        is_whole = is_whole and is_exact
    group = group_shown(namespace, view) if namespace else UNKNOWN
    if group is UNKNOWN:
        teams = sorted(map(name_of, view.known_objects(CLUSTER_QUOTA)))
    else:
        teams = [] if group is None else [group.quota]
    lines = [
        f"{CLUSTER_QUOTA} {name} is lost: a ResourceQuota limits one namespace, not several together" for name in teams
    ]
    if not blocks and not teams:
        lines.append(f"No GPUQuota was found{f' in namespace {namespace}' if namespace else ''}")
    if head := _comment(*remarks, *lines):
        blocks.insert(0, head)
    return NativeQuotas("---\n".join(blocks).removesuffix("\n"), is_whole and not teams)


def _native_block(document: Object, view: ClusterView, policy: GPUAdmissionPolicy) -> tuple[str, bool]:
    """The ResourceQuotas for a GPUQuota, and whether they express all of it."""
    namespace = namespace_of(document) or DEFAULT_NAMESPACE
    title = f"GPUQuota {namespace}/{name_of(document)}"
    try:
        quota = parse_quota(document)
    except QuotaError as error:
        return _comment(f"{title} cannot be read", *(each.text for each in error.problems)), False
    form = native_form(quota, view, policy.quota)
    if isinstance(form, Unknown):
        shown = {"Node": "nodes", "DeviceClass": "DeviceClasses", "ResourceSlice": "ResourceSlices"}
        unknown = [words for kind, words in shown.items() if view.list(kind) is UNKNOWN]
        return _comment(
            f"{title} is lost: {format_list(unknown, len(unknown))} are unknown, which show what it counts"
        ), False
    number = len(form.limits)
    limits = f"{number} of {len(quota.limits)} limits {'has' if number == 1 else 'have'} a form in ResourceQuotas"
    heads = [
        f"{title}: {limits}, exact for the devices that the cluster has now",
        *(f"{_limit_text(each)} is lost: {why}" for each, why in form.lost),
    ]
    if any(each.counts_claims for each in form.limits):
        heads.append(
            "Kubernetes counts claims when they are created, so a pod is admitted and waits if its claim is refused; a "
            f"claim for all devices counts for {MOST_DEVICES}, and alternatives count also if they are not allocated"
        )
    found = [
        _comment(*(f"{_limit_text(each.limit)} is {each.key}: {each.hard}" for each in each_limits)) + dump(made)
        for made, each_limits in form.resource_quotas(namespace)
    ]
    return _comment(*heads) + "---\n".join(found), not form.lost


def _limit_text(limit: Limit) -> str:
    return f"Limit {limit.name} ({amount_text(limit.unit, limit.hard)})"


def _comment(*sentences: str) -> str:
    lines = (
        line for each in sentences for line in wrap(f"{each}.", 118, break_long_words=False, break_on_hyphens=False)
    )
    return "".join(f"# {line}\n" for line in lines)


def unknown_kinds(view: ClusterView, namespace: str) -> list[str]:
    """The kinds that quotas are counted from and that cannot be read; an empty `namespace` stands for all."""
    return [kind for kind in COUNTED_FROM if view.list(kind, namespace) is UNKNOWN]


def as_json(quotas: QuotaReports) -> str:
    """The reports and the notes as one mapping."""
    return output_text(quotas_json(quotas.reports, (*quotas.unreadable, *quotas.notes)), QuotasJSON)


def headroom_text(found: Sequence[Headroom], width: int | None = None) -> str:
    """The headrooms of some objects; `width` is that of the terminal if None."""
    return render_text([section for each in found for section in _headroom_sections(each)], width)


def _headroom_sections(found: Headroom) -> Iterator[Section]:
    pods = f" with {format_count(found.pods, 'pod')}" if found.pods > 1 else ""
    yield Section([Paragraph(f"{found.headline}."), Paragraph(f"Each is {found.label}{pods}.", Tone.QUIET)])
    rows: list[list[Cell]] = []
    for each in found.limits:
        amount, left = each.amounts()
        warns = "" if each.refuses else " (only warns)"
        rows.append([f"{each.name} of {each.owner}{warns}", amount, left, f"{each.more:,}"])
    limits = Table([Column("LIMIT", wraps=True), *numbers("EACH", "LEFT", "MORE")], rows)
    yield Section([limits] if rows else [])
    words = "PODS " if found.pods > 1 else ""
    places = [(each.gets, each.now, each.if_empty) for each in found.grants]
    if len(places) > 1 and found.now is not None and found.if_empty is not None and not words:
        places.append(("all nodes", found.now, found.if_empty))
    devices: list[list[Cell]] = [[gets, f"{now:,}", f"{if_empty:,}"] for gets, now, if_empty in places]
    titles = [
        Column("EACH POD GETS" if found.pods else "EACH GETS", wraps=True),
        *numbers(f"{words}NOW", f"{words}IF EMPTY"),
    ]
    devices_section: list[Block] = [Table(titles, devices)] if devices else []
    if words and found.now is not None:
        whole = f"The nodes have room for {found.now:,} with all pods"
        devices_section.append(Paragraph(f"{whole}, and for {found.if_empty:,} if nothing were in use."))
    yield Section(devices_section)
    yield Section(notes(found.remarks))


_MOST_SHOWN = 20
"""Holders and reservations of a quota; JSON has all of them."""
_TONES = {
    QuotaState.WITHIN: Tone.GOOD,
    QuotaState.OVER: Tone.BAD,
    QuotaState.UNCOUNTED: Tone.WARN,
    QuotaState.UNREADABLE: Tone.BAD,
}
_FAILING = {
    True: "The namespace enforces it: while it cannot be checked, pods that get GPUs are refused",
    False: "The namespace does not enforce it: while it cannot be checked, all pods are admitted",
    None: "Whether the namespace enforces it is unknown",
}


_FAILING_GROUP = {
    True: "All its namespaces enforce it: while it cannot be checked, pods that get GPUs are refused",
    False: "Not all its namespaces enforce it: while it cannot be checked, all pods are admitted in those that do not",
    None: "Whether its namespaces enforce it is unknown",
}
_ENFORCING = {True: "the namespace enforces it", False: "its namespaces enforce it"}


def text(quotas: QuotaReports, width: int | None = None) -> str:
    """All reports, with a summary if there are several; `width` is that of the terminal if None."""
    sections = [section for report in quotas.reports for section in _sections(report)]
    if not sections:
        where = f"Namespace {quotas.namespace} has no GPUQuota" if quotas.namespace else "No namespace has a GPUQuota"
        generate = f"gpu-admission generate quota -n {quotas.namespace or 'NAMESPACE'} --gpus 8"
        sections = [
            Section(
                [
                    Lines([f"{where}, so no limit holds. To write one:"]),
                    Lines([generate], 2, is_copied=True),
                    Lines(["gpu-admission usage lists the pods with GPUs."]),
                ]
            )
        ]
    sections.append(Section([*notes(quotas.unreadable, "Warning"), *notes(quotas.notes)]))
    if len(quotas.reports) > 1:
        counts = Counter(report.state for report in quotas.reports)
        states = ", ".join(f"{counts[state]} {state}" for state in QuotaState if counts[state])
        over = sum(report.state is QuotaState.UNCOUNTED and report.is_over for report in quotas.reports)
        end = f" ({over} of them over a limit)" if over else ""
        sections.append(Section([Lines([f"{len(quotas.reports)} quotas: {states}{end}"])]))
    return render_text(sections, width)


def _sections(report: QuotaReport) -> Iterator[Section]:
    title, state = report.label, report.state
    is_over = report.is_over and state is QuotaState.UNCOUNTED
    yield Section(
        [*_head(report)], title, "uncounted, over" if is_over else state, Tone.BAD if is_over else _TONES[state]
    )
    if report.quota is not None:
        rows: list[list[Cell]] = [
            [
                each.limit.name,
                _bar(each),
                *(each.scale.number(amount, each.limit.hard) for amount in (each.used, each.reserved, each.left)),
                each.scale.text(each.limit.hard),
            ]
            for each in report.limits
        ]
        said = [words for each in report.limits for words in (each.lending, each.difference) if words]
        differences = [Paragraph(f"{each}.", Tone.QUIET) for each in said]
        amounts = numbers("USED", "RESERVED", "LEFT")
        yield Section([Table(["NAME", "USE", *amounts, "LIMIT"], rows), *differences])
        if report.holders is not None:
            held = [
                (
                    each.label,
                    format_age(each.age),
                    f"{_amounts(report, each.amounts)}{' (waits)' if each.waits else ''}",
                )
                for each in report.holders
            ]
            nothing = Lines(["No pod or claim uses any of it."])
            yield Section([_table("USED BY", "USES", held) if held else nothing])
        yield Section([_table("ON ITS WAY", "RESERVES", [*map(partial(_reservation, report), report.reservations)])])
    yield Section([*map(_condition, report.conditions)])


def _head(report: QuotaReport) -> Iterator[Block]:
    if report.quota is None:
        is_enforced = f", and {_ENFORCING[report.group is None]}, so pods that get GPUs are refused"
        yield Paragraph(f"It cannot be read{is_enforced if report.enforced else ', so it limits nothing'}.")
        yield Bullets([each.text for each in report.problems])
        return
    if not report.exempt:
        result = "admitted with a warning (mode Warn)" if report.quota.mode == "Warn" else "refused (mode Enforce)"
        failing = _FAILING[report.enforced] if report.group is None else _FAILING_GROUP[report.enforced]
        yield Paragraph(f"Pods over a limit are {result}. {failing}.")
    if report.group is not None:
        yield Paragraph(f"Counts {report.members}.")
    yield from notes(report.remarks, "Warning")


def _bar(use: LimitUse) -> Bar:
    """The used and reserved parts of a limit."""
    if use.used is None:
        return Bar()
    used = BarPart(use.used, "#", Tone.BAD if use.is_over else Tone.GOOD)
    return Bar([used, BarPart(use.reserved, "=", Tone.NOTE)], use.limit.hard)


def _reservation(report: QuotaReport, each: Reservation) -> tuple[str, str, str]:
    owner = "pod" if each.of_kind == "Pod" else each.of_kind
    counted = f", counted with {owner} {each.of}" if each.of else ""
    takes = _amounts(report, each.amounts) or "nothing of a limit"
    seen = f"{' and '.join(each.waits_for)} {'is' if len(each.waits_for) == 1 else 'are'} seen"
    return f"{each.kind} {each.name}", format_age(each.age), f"{takes}{counted}; until {seen}"


def _table(name: str, sentence: str, rows: Sequence[tuple[str, str, str]]) -> Table:
    """A table of names, ages and sentences; without the column of ages if no age is known."""
    if any(age for _, age, _ in rows[:_MOST_SHOWN]):
        return Table([name, *numbers("AGE"), Column(sentence, wraps=True)], rows, _MOST_SHOWN)
    return Table([name, Column(sentence, wraps=True)], [(first, last) for first, _, last in rows], _MOST_SHOWN)


def _condition(condition: Condition) -> Paragraph:
    status = {"True": "yes", "False": "no"}.get(condition.status, "unknown")
    reason = f" ({condition.reason})" if condition.reason else ""
    message = f": {condition.message}" if condition.message else ""
    return Paragraph(f"{condition.type} {status}{reason}{message}")


def _amounts(report: QuotaReport, amounts: Amounts) -> str:
    """The amounts, in the order of the limits."""
    by_limit = [(each.limit, amounts.get(each.limit.name)) for each in report.limits]
    return ", ".join(f"{limit.name} {_amount(limit.unit, amount)}" for limit, amount in by_limit if amount)


def _amount(unit: Unit, amount: Fraction) -> str:
    return amount_text(unit, amount) if unit == "memory" else format_amount(amount)
