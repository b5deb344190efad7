"""Explanations of objects from files and from a cluster in files, as text and JSON."""

from __future__ import annotations

import os
from collections import Counter
from itertools import chain
from textwrap import wrap
from typing import TYPE_CHECKING, NamedTuple

import click

from policies.analyses.explain import Explanation, explain
from policies.analyses.explain.explanations import (
    as_sentence,
    fit_word,
    left_out_sentence,
    notes_of,
    obstacle_sentence,
    replicas_text,
    suggestion_sentence,
    why_sentences,
)
from policies.kubernetes.names import printable
from policies.kubernetes.objects import DEFAULT_NAMESPACE, in_namespace
from policies.outcome import Feasibility, questions
from webhook.cli.manifest_reader import ManifestReader, Problem
from webhook.cli.progress import Progress
from webhook.cli.settings import read_facts
from webhook.cli.text_layout import (
    GAP,
    Column,
    column,
    fitted_columns,
    item,
    output_text,
    paragraph,
    table,
    terminal_width,
)
from webhook.cluster.lookups import KindUnknownError, NotFoundError, find_resource, look_up

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.rules.settings import GPUAdmissionPolicy
    from webhook.cli.cluster_options import ClusterOptions
    from webhook.cluster.resources import Resource


ExplanationsJSON = list[Explanation]
"""The output of `gpu-admission explain -o json`."""
_ENDINGS = (".yaml", ".yml", ".json")


class Name(NamedTuple):
    """An object of the cluster, as it is named on the command line."""

    argument: str
    resource: Resource
    name: str


def explanations_of(files: Sequence[str], names: Sequence[str], source: ClusterOptions) -> list[Explanation]:
    """Read everything, then explain everything.

    Args:
        files: Files, folders, or `-`.
        names: The same, or `KIND/NAME` for objects of the cluster.
        source: The cluster in files.

    Raises:
        UnreadableInputError: Files have problems, or names are not found.
        click.UsageError: The input has no objects that can be explained.
    """
    reader = ManifestReader()
    known = read_facts(source, None, reader)
    namespace = source.namespace
    sources = read_sources(files, names, namespace, known.settings, reader)
    documents = [document for found in sources if not isinstance(found, Name) for document in found]
    reader.check()
    view = known.view(documents)
    explained = [
        (document, isinstance(found, Name))
        for found in sources
        for document in _objects_of(found, view, namespace, reader)
    ]
    reader.check()
    asked = [
        question
        for document, is_stored in explained
        for question in questions(document, namespace or DEFAULT_NAMESPACE, view, known.settings, found=is_stored)
    ]
    for line in reader.others.lines:
        click.echo(line, err=True)
    check_found(asked, [*files, *names])
    with Progress() as progress:
        return [explain(question, view, known.settings) for question in progress.count("explaining", asked)]


def check_found(found: Sequence[object], sources: Iterable[str]) -> None:
    """Refuse input without questions, or without explanations.

    Raises:
        click.UsageError: There are none.
    """
    if not found:
        where = ", ".join(sources)
        raise click.UsageError(f"nothing to explain: no pods, workloads, claims or claim templates in {where}")


def as_json(explanations: Iterable[Explanation]) -> str:
    """A list with one mapping for each explanation."""
    return output_text(list(explanations), ExplanationsJSON)


def read_sources(
    files: Iterable[str], names: Iterable[str], namespace: str, policy: GPUAdmissionPolicy, reader: ManifestReader
) -> list[list[Object] | Name]:
    """The objects or the name of each file and argument; invalid arguments go to the reader's problems."""
    sources: list[list[Object] | Name] = [_read_objects(file, namespace, reader) for file in files]
    for argument in names:
        try:
            name = _name(argument, policy)
        except KindUnknownError as error:
            reader.problems.append(Problem(argument, f"no such file or directory, and {error}"))
            continue
        sources.append(_read_objects(argument, namespace, reader) if name is None else name)
    return sources


def has_names(arguments: Iterable[str]) -> bool:
    """True if an argument is `KIND/NAME` with a built-in kind, and names no file."""
    for argument in filter(_is_name, arguments):
        try:
            find_resource(argument.partition("/")[0])
        except KindUnknownError:
            continue
        return True
    return False


def _is_name(argument: str) -> bool:
    word, _, name = argument.partition("/")
    is_path = not word or not name or "/" in name or name.endswith(_ENDINGS)
    return not (is_path or os.path.exists(argument))


def _name(argument: str, policy: GPUAdmissionPolicy) -> Name | None:
    """The object that an argument names; None if it is a file.

    Raises:
        KindUnknownError: The argument is neither.
    """
    if not _is_name(argument):
        return None
    word, _, name = argument.partition("/")
    try:
        return Name(argument, find_resource(word, policy.workloads.kinds), name)
    except KindUnknownError:
        if os.path.isdir(word):
            return None
        raise


def _read_objects(path: str, namespace: str, reader: ManifestReader) -> list[Object]:
    return [in_namespace(manifest.object, namespace) for manifest in reader.manifests([path])]


def _objects_of(source: list[Object] | Name, view: ClusterView, namespace: str, reader: ManifestReader) -> list[Object]:
    if not isinstance(source, Name):
        return source
    try:
        return [look_up(view, source.resource, source.name, namespace)]
    except NotFoundError as error:
        bring = f"; kubectl get --raw {source.resource.path()} prints them for a file of --cluster"
        reader.problems.append(Problem(source.argument, f"{error}{'' if error.is_certain else bring}"))
        return []


_COLOURS = {
    Feasibility.FITS: "green",
    Feasibility.FULL: "yellow",
    Feasibility.IMPOSSIBLE: "red",
    Feasibility.BLOCKED: "red",
    Feasibility.UNKNOWN: "yellow",
    Feasibility.SCHEDULED: "green",
}


def text(explanations: Sequence[Explanation], width: int | None = None) -> str:
    """All explanations, with a summary if there are several; `width` is that of the terminal if None."""
    width = terminal_width() if width is None else width
    parts = ["\n".join(_lines(explanation, width)) for explanation in explanations]
    return "\n\n".join([*parts, *([_summary(explanations)] if len(explanations) > 1 else [])])


def _summary(explanations: Sequence[Explanation]) -> str:
    counts = Counter(explanation.verdict for explanation in explanations)
    verdicts = ", ".join(f"{counts[verdict]} {verdict}" for verdict in Feasibility if counts[verdict])
    return f"{len(explanations)} explanations: {verdicts}"


def _lines(explanation: Explanation, width: int) -> Iterator[str]:
    verdict = click.style(str(explanation.verdict), fg=_COLOURS[explanation.verdict], bold=True)
    yield f"{click.style(printable(explanation.label), bold=True)}  {verdict}"
    yield from paragraph(as_sentence(explanation.headline), width)
    for obstacle in explanation.obstacles:
        yield from item(obstacle_sentence(obstacle), width)
    for warning in explanation.warnings:
        yield from paragraph(f"Warning: {warning}", width)
    if explanation.nodes is not None:
        yield ""
        counts = {
            "NODES": str(explanation.nodes),
            "FIT NOW": str(explanation.fit_now),
            "FIT IF EMPTY": str(explanation.fit_if_empty),
            **({"UNKNOWN": str(explanation.unknown_nodes)} if explanation.unknown_nodes else {}),
            "REPLICAS NOW": replicas_text(explanation),
        }
        row = [*counts.values()]
        yield from table(fitted_columns([*counts], [row]), [row])
    if explanation.groups:
        yield ""
        yield from _groups(explanation, width)
    if explanation.suggestions:
        yield ""
        yield click.style("What would help:", bold=True)
        for suggestion in explanation.suggestions:
            yield from item(suggestion_sentence(suggestion), width)
    if notes := notes_of(explanation):
        yield ""
        for note in notes:
            yield from paragraph(f"Note: {note}", width)


def _groups(explanation: Explanation, width: int) -> Iterator[str]:
    groups = explanation.groups
    names = [
        [*map(printable, group.nodes), *([f"and {more} more"] if (more := group.count - len(group.nodes)) > 0 else [])]
        for group in groups
    ]
    is_named = any(group.nodes for group in groups)
    firsts = [(str(group.count), fit_word(group)) for group in groups]
    columns = fitted_columns(("NODES", "FITS"), firsts, ("NODES",))
    if is_named:
        columns.append(Column("NAMES", min(column("NAMES", chain(*names)).width, width // 3)))
    room = width - sum(each.width + GAP for each in columns)
    rows: list[list[str | list[str]]] = []
    for first, name, group in zip(firsts, names, groups, strict=True):
        wrapped = [line for each in name for line in wrap(each, columns[-1].width, break_on_hyphens=False)]
        sentence, *details = why_sentences(group) or ("",)
        why = [*paragraph(sentence, room), *(line for detail in details for line in item(detail, room))]
        rows.append([*first, *([wrapped] if is_named else []), why])
    yield from table([*columns, Column("WHY", room)], rows)
    if left_out := left_out_sentence(explanation):
        yield left_out
