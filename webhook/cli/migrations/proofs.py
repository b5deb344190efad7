"""Proofs of migrations for people: what each workload keeps and loses, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from policies.analyses.migrate.proof import PROPERTIES, Cell, prove_migration
from policies.kubernetes.names import format_count, format_list, inflect
from policies.kubernetes.view import UNKNOWN
from policies.outcome import Certainty, Outcome
from webhook.cli.options import check_namespace_exists
from webhook.cli.progress import current_progress
from webhook.cli.settings import read_cluster_files
from webhook.cli.text_layout import output_text
from webhook.cluster.manifests import ManifestsView
from webhook.pages.report_model import Bullets, Lines, Section, Span, Table, Tone, notes, numbers
from webhook.pages.text_report import render_text

if TYPE_CHECKING:
    from policies.analyses.migrate.proof import Proof, WorkloadProof
    from webhook.cli.cluster_options import ClusterOptions


_TONES = {
    Outcome.KEPT: Tone.GOOD,
    Outcome.GAINED: Tone.GOOD,
    Outcome.CHANGED: Tone.BAD,
    Outcome.LOST: Tone.BAD,
    Outcome.UNKNOWN: Tone.WARN,
}
_PREDICTED = "*"
_MOST_NAMED = 3
"""Workloads that a sentence names; the table and JSON have all of them."""


def prove_cluster(source: ClusterOptions) -> Proof:
    """Compare the workloads of a cluster in files before and after their migration.

    Raises:
        UnreadableInputError: Files have problems.
        click.UsageError: The files have no nodes.
        NoNamespaceError: The namespace does not exist.
    """
    files = read_cluster_files(source.cluster, source.settings)
    files.print_notes()
    view = ManifestsView(files.facts)
    if view.list("Node") is UNKNOWN:
        raise click.UsageError(
            f"nothing to compare: no Node in {', '.join(source.cluster)}; gpu-admission snapshot writes all that is needed"
        )
    check_namespace_exists(view, source.namespace)
    current_progress().show("comparing all workloads before and after their migration")
    return prove_migration(view, files.settings, source.namespace)


@dataclass(frozen=True, slots=True)
class _WorkloadProofJSON:
    """The effects of a migration on a workload; `left` says why it is not migrated."""

    workload: str
    namespace: str
    pods: int
    left: str
    fit: Cell
    devices: Cell
    quota: Cell
    preemption: Cell
    autoscaling: Cell


@dataclass(frozen=True, slots=True)
class ProofJSON:
    """The output of `gpu-admission migrate --prove -o json`."""

    workloads: tuple[_WorkloadProofJSON, ...]
    assumptions: tuple[str, ...]


def as_json(proof: Proof) -> str:
    """The workloads and the assumptions as one mapping."""
    workloads = tuple(
        _WorkloadProofJSON(each.label, each.namespace, each.pods, each.left, **each.cells) for each in proof.workloads
    )
    return output_text(ProofJSON(workloads, proof.assumptions), ProofJSON)


def text(proof: Proof, width: int | None = None) -> str:
    """The table, the reasons and the assumptions; `width` is that of the terminal if None."""
    if not proof.workloads:
        return "No workload requests GPUs of a device plugin."
    cells = (cell for each in proof.workloads for cell in each.cells.values())
    is_predicted = any(cell.certainty is Certainty.PREDICTED for cell in cells)
    note = [f"{_PREDICTED} predicted: some nodes do not publish their devices yet"] if is_predicted else []
    rows = [[each.label, str(each.pods), *(_cell(each, key) for key in PROPERTIES)] for each in proof.workloads]
    lost = sum(each.loses for each in proof.workloads)
    left = sum(bool(each.left) for each in proof.workloads)
    counts = [f"{lost} {inflect('loses something', lost)}", *([f"{left} cannot be migrated"] if left else [])]
    sections = [
        Section([Table(["WORKLOAD", *numbers("PODS"), *map(str.upper, PROPERTIES)], rows)]),
        Section([Lines(note)]),
        *(
            Section([Bullets(_reasons(proof, outcome))], f"{str(outcome).capitalize()}:")
            for outcome in (Outcome.LOST, Outcome.CHANGED, Outcome.UNKNOWN)
        ),
        Section([Bullets([f"{each.label}: {each.left}" for each in proof.workloads if each.left])], "Not migrated:"),
        Section(notes(proof.assumptions, "Assumed")),
        Section([Lines([f"{format_count(len(proof.workloads), 'workload')}: {', '.join(counts)}"])]),
    ]
    return render_text(sections, width)


def _cell(workload: WorkloadProof, key: str) -> Span:
    if workload.left and key != PROPERTIES[0]:
        return Span("-", Tone.PLAIN)
    cell = workload.cells[key]
    words = f"{cell.outcome}{_PREDICTED}" if cell.certainty is Certainty.PREDICTED else str(cell.outcome)
    return Span(words, _TONES[cell.outcome])


def _reasons(proof: Proof, outcome: Outcome) -> list[str]:
    """The reasons for an outcome, each with the workloads that it concerns."""
    found: dict[tuple[str, str], list[str]] = {}
    for key in PROPERTIES:
        for each in proof.workloads:
            cell = each.cells[key]
            if cell.outcome is outcome:
                found.setdefault((key, cell.sentence), []).append(each.label)
    return [f"{key} of {format_list(names, _MOST_NAMED)}: {why}" for (key, why), names in found.items()]
