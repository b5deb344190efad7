"""Explanations: reads what is asked about, from files and from the cluster, and asks the policies."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from policies.explanation import Verdict, explain, questions
from webhook.cli.documents import Reader
from webhook.cli.problems import Problem
from webhook.cli.settings import read_settings, settings_of_facts
from webhook.cli.subjects import in_namespace
from webhook.cluster.lookups import Kind, KindUnknownError, NotFoundError, find_kind, look_up
from webhook.cluster.manifests import ManifestsView

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policies.explanation import Explanation
    from policies.kubernetes.objects import Object
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["as_json", "explanations_of", "is_placed"]

_DEFAULT_NAMESPACE = "default"
_ENDINGS = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class _Name:
    """An object of the cluster, as a person named it."""

    argument: str
    kind: Kind
    name: str


def explanations_of(
    files: Sequence[str], asked: Sequence[str], cluster: Sequence[str], namespace: str, settings: str | None
) -> list[Explanation]:
    """Read everything, then explain everything.

    Args:
        files: Files, folders, or `-`.
        asked: The same, or `KIND/NAME` for objects among the cluster's manifests.
        cluster: Files and folders that tell of the cluster.
        namespace: Of what names none; empty for `default`.
        settings: The file with the administrator's choices; if None, the GPUAdmissionPolicy of the cluster.

    Raises:
        UnreadableInputError: with the problems of all files, and the names that are not found.
        click.UsageError: nothing is asked about that could be explained.
    """
    reader = Reader()
    policy = read_settings(settings, reader)
    facts = reader.cluster(cluster)
    if settings is None:
        policy = settings_of_facts(facts)
    sources = [*(_read(file, namespace, reader) for file in files), *_sources(asked, namespace, policy, reader)]
    read = [document for source in sources if not isinstance(source, _Name) for document in source]
    if reader.problems:
        reader.fail()
    view = ManifestsView(facts, read)
    documents = [
        (document, isinstance(source, _Name))
        for source in sources
        for document in _found(source, view, namespace, reader)
    ]
    if reader.problems:
        reader.fail()
    where = namespace or _DEFAULT_NAMESPACE
    found = [
        question
        for document, looked_up in documents
        for question in questions(document, where, view, policy, found=looked_up)
    ]
    for line in reader.others.lines:
        click.echo(line, err=True)
    if not found:
        names = ", ".join([*files, *asked])
        raise click.UsageError(f"nothing to explain: no pods, workloads, claims or claim templates in {names}")
    return [explain(question, view, policy) for question in found]


def as_json(explanations: Iterable[Explanation]) -> str:
    """All explanations, one mapping each."""
    return json.dumps([each.as_json() for each in explanations], indent=2, ensure_ascii=False) + "\n"


def is_placed(explanation: Explanation) -> bool:
    """Whether there is a place for one replica at least, now or already."""
    return explanation.verdict in (Verdict.FITS, Verdict.SCHEDULED)


def _sources(
    asked: Iterable[str], namespace: str, policy: GPUAdmissionPolicy, reader: Reader
) -> list[list[Object] | _Name]:
    """What arguments stand for; those that stand for nothing go to the reader's problems."""
    sources: list[list[Object] | _Name] = []
    for argument in asked:
        try:
            name = _named(argument, policy)
        except KindUnknownError as error:
            reader.problems.append(Problem(argument, f"no such file or directory, and {error}"))
            continue
        sources.append(_read(argument, namespace, reader) if name is None else name)
    return sources


def _named(argument: str, policy: GPUAdmissionPolicy) -> _Name | None:
    """The object that an argument names; None where it is a file.

    Raises:
        KindUnknownError: it is neither.
    """
    word, _, name = argument.partition("/")
    is_path = not word or not name or "/" in name or name.endswith(_ENDINGS)
    if is_path or os.path.exists(argument):  # noqa: PTH110 - pathlib is slow to import, see webhook/cli/documents.py
        return None
    try:
        return _Name(argument, find_kind(word, policy.workloads.kinds), name)
    except KindUnknownError:
        if os.path.isdir(word):  # noqa: PTH112 - as above
            return None
        raise


def _read(path: str, namespace: str, reader: Reader) -> list[Object]:
    return [in_namespace(manifest.object, namespace) for manifest in reader.manifests([path])]


def _found(source: list[Object] | _Name, view: ClusterView, namespace: str, reader: Reader) -> list[Object]:
    if not isinstance(source, _Name):
        return source
    try:
        return [look_up(view, source.kind, source.name, namespace)]
    except NotFoundError as error:
        bring = f"; kubectl get {source.kind.resource} -A -o yaml prints them for a file of --cluster"
        reader.problems.append(Problem(source.argument, f"{error}{'' if error.is_certain else bring}"))
        return []
