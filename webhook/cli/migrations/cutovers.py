"""Cutovers for people and programs: plans, their files, and checks of steps."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from policies.analyses.cutover import (
    CutoverDocuments,
    CutoverError,
    CutoverPlan,
    cutover_documents,
    open_points,
    plan_cutover,
)
from policies.kubernetes.names import format_count, format_list
from policies.outcome import Outcome
from webhook.cli.manifest_reader import ManifestReader
from webhook.cli.progress import current_progress
from webhook.cli.settings import read_facts
from webhook.cli.text_layout import dump_all, output_text
from webhook.cli.user_files import reason_of, replace_file
from webhook.pages.rendering import render_page
from webhook.pages.report_model import Bullets, Column, Lines, Paragraph, Section, Table, Tone, notes, numbers
from webhook.pages.text_report import render_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.analyses.cutover import CutoverStep, Effect, Wave
    from policies.kubernetes.view import ClusterView
    from policies.rules.settings import GPUAdmissionPolicy
    from webhook.cli.cluster_options import ClusterOptions
    from webhook.cli.settings import RunningFacts


FOLDER = "cutover"
"""The folder that commands name, if none is written."""
_MOST_SHOWN = 20
"""Entries of a list; JSON has all of them."""


class UnwritableFolderError(click.ClickException):
    """A file of a cutover cannot be written."""

    exit_code = 2


def read_cluster(source: ClusterOptions, running: RunningFacts | None) -> tuple[ClusterView, GPUAdmissionPolicy]:
    """The cluster and its settings.

    Raises:
        UnreadableInputError: Files have problems.
    """
    reader = ManifestReader()
    files = read_facts(source, running, reader)
    reader.check()
    return files.view() if running is None else running.view_with_workloads(files.settings), files.settings


def make_plan(view: ClusterView, settings: GPUAdmissionPolicy, folder: str) -> CutoverPlan:
    """The plan of a cluster.

    Raises:
        click.UsageError: There is nothing to cut over.
    """
    current_progress().show("planning the cutover")
    try:
        return plan_cutover(view, settings, folder)
    except CutoverError as error:
        raise click.UsageError(str(error)) from error


def check_step(view: ClusterView, settings: GPUAdmissionPolicy, step: str) -> tuple[str, ...]:
    """Return what a step of a cluster lacks; empty if it is done.

    Raises:
        click.UsageError: There is no such step.
    """
    found = open_points(step, view, settings)
    if found is None:
        raise click.UsageError(f"no step {step}; gpu-admission cutover lists them, such as wave-1-empty")
    return found


def write_files(view: ClusterView, settings: GPUAdmissionPolicy, folder: str, shown: str) -> tuple[str, ...]:
    """Write the files that the commands of a plan name, and `shown`, its page; the names of the files.

    Raises:
        UnwritableFolderError: A file cannot be written.
    """
    found: CutoverDocuments = cutover_documents(view, settings)
    texts = {name: dump_all(documents) for name, documents in found.documents.items()}
    texts |= {**found.scripts, "cutover.html": shown}
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            replace_file(str(Path(folder) / name), text.encode())
    except OSError as error:
        raise UnwritableFolderError(f"the files cannot be written to {folder}: {reason_of(error)}") from error
    return tuple(sorted(texts))


def page(plan: CutoverPlan, source: ClusterOptions, running: RunningFacts | None) -> str:
    """The plan as a page to tick off; ticks belong to the title, which names the cluster."""
    cluster = ", ".join(source.cluster) if running is None else running.server
    return render_page(
        "cutover",
        title=f"Cutover of {cluster}",
        moment=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        overview=[*overview_sections(plan)],
        steps=plan.steps,
        assumptions=Section(notes(plan.assumptions, "Assumed")),
    )


def as_json(plan: CutoverPlan) -> str:
    """The plan for programs."""
    return output_text(plan, CutoverPlan)


def text(plan: CutoverPlan, width: int | None = None) -> str:
    """The plan as sections; `width` is that of the terminal if None."""
    assumptions = Section(notes(plan.assumptions, "Assumed"))
    return render_text([*overview_sections(plan), *map(step_section, plan.steps), assumptions], width)


def overview_sections(plan: CutoverPlan) -> Iterator[Section]:
    """Everything but the steps."""
    found = plan.inventory
    yield Section([Paragraph(summary(plan))])
    yield Section([Bullets(plan.by_hand, _MOST_SHOWN)], "Do this by hand first:")
    yield Section([Bullets([*_inventory_texts(plan)])], "What is there:")
    classes = [(each.name, each.owner, each.extended_resource or "-") for each in found.classes]
    yield Section([Table(["DEVICECLASS", Column("WRITTEN BY", wraps=True), "SERVES"], classes, label="DeviceClasses")])
    ends: list[Column | str] = [Column("GOES", wraps=True), Column("TAKES ITS PLACE", wraps=True)]
    components = [(each.name, each.successor) for each in found.components]
    yield Section([Table(ends, components, label="What goes")])
    labels = [(each.label, _names(each.converted), _names(each.left)) for each in found.labels]
    columns: list[Column | str] = [
        "LABEL THAT GOES",
        Column("BECOMES A CONDITION FOR", wraps=True),
        Column("STAYS IN", wraps=True),
    ]
    yield Section([Table(columns, labels, label="Labels that go")])
    yield Section([Table(_WAVE_COLUMNS, [*map(_wave_row, plan.waves), _wave_row(plan.after)], label="Waves")])
    for wave in (*plan.waves, plan.after):
        yield Section([Bullets([*_effects(wave)], _MOST_SHOWN)], f"{_wave_name(wave)}:")


_WAVE_COLUMNS: list[Column | str] = [
    "AFTER",
    *numbers("NODES"),
    Column("PRODUCTS", wraps=True),
    *numbers("EVICTED", "KEPT", "CHANGED", "LOST", "UNKNOWN"),
    Column("CONVERTS", wraps=True),
]


def _wave_row(wave: Wave) -> list[str]:
    kept = wave.counts.get(Outcome.KEPT, 0) + wave.counts.get(Outcome.GAINED, 0)
    others = (str(wave.counts.get(each, 0)) for each in (Outcome.CHANGED, Outcome.LOST, Outcome.UNKNOWN))
    products = ", ".join(f"{count} {product}" for product, count in wave.products.items())
    counts = [str(len(wave.nodes)), products, str(len(wave.evicted))] if wave.number else ["-", "-", "-"]
    return [_wave_name(wave).lower(), *counts, str(kept), *others, _names(wave.namespaces)]


def _wave_name(wave: Wave) -> str:
    return f"Wave {wave.number}" if wave.number else "Exchange"


def _effects(wave: Wave) -> Iterator[str]:
    if wave.unmanaged:
        yield f"no controller creates {format_list(wave.unmanaged)} again: the drain ends them for good"
    if wave.claiming:
        yield f"hold GPUs by claims, which the drain ends: {format_list(wave.claiming)}"
    yield from map(_effect, wave.effects)
    yield from (f"quota: {_effect(each)}" for each in wave.quotas)


def _effect(effect: Effect) -> str:
    pods = "" if effect.workload.startswith("pod ") else f" ({format_count(effect.pods, 'pod')})"
    return f"{effect.workload}{pods}: {effect.outcome}; {effect.sentence}"


def _inventory_texts(plan: CutoverPlan) -> Iterator[str]:
    found = plan.inventory
    release = found.policy_release
    owner = f"of Helm release {release.name} in namespace {release.namespace}" if release else "of no Helm release"
    yield f"ClusterPolicy {found.policy}, {owner}; operator in namespace {found.operator_namespace}"
    drivers = f": {format_list(found.drivers)}" if found.drivers else ""
    yield f"driver from {'the hosts' if found.driver_owner == 'host' else found.driver_owner}{drivers}"
    if found.config_maps:
        yield f"ConfigMaps of the ClusterPolicy: {format_list(found.config_maps)}"
    moving = len(found.moving)
    yield (
        f"{format_count(len(found.nodes), 'node')} with GPUs: {moving} to move, {len(found.moved)} with DRA only, "
        f"{len(found.twice)} that hand out their GPUs twice"
    )


def summary(plan: CutoverPlan) -> str:
    """The plan in one sentence."""
    done = sum(each.is_done for each in plan.steps)
    lost = sorted({each.workload for wave in (*plan.waves, plan.after) for each in wave.effects})
    return (
        f"{format_count(len(plan.steps), 'step')}, {done} of them done: {format_count(len(plan.inventory.moving), 'node')} in "
        f"{format_count(len(plan.waves), 'wave')}, then the exchange. {format_count(len(lost), 'workload')} not kept at some "
        f"point; {format_count(len(plan.by_hand), 'thing')} to do by hand."
    )


def step_section(step: CutoverStep) -> Section:
    """A step: why, the commands, the check and the way back."""
    status, tone = ("done", Tone.GOOD) if step.is_done else ("to do", Tone.WARN)
    return Section(
        [
            Paragraph(step.why),
            Lines(step.commands, 2, is_copied=True),
            Lines([f"check:  {step.check}"], is_copied=True),
            Lines(
                [f"{'        ' if number else 'back:   '}{each}" for number, each in enumerate(step.back)],
                is_copied=True,
            ),
        ],
        f"{step.id}: {step.title}",
        status,
        tone,
    )


def _names(names: Iterable[str]) -> str:
    found = [*names]
    return format_list(found, 3) if found else "-"


def checked_text(step: str, points: tuple[str, ...]) -> str:
    """The result of a check."""
    if not points:
        return f"{step}: done"
    return render_text([Section([Bullets(points, _MOST_SHOWN)], f"{step}: not done")])
