"""Proofs of migrations for people: what each workload keeps and loses, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from policies.analyses.migrate.proof import PROPERTIES, Cell, prove_migration
from policies.kubernetes.names import format_count, format_list, inflect, printable
from policies.kubernetes.view import UNKNOWN
from policies.outcome import Certainty, Outcome
from webhook.cli.options import check_namespace_exists
from webhook.cli.progress import Progress
from webhook.cli.settings import read_cluster_files
from webhook.cli.text_layout import (
    Column,
    fitted_columns,
    item,
    output_text,
    paragraph,
    table,
    terminal_width,
)
from webhook.cluster.manifests import ManifestsView

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.analyses.migrate.proof import Proof, WorkloadProof
    from webhook.cli.cluster_options import ClusterOptions


_COLOURS = {
    Outcome.KEPT: "green",
    Outcome.GAINED: "green",
    Outcome.CHANGED: "red",
    Outcome.LOST: "red",
    Outcome.UNKNOWN: "yellow",
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
    with Progress() as progress:
        progress.show("comparing all workloads before and after their migration")
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
    width = terminal_width() if width is None else width
    if not proof.workloads:
        return "No workload requests GPUs of a device plugin."
    cells = (cell for each in proof.workloads for cell in each.cells.values())
    is_predicted = any(cell.certainty is Certainty.PREDICTED for cell in cells)
    note = [f"{_PREDICTED} predicted: some nodes do not publish their devices yet"] if is_predicted else []
    parts = ["\n".join(_table(proof.workloads)), *note, *_sections(proof, width)]
    lost = sum(each.loses for each in proof.workloads)
    left = sum(bool(each.left) for each in proof.workloads)
    numbers = [f"{lost} {inflect('loses something', lost)}", *([f"{left} cannot be migrated"] if left else [])]
    return "\n\n".join([*parts, f"{format_count(len(proof.workloads), 'workload')}: {', '.join(numbers)}"])


def _table(workloads: Sequence[WorkloadProof]) -> Iterator[str]:
    firsts = [(printable(each.label), str(each.pods)) for each in workloads]
    columns = fitted_columns(("WORKLOAD", "PODS"), firsts, ("PODS",))
    columns += [
        Column(key.upper(), max(len(key), *(len(f"{each}{_PREDICTED}") for each in Outcome))) for key in PROPERTIES
    ]
    rows = [
        [*first, *(_shown_cell(each, key) for key in PROPERTIES)] for first, each in zip(firsts, workloads, strict=True)
    ]
    yield from table(columns, rows)


def _shown_cell(workload: WorkloadProof, key: str) -> str:
    if workload.left and key != PROPERTIES[0]:
        return "-"
    cell = workload.cells[key]
    words = f"{cell.outcome}{_PREDICTED}" if cell.certainty is Certainty.PREDICTED else str(cell.outcome)
    return click.style(words, fg=_COLOURS[cell.outcome])


def _sections(proof: Proof, width: int) -> Iterator[str]:
    for title, wanted in (("Lost:", Outcome.LOST), ("Changed:", Outcome.CHANGED), ("Unknown:", Outcome.UNKNOWN)):
        found: dict[tuple[str, str], list[str]] = {}
        for key in PROPERTIES:
            for each in proof.workloads:
                cell = each.cells[key]
                if cell.outcome is wanted:
                    found.setdefault((key, printable(cell.sentence)), []).append(printable(each.label))
        reasons = [(key, why, format_list(names, _MOST_NAMED)) for (key, why), names in found.items()]
        if reasons:
            lines = [line for key, why, names in reasons for line in item(f"{key} of {names}: {why}", width)]
            yield "\n".join([title, *lines])
    left = [each for each in proof.workloads if each.left]
    if left:
        lines = [line for each in left for line in item(printable(f"{each.label}: {each.left}"), width)]
        yield "\n".join(["Not migrated:", *lines])
    if proof.assumptions:
        yield "\n".join(line for each in proof.assumptions for line in paragraph(f"Assumed: {each}.", width))
