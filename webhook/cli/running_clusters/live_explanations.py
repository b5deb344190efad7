"""Explanations of a running cluster, by its objects or by the Service of gpu-admission."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from policies.explanation import explain
from policies.kubernetes.objects import DEFAULT_NAMESPACE, name_of, namespace_of
from policies.outcome import READ_FROM, questions
from policies.phrases import format_list
from policies.view import ChangedView
from webhook.cli.explanations import Name, check_found, read_sources
from webhook.cli.manifest_reader import ManifestReader
from webhook.cli.problems import Problem
from webhook.cli.progress import Progress
from webhook.cli.running_clusters.clusters import read_cluster
from webhook.cli.running_clusters.connections import NoClusterError, connected_client
from webhook.cli.running_clusters.discovery import Discovery
from webhook.cli.running_clusters.explanation_service import ServiceRefusal, ask_service
from webhook.cli.running_clusters.live_facts import running_cluster
from webhook.cli.running_clusters.object_reads import stored_settings
from webhook.cli.settings import chosen_settings
from webhook.cluster.contexts import context_namespace
from webhook.cluster.errors import APIError
from webhook.cluster.kind_reads import Why, read_object
from webhook.cluster.resources import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.explanation import Explanation
    from policies.kubernetes.objects import Object
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView
    from webhook.cluster.client import APIClient

__all__ = ["LiveQuestion", "explain_running_cluster"]

_PLACES = frozenset({"Node", "ResourceSlice"})
"""Either of these kinds makes an explanation worth reading, even if others are unknown."""
_OWN_RIGHTS = "Explained with your own permissions."
_BY_SERVICE = (
    "Explained by the Service gpu-admission-explain, which got your bearer token, because you may not list {}."
)


class LiveQuestion(NamedTuple):
    """What to explain, and in which cluster."""

    files: tuple[str, ...]
    """Files, folders, or `-`."""
    names: tuple[str, ...]
    """The same, or `KIND/NAME` for objects of the cluster."""
    kubeconfig: str | None
    """A file; None for the one that kubectl uses."""
    context: str | None
    """The context of the kubeconfig; its current one if None."""
    namespace: str
    """The namespace of objects without one; empty for that of the context."""
    settings: str | None
    """The file with the administrator's settings; if None, those of the cluster."""


class _Subject(NamedTuple):
    """An object to explain."""

    document: Object | None
    """None if the user may not read it."""
    name: Name | None
    """Its name on the command line; None for an object of a file."""


def explain_running_cluster(question: LiveQuestion) -> list[Explanation]:
    """Read what the user may read, explain, and say on standard error how.

    Raises:
        NoClusterError: The cluster cannot be read, and the Service does not explain.
        UnreadableInputError: Files have problems, or names are not found.
        click.UsageError: The input has no objects that can be explained.
    """
    with Progress() as progress:
        try:
            answer = asyncio.run(_explain(question, progress))
        except _NoServiceError as refused:
            answer = _explain_what_is_known(question, refused, progress)
    for line in answer.lines:
        click.echo(line, err=True)
    check_found(answer.explanations, [*question.files, *question.names])
    click.echo(answer.method, err=True)
    return answer.explanations


class _Answer(NamedTuple):
    explanations: list[Explanation]
    lines: list[str]
    """What was skipped, notes and warnings."""
    method: str
    """How the explanations were obtained."""


class _Asked(NamedTuple):
    """The subjects of a question, as they were read from files and from the cluster."""

    subjects: list[_Subject]
    namespace: str
    """Of objects without one."""
    policy: GPUAdmissionPolicy
    lines: list[str]
    """What was skipped."""


class _NoServiceError(NoClusterError):
    """The user may not list all that is needed, and the Service does not explain."""

    def __init__(self, url: str, asked: _Asked, unlisted: Sequence[str], refusal: ServiceRefusal) -> None:
        reason = f"you may not list {_plurals(unlisted)}, and {refusal}"
        super().__init__(f"{url}: it is unknown where this fits, because {reason}")
        self.asked = asked
        self.unlisted = unlisted
        self.method = f"Explained with what you may list: {reason}."


async def _explain(question: LiveQuestion, progress: Progress) -> _Answer:
    chosen = chosen_settings(question.settings)
    reader = ManifestReader()
    async with connected_client(question.kubeconfig, question.context) as client:
        namespace = question.namespace or context_namespace(question.kubeconfig, question.context) or DEFAULT_NAMESPACE
        stored = await stored_settings(client)
        policy = chosen or stored[0]
        sources = read_sources(question.files, question.names, namespace, policy, reader)
        reader.check()
        subjects = [subject for source in sources for subject in await _subjects(client, source, namespace, reader)]
        reader.check()
        asked = _Asked(subjects, namespace, policy, [*reader.others.lines])
        unlisted = await _kinds_that_may_not_be_listed(client)
        if not unlisted:
            async with read_cluster(client, progress, stored) as cluster:
                explanations = _explain_by_objects(cluster.view, asked, progress)
            notes = [f"Note: {note}." for note in cluster.notes]
            return _Answer(explanations, [*asked.lines, *notes], _OWN_RIGHTS)
        try:
            explanations = await _explain_by_service(client, asked, progress)
        except ServiceRefusal as refusal:
            raise _NoServiceError(client.url, asked, unlisted, refusal) from refusal
    ignored = "Warning: --settings has no effect: the Service uses the settings of the cluster."
    lines = [*asked.lines, *([ignored] if chosen is not None else [])]
    return _Answer(explanations, lines, _BY_SERVICE.format(_plurals(unlisted)))


def _explain_what_is_known(question: LiveQuestion, refused: _NoServiceError, progress: Progress) -> _Answer:
    """Explain with the kinds that the user may list; the others are unknown.

    Raises:
        NoClusterError: It is unknown where there are nodes or devices, or nothing that was asked about may be read.
    """
    asked = refused.asked
    if set(refused.unlisted) >= _PLACES or not any(subject.document for subject in asked.subjects):
        raise refused
    with running_cluster(question.kubeconfig, question.context, progress) as cluster:
        explanations = _explain_by_objects(cluster.view(asked.policy, ()), asked, progress)
    return _Answer(explanations, asked.lines, refused.method)


async def _subjects(
    client: APIClient, source: list[Object] | Name, namespace: str, reader: ManifestReader
) -> list[_Subject]:
    """The objects of a file, or the one with a name; missing ones go to the reader's problems."""
    if not isinstance(source, Name):
        return [_Subject(document, None) for document in source]
    resource, found = source.resource, None
    # A kind that the settings add has no version; the API server prefers one.
    versions = [resource.version] if resource.version else await Discovery(client).versions(resource.group)
    try:
        if versions:
            found = await read_object(client, replace(resource, version=versions[0]), source.name, namespace)
    except ValueError as error:
        reader.problems.append(Problem(source.argument, str(error)))
        return []
    if isinstance(found, dict):
        return [_Subject(found, source)]
    if found is not None and found.why is Why.FORBIDDEN:
        return [_Subject(None, source)]
    missing = f"{resource.kind} {source.name} in namespace {namespace} not found; -n names another namespace"
    reader.problems.append(Problem(source.argument, missing if found is None else str(found)))
    return []


async def _kinds_that_may_not_be_listed(client: APIClient) -> list[str]:
    """The kinds of `READ_FROM` that the user may not list in all namespaces."""
    may = await asyncio.gather(*(_may_list(client, kind) for kind in READ_FROM))
    return [kind for kind, allowed in zip(READ_FROM, may, strict=True) if not allowed]


def _plurals(kinds: Sequence[str]) -> str:
    return format_list([RESOURCES[kind].plural for kind in kinds])


async def _may_list(client: APIClient, kind: str) -> bool:
    resource, review = RESOURCES[kind], RESOURCES["SelfSubjectAccessReview"]
    attributes = {"verb": "list", "group": resource.group, "resource": resource.plural}
    document = {
        "apiVersion": review.api_version,
        "kind": review.kind,
        "spec": {"resourceAttributes": attributes},
    }
    try:
        answer = await client.post(review.path(), document)
    except APIError as error:
        if not error.is_forbidden:
            raise
        return False
    return answer["status"].get("allowed") is True


def _explain_by_objects(cluster: ClusterView, asked: _Asked, progress: Progress) -> list[Explanation]:
    subjects, home, policy = asked.subjects, asked.namespace, asked.policy
    of_files = [subject.document for subject in subjects if subject.document and not subject.name]
    keyed = {(each["kind"], namespace_of(each) or home, name_of(each)): each for each in of_files}
    # Objects of files refer to each other. They run nowhere, so what is in use is that of the cluster.
    view = ChangedView(cluster, keyed, lists=False)
    found = [
        each
        for subject in subjects
        if subject.document is not None
        for each in questions(subject.document, home, view, policy, found=subject.name is not None)
    ]
    return [explain(each, view, policy) for each in progress.count("explaining", found)]


async def _explain_by_service(client: APIClient, asked: _Asked, progress: Progress) -> list[Explanation]:
    """The explanations of the Service.

    Raises:
        ServiceRefusal: It gives none.
    """
    explanations: list[Explanation] = []
    for subject in progress.count("explaining", asked.subjects):
        home = (namespace_of(subject.document) if subject.document else "") or asked.namespace
        explanations += await ask_service(client, _posted_question(subject), home)
    return explanations


def _posted_question(subject: _Subject) -> dict[str, Any]:
    """The question as the service takes it; an object that the user may not read is named."""
    if subject.document is not None:
        return {"object": subject.document}
    if subject.name is None:
        raise ValueError("a subject has an object or a name")
    return {"kind": subject.name.resource.name, "name": subject.name.name}
