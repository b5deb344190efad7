"""Explanations of objects from files and from a cluster in files."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, NamedTuple

import click

from policies.explanation import explain, questions
from webhook.cli.documents import Reader
from webhook.cli.problems import Problem
from webhook.cli.settings import cluster_files
from webhook.cli.subjects import DEFAULT_NAMESPACE, in_namespace
from webhook.cluster.lookups import Kind, KindUnknownError, NotFoundError, find_kind, look_up
from webhook.cluster.manifests import ManifestsView

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policies.explanation import Explanation
    from policies.kubernetes.objects import Object
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["as_json", "explanations_of"]

_ENDINGS = (".yaml", ".yml", ".json")


class _Name(NamedTuple):
    """An object of the cluster, as it is named on the command line."""

    argument: str
    kind: Kind
    name: str


def explanations_of(
    files: Sequence[str], names: Sequence[str], cluster: Sequence[str], namespace: str, settings: str | None
) -> list[Explanation]:
    """Read everything, then explain everything.

    Args:
        files: Files, folders, or `-`.
        names: The same, or `KIND/NAME` for objects of the cluster.
        cluster: Files and folders with objects of the cluster.
        namespace: The namespace of objects without one; empty for `default`.
        settings: The file with the administrator's settings; if None, the GPUAdmissionPolicy of the cluster.

    Raises:
        UnreadableInputError: Files have problems, or names are not found.
        click.UsageError: The input has no objects that can be explained.
    """
    reader = Reader()
    known = cluster_files(cluster, settings, reader)
    known.print_notes()
    sources = [*(_read(file, namespace, reader) for file in files), *_sources(names, namespace, known.settings, reader)]
    documents = [document for source in sources if not isinstance(source, _Name) for document in source]
    if reader.problems:
        reader.fail()
    view = ManifestsView(known.facts, documents)
    explained = [
        (document, isinstance(source, _Name))
        for source in sources
        for document in _objects_of(source, view, namespace, reader)
    ]
    if reader.problems:
        reader.fail()
    asked = [
        question
        for document, is_stored in explained
        for question in questions(document, namespace or DEFAULT_NAMESPACE, view, known.settings, found=is_stored)
    ]
    for line in reader.others.lines:
        click.echo(line, err=True)
    if not asked:
        where = ", ".join([*files, *names])
        raise click.UsageError(f"nothing to explain: no pods, workloads, claims or claim templates in {where}")
    return [explain(question, view, known.settings) for question in asked]


def as_json(explanations: Iterable[Explanation]) -> str:
    """A list with one mapping for each explanation."""
    return json.dumps([each.as_json() for each in explanations], indent=2, ensure_ascii=False) + "\n"


def _sources(
    names: Iterable[str], namespace: str, policy: GPUAdmissionPolicy, reader: Reader
) -> list[list[Object] | _Name]:
    """The objects or the name of each argument; invalid arguments go to the reader's problems."""
    sources: list[list[Object] | _Name] = []
    for argument in names:
        try:
            name = _name(argument, policy)
        except KindUnknownError as error:
            reader.problems.append(Problem(argument, f"no such file or directory, and {error}"))
            continue
        sources.append(_read(argument, namespace, reader) if name is None else name)
    return sources


def _name(argument: str, policy: GPUAdmissionPolicy) -> _Name | None:
    """The object that an argument names; None if it is a file.

    Raises:
        KindUnknownError: The argument is neither.
    """
    word, _, name = argument.partition("/")
    is_path = not word or not name or "/" in name or name.endswith(_ENDINGS)
    if is_path or os.path.exists(argument):
        return None
    try:
        return _Name(argument, find_kind(word, policy.workloads.kinds), name)
    except KindUnknownError:
        if os.path.isdir(word):
            return None
        raise


def _read(path: str, namespace: str, reader: Reader) -> list[Object]:
    return [in_namespace(manifest.object, namespace) for manifest in reader.manifests([path])]


def _objects_of(source: list[Object] | _Name, view: ClusterView, namespace: str, reader: Reader) -> list[Object]:
    if not isinstance(source, _Name):
        return source
    try:
        return [look_up(view, source.kind, source.name, namespace)]
    except NotFoundError as error:
        bring = f"; kubectl get {source.kind.resource} -A -o yaml prints them for a file of --cluster"
        reader.problems.append(Problem(source.argument, f"{error}{'' if error.is_certain else bring}"))
        return []
