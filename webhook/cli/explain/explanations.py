"""Explanations of objects from files and from a cluster in files, as text and JSON."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import click

from policies.analyses.explain import Explanation, Headroom, explain, headroom
from policies.analyses.explain.explanations import fit_word, left_out_sentence, why_sentences
from policies.analyses.wait_list import WaitRow
from policies.kubernetes.names import format_list, is_dns_subdomain
from policies.kubernetes.objects import DEFAULT_NAMESPACE, in_namespace, name_of, namespace_of
from policies.kubernetes.view import ChangedView
from policies.outcome import Feasibility, questions
from webhook.cli.manifest_reader import ManifestReader, Problem
from webhook.cli.progress import current_progress
from webhook.cli.settings import read_facts
from webhook.cli.text_layout import output_text
from webhook.cluster.lookups import (
    KindUnknownError,
    NotFoundError,
    all_resources,
    find_resource,
    look_up,
    name_hint,
    objects_named,
    reference,
)
from webhook.pages.explanation_report import answer_section, nodes_sentence, remarks_section
from webhook.pages.report_model import Column, Lines, Paragraph, Section, Table, numbers
from webhook.pages.text_report import render_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from policies.analyses.wait_list import WaitList
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.outcome import NodeGroup
    from policies.rules.settings import AddedKind, GPUAdmissionPolicy
    from webhook.cli.cluster_options import ClusterOptions
    from webhook.cluster.lookups import Hint
    from webhook.cluster.resources import Resource
    from webhook.pages.report_model import Cell

ExplanationsJSON = list[Explanation] | list[WaitRow]
"""The output of `gpu-admission explain -o json`, and without arguments."""
_ENDINGS = (".yaml", ".yml", ".json")


class Name(NamedTuple):
    """An object of the cluster, as it is named on the command line."""

    argument: str
    resources: tuple[Resource, ...]
    """Its kind, or all kinds that it may have."""
    name: str

    @property
    def resource(self) -> Resource | None:
        """Its kind; None if only the name was given."""
        return self.resources[0] if len(self.resources) == 1 else None


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
        current_progress().print_line(line)
    check_found(asked, [*files, *names])
    return [explain(each, view, known.settings) for each in current_progress().count("explaining", asked)]


def headrooms_of(names: Sequence[str], source: ClusterOptions) -> list[Headroom]:
    """The headrooms of objects in a cluster in files; arguments and errors as of `explanations_of`."""
    reader = ManifestReader()
    known = read_facts(source, None, reader)
    namespace = source.namespace or DEFAULT_NAMESPACE
    sources = read_sources((), names, source.namespace, known.settings, reader)
    reader.check()
    documents = [document for found in sources if not isinstance(found, Name) for document in found]
    view = with_documents(known.view(), documents, namespace)
    asked = [each for found in sources for each in _objects_of(found, view, source.namespace, reader)]
    reader.check()
    for line in reader.others.lines:
        current_progress().print_line(line)
    answers = [
        found
        for each in current_progress().count("counting what fits", asked)
        if (found := headroom(each, namespace, view, known.settings)) is not None
    ]
    check_found(answers, names)
    return answers


def with_documents(view: ClusterView, documents: Iterable[Object], namespace: str) -> ClusterView:
    """A view in which objects of files refer to each other; they run nowhere, so nothing more is in use."""
    keyed = {(each["kind"], namespace_of(each) or namespace, name_of(each)): each for each in documents}
    return ChangedView(view, keyed, lists=False)


def check_found(found: Sequence[object], sources: Iterable[str]) -> None:
    """Refuse input without questions, or without explanations.

    Raises:
        click.UsageError: There are none.
    """
    if not found:
        where = ", ".join(sources)
        raise click.UsageError(f"nothing to explain: no pods, workloads, claims or claim templates in {where}")


def as_json(found: Iterable[Explanation] | Iterable[WaitRow]) -> str:
    """A list with one mapping for each explanation, or for each row of the wait list."""
    return output_text(list(found), ExplanationsJSON)


def headroom_json(found: Iterable[Headroom]) -> str:
    """A list with one mapping for each object."""
    return output_text(list(found), list[Headroom])


def what_waits(source: ClusterOptions) -> WaitList:
    """The pods and workloads that wait for GPUs in a cluster in files, or a running one.

    Users who may not list the pods of all namespaces get those of the namespace of their context.

    Raises:
        UnreadableInputError: Files have problems.
        NoClusterError: The cluster cannot be read.
        click.UsageError: It is unknown which pods wait.
    """
    if source.cluster:
        from webhook.cli.reports.usage_reports import report_usage_of_files

        found = report_usage_of_files(source).waiting
    else:
        from webhook.cli.reports.live_quotas import report_usage

        found = report_usage(source).waiting
        if not found.is_known and not source.namespace:
            found = report_usage(source._replace(live=True).with_namespace()).waiting
    if not found.is_known:
        raise click.UsageError(
            f"nothing to explain: name files, folders, - for standard input, or KIND/NAME; {found.summary}"
        )
    return found


def read_sources(
    files: Iterable[str], names: Sequence[str], namespace: str, policy: GPUAdmissionPolicy, reader: ManifestReader
) -> list[list[Object] | Name]:
    """The objects or the name of each file and argument; invalid arguments go to the reader's problems.

    Raises:
        click.UsageError: A kind has no name.
    """
    sources: list[list[Object] | Name] = [_read_objects(file, namespace, reader) for file in files]
    if after_kind := _names_after_kind(names, policy.workloads.kinds):
        return [*sources, *after_kind]
    for argument in names:
        try:
            name = _name(argument, policy.workloads.kinds)
        except KindUnknownError as error:
            reader.problems.append(Problem(argument, f"no such file or directory, and {error}"))
            continue
        sources.append(_read_objects(argument, namespace, reader) if name is None else name)
    return sources


def has_names(arguments: Sequence[str]) -> bool:
    """True if an argument names an object, of a built-in kind if it names the kind, and no file."""
    return bool(_names_after_kind(arguments)) or any(map(_is_known_name, arguments))


def _is_known_name(argument: str) -> bool:
    try:
        return _name(argument) is not None
    except KindUnknownError:
        return False


def _names_after_kind(arguments: Sequence[str], added: Iterable[AddedKind] = ()) -> list[Name]:
    """The objects of `pod NAME...`, as in kubectl; none if the first argument is no kind.

    Raises:
        click.UsageError: There is no name after the kind.
    """
    if not arguments or not _is_word(arguments[0]) or any("/" in name for name in arguments[1:]):
        return []
    word, *names = arguments
    try:
        resource = find_resource(word, added)
    except KindUnknownError:
        return []
    if not names:
        raise click.UsageError(f"write {word}/NAME: the name of the object is missing")
    return [Name(reference(resource, name), (resource,), name) for name in names]


def _is_word(argument: str) -> bool:
    """True if an argument without a slash may be a kind or a name, and names no file."""
    is_file = argument.endswith(_ENDINGS) or os.path.exists(argument)
    return is_dns_subdomain(argument.lower()) and not is_file


def _name(argument: str, added: Iterable[AddedKind] = ()) -> Name | None:
    """The object that an argument names; None if it is a file.

    Raises:
        KindUnknownError: The argument is neither.
    """
    if _is_word(argument):
        return Name(argument, all_resources(added), argument)
    word, _, name = argument.partition("/")
    is_path = not word or not name or "/" in name or name.endswith(_ENDINGS)
    if is_path or os.path.exists(argument):
        return None
    try:
        return Name(argument, (find_resource(word, added),), name)
    except KindUnknownError:
        if os.path.isdir(word):
            return None
        raise


def _read_objects(path: str, namespace: str, reader: ManifestReader) -> list[Object]:
    return [in_namespace(manifest.object, namespace) for manifest in reader.manifests([path])]


def _objects_of(source: list[Object] | Name, view: ClusterView, namespace: str, reader: ManifestReader) -> list[Object]:
    if not isinstance(source, Name):
        return source
    if source.resource is None:
        home = namespace or DEFAULT_NAMESPACE
        found = objects_named(view, source.name, home)
        if len(found) != 1:
            known = ((each, item) for each in source.resources for item in view.known_objects(each.kind))
            hint = name_hint(known, source.name, home)
            reader.problems.append(name_problem(source, [resource for resource, _ in found], home, hint))
        return [found[0][1]] if len(found) == 1 else []
    try:
        return [look_up(view, source.resource, source.name, namespace)]
    except NotFoundError as error:
        bring = f"; kubectl get --raw {source.resource.path()} prints them for a file of --cluster"
        problem = f"{error}{error.hint.option}{'' if error.is_certain else bring}"
        reader.problems.append(Problem(source.argument, problem))
        return []


def name_problem(name: Name, found: Sequence[Resource], namespace: str, hint: Hint) -> Problem:
    """The problem of a name without a kind that several objects of a namespace have, or no object."""
    if found:
        listed = format_list([reference(each, name.name) for each in found], len(found))
        return Problem(name.argument, f"name the kind too: namespace {namespace} has {listed}")
    missing = f"neither a file nor an object of namespace {namespace} that can be explained"
    return Problem(name.argument, f"{missing}{hint.text}{hint.option}")


def text(explanations: Sequence[Explanation], width: int | None = None) -> str:
    """All explanations, with a summary if there are several; `width` is that of the terminal if None."""
    sections = [section for explanation in explanations for section in _sections(explanation)]
    if len(explanations) > 1:
        counts = Counter(explanation.verdict for explanation in explanations)
        verdicts = ", ".join(f"{counts[verdict]} {verdict}" for verdict in Feasibility if counts[verdict])
        sections.append(Section([Lines([f"{len(explanations)} explanations: {verdicts}"])]))
    return render_text(sections, width)


def _sections(explanation: Explanation) -> Iterator[Section]:
    yield answer_section(explanation)
    counted, left_out = nodes_sentence(explanation), left_out_sentence(explanation)
    blocks = [Lines([left_out] if left_out else [])]
    yield Section([*([Paragraph(counted)] if counted else []), _groups(explanation.groups), *blocks])
    yield remarks_section(explanation)


def _groups(groups: Sequence[NodeGroup]) -> Table:
    is_named = any(group.nodes for group in groups)
    rows: list[list[Cell]] = []
    for group in groups:
        more = group.count - len(group.nodes)
        names = [*group.nodes, *([f"and {more} more"] if more > 0 else [])]
        first, *details = why_sentences(group) or ("",)
        why = [first, *(f"- {detail}" for detail in details)]
        rows.append([str(group.count), fit_word(group), *([names] if is_named else []), why])
    names_column = [Column("NAMES", wraps=True, share=3)] if is_named else []
    return Table([*numbers("NODES"), "FITS", *names_column, Column("WHY", wraps=True)], rows)
