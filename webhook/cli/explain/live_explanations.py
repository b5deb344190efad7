"""Explanations and headrooms in a running cluster, by the user's own rights or by the Service."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from policies.analyses.explain import Explanation, Headroom, explain, headroom
from policies.kubernetes.names import format_list
from policies.kubernetes.objects import DEFAULT_NAMESPACE, items_at, namespace_of, parse_document
from policies.kubernetes.pod_status import is_not_running
from policies.outcome import READ_FROM, Feasibility, ObstacleKind, questions
from webhook.cli.explain.explanations import Name, check_found, name_problem, read_sources, with_documents
from webhook.cli.manifest_reader import ManifestReader, Problem
from webhook.cli.progress import Progress, current_progress
from webhook.cli.running_clusters import (
    Discovery,
    NoClusterError,
    connected_client,
    read_cluster,
    running_cluster,
    stored_settings,
)
from webhook.cli.settings import chosen_settings
from webhook.cli.unwatched_objects import WITHOUT_EVENTS, ViewWithEvents, read_pod_events
from webhook.cluster.answers import APIError
from webhook.cluster.client import NoTokenError
from webhook.cluster.kind_reads import Unreadable, Why, read_object
from webhook.cluster.lookups import NO_HINT, all_resources, name_hint
from webhook.cluster.manifests import ManifestsView
from webhook.cluster.resources import RESOURCES
from webhook.controllers.replica_config import EXPLAIN_SERVICE, EXPLAIN_SERVICE_ROLE, NAMESPACE
from webhook.pages.text_report import print_lines
from webhook.server.config import EXPLAIN_PORT
from webhook.server.explain_gate import HEADER
from webhook.server.questions import namespaced_path
from webhook.server.turns import LONGEST_SECONDS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.rules.settings import GPUAdmissionPolicy
    from webhook.cli.cluster_options import ClusterOptions
    from webhook.cluster.answers import ServiceAnswer
    from webhook.cluster.client import APIClient
    from webhook.cluster.lookups import Hint
    from webhook.cluster.resources import Resource


_MOST_RETRIES = 20
"""Of one question, while the rate is limited."""
_DEFAULT_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
"""Seconds until the next try, without Retry-After and at most."""
PROXY = f"/api/v1/namespaces/{NAMESPACE}/services/https:{EXPLAIN_SERVICE}:https/proxy"
"""The path of the Service in the API server."""
_SERVICE = f"the Service {EXPLAIN_SERVICE} in namespace {NAMESPACE}"
_NO_TOKEN = (
    f"{_SERVICE} identifies users by bearer tokens, and these credentials are a client certificate or none; use a context "
    "with a token, for example of a service account: kubectl config set-credentials explain "
    "--token=$(kubectl create token NAME -n NAMESPACE)"
)


T = TypeVar("T")


@dataclass(frozen=True)
class AnswerForm(Generic[T]):
    """The kind of answers about objects, by the own rights of a user and by the Service."""

    kind: Any
    """The type of the answers about one object."""
    word: str
    """The last word in the path of the Service."""
    answers: Callable[[_Subject, str, ClusterView, GPUAdmissionPolicy], list[T]]
    """The answers about an object by what the user reads."""
    completed: Callable[[T, _Subject, _Asked], T]
    """The answer of the Service about a subject with what only the user has read."""
    verb: str
    """`Explained`, for the sentence that says how."""


class ServiceRefusal(Exception):  # noqa: N818 - the name says what is wrong; "Error" would only say it twice
    """The service gives no explanation. Its text says why and what to do, without a full stop."""


async def ask_service(
    client: APIClient,
    question: dict[str, Any],
    namespace: str,
    form: AnswerForm[T],
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> list[T]:
    """The answers to a question as `/v1/explain` takes it, about an object of a namespace.

    If the service limits the rate, waits as long as it says and asks again.

    Raises:
        ServiceRefusal: There is no answer.
        Unreachable: The API server did not answer.
    """
    answer = await _ask_once(client, question, namespaced_path(namespace, form.word))
    for _ in range(_MOST_RETRIES):
        if answer.status != HTTPStatus.TOO_MANY_REQUESTS:
            break
        await sleep(min(answer.retry_after or _DEFAULT_PAUSE, _LONGEST_PAUSE))
        answer = await _ask_once(client, question, namespaced_path(namespace, form.word))
    if answer.status != HTTPStatus.OK:
        raise ServiceRefusal(_refusal(answer))
    try:
        answers: list[T] = parse_document(json.loads(answer.body), form.kind)
    except ValueError as error:
        sentence = (
            f"{_SERVICE} answers in a form that this version does not know ({error}); use its version of this command"
        )
        raise ServiceRefusal(sentence) from error
    return answers


async def _ask_once(client: APIClient, question: dict[str, Any], path: str) -> ServiceAnswer:
    path, query = f"{PROXY}{path}", {"timeout": f"{LONGEST_SECONDS:g}s"}
    try:
        return await client.ask_service(path, question, query, HEADER, timeout=LONGEST_SECONDS + 5.0)
    except NoTokenError as error:
        raise ServiceRefusal(_NO_TOKEN) from error


def _refusal(answer: ServiceAnswer) -> str:
    """The reason for a refusal: a Status is from the API server, plain text from the service."""
    text = answer.body.decode(errors="replace").strip()
    try:
        status = json.loads(text)
    except ValueError:
        status = None
    if not isinstance(status, dict):
        return text[:2000].rstrip(".") or f"{_SERVICE} answers with status {answer.status}"
    message = str(status.get("message") or "")
    match answer.status:
        case HTTPStatus.TOO_MANY_REQUESTS:
            return f"the API server limits the rate of requests ({message}); try again in a few minutes"
        case HTTPStatus.FORBIDDEN:
            return (
                f"you may not reach {_SERVICE} ({message}); ask an administrator for kubectl create rolebinding explain -n "
                f"{NAMESPACE} --role={EXPLAIN_SERVICE_ROLE} --group=system:authenticated"
            )
        case HTTPStatus.NOT_FOUND:
            return (
                f"{_SERVICE} does not exist; ask an administrator to install gpu-admission with deploy/install.yaml of this "
                "version"
            )
    return (
        f"the API server cannot reach {_SERVICE} ({message}); ask an administrator whether its pods are ready, and whether "
        f"a firewall or NetworkPolicy lets API servers reach port {EXPLAIN_PORT} of them"
    )


_PLACES = frozenset({"Node", "ResourceSlice"})
"""Either of these kinds makes an explanation worth reading, even if others are unknown."""
_OWN_RIGHTS = "with your own permissions"
_BY_SERVICE = "by the Service gpu-admission-explain, which got your bearer token, because you may not list {}"


class LiveQuestion(NamedTuple):
    """The objects to explain, and their cluster."""

    files: tuple[str, ...]
    """Files, folders, or `-`."""
    names: tuple[str, ...]
    """The same, or `KIND/NAME` for objects of the cluster."""
    source: ClusterOptions
    """The cluster; its namespace is that of objects without one, empty for that of the context."""


class _Subject(NamedTuple):
    """An object to explain."""

    document: Object | None
    """None if the user may not read it."""
    name: Name | None
    """Its name on the command line; None for an object of a file."""


def answer_running_cluster(question: LiveQuestion, form: AnswerForm[T]) -> list[T]:
    """Read what the user may read, answer, and say on standard error how.

    Raises:
        NoClusterError: The cluster cannot be read, and the Service does not answer.
        UnreadableInputError: Files have problems, or names are not found.
        click.UsageError: The input has no objects that can be explained.
    """
    with Progress():
        try:
            answer = asyncio.run(_answer(question, form))
        except _NoServiceError as refused:
            asked = refused.asked
            if set(refused.unlisted) >= _PLACES or not any(subject.document for subject in asked.subjects):
                raise
            with running_cluster(question.source) as cluster:
                answers = _answer_by_objects(cluster.view(asked.policy, ()), asked, form)
            answer = _Answer(answers, asked.lines, refused.method)
    print_lines(answer.lines, err=True)
    check_found(answer.answers, [*question.files, *question.names])
    print_lines([f"{form.verb} {answer.method}."], err=True)
    return answer.answers


@dataclass(frozen=True)
class _Answer(Generic[T]):
    answers: list[T]
    lines: list[str]
    """Skipped files, notes and warnings."""
    method: str
    """The source of the answers, as a clause."""


class _Asked(NamedTuple):
    """The subjects of a question, as they were read from files and from the cluster."""

    subjects: list[_Subject]
    namespace: str
    """Of objects without one."""
    policy: GPUAdmissionPolicy
    lines: list[str]
    """Skipped files."""
    events: dict[str, list[Object]]
    """The events of pods by namespace, of those with bound pods among the subjects."""

    def with_events(self, view: ClusterView) -> ClusterView:
        """A view that knows the events too."""
        for namespace, events in self.events.items():
            view = ViewWithEvents(view, events, namespace)
        return view


class _NoServiceError(NoClusterError):
    """The user may not list all that is needed, and the Service does not explain."""

    def __init__(self, url: str, asked: _Asked, unlisted: Sequence[str], refusal: ServiceRefusal) -> None:
        reason = f"you may not list {_plurals(unlisted)}, and {refusal}"
        super().__init__(f"{url}: it is unknown where this fits, because {reason}")
        self.asked = asked
        self.unlisted = unlisted
        self.method = f"with what you may list: {reason}"


async def _answer(question: LiveQuestion, form: AnswerForm[T]) -> _Answer[T]:
    chosen = chosen_settings(question.source.settings)
    reader = ManifestReader()
    async with connected_client(question.source) as client:
        namespace = question.source._replace(live=True).with_namespace().namespace or DEFAULT_NAMESPACE
        stored = await stored_settings(client)
        policy = chosen or stored[0]
        sources = read_sources(question.files, question.names, namespace, policy, reader)
        reader.check()
        subjects = [subject for source in sources for subject in await _subjects(client, source, namespace, reader)]
        reader.check()
        events, notes = await _events_of(client, subjects)
        asked = _Asked(subjects, namespace, policy, [*reader.others.lines, *notes], events)
        may = await asyncio.gather(*(_may_list(client, kind) for kind in READ_FROM))
        unlisted = [kind for kind, allowed in zip(READ_FROM, may, strict=True) if not allowed]
        if not unlisted:
            async with read_cluster(client, stored) as cluster:
                answers = _answer_by_objects(cluster.view, asked, form)
            notes = [f"Note: {note}." for note in cluster.notes]
            return _Answer(answers, [*asked.lines, *notes], _OWN_RIGHTS)
        try:
            answers = await _answer_by_service(client, asked, form)
        except ServiceRefusal as refusal:
            raise _NoServiceError(client.url, asked, unlisted, refusal) from refusal
    ignored = "Warning: --settings has no effect: the Service uses the settings of the cluster."
    lines = [*asked.lines, *([ignored] if chosen is not None else [])]
    return _Answer(answers, lines, _BY_SERVICE.format(_plurals(unlisted)))


async def _events_of(client: APIClient, subjects: Sequence[_Subject]) -> tuple[dict[str, list[Object]], list[str]]:
    """The events in the namespaces of bound pods that do not run, and notes on unreadable ones."""
    found: dict[str, list[Object]] = {}
    notes: list[str] = []
    pods = (subject.document for subject in subjects if subject.document is not None and subject.name is not None)
    for namespace in dict.fromkeys(namespace_of(pod) for pod in pods if is_not_running(pod)):
        events = await read_pod_events(client, namespace)
        if isinstance(events, Unreadable):
            notes.append(f"Note: {events.clause} in namespace {namespace}, so {WITHOUT_EVENTS}.")
        else:
            found[namespace] = events
    return found, notes


async def _subjects(
    client: APIClient, source: list[Object] | Name, namespace: str, reader: ManifestReader
) -> list[_Subject]:
    """The objects of a file, or the one with a name; missing ones go to the reader's problems."""
    if not isinstance(source, Name):
        return [_Subject(document, None) for document in source]
    discovery = Discovery(client)
    try:
        reads = [_read_named(client, discovery, each, source.name, namespace) for each in source.resources]
        answers = dict(zip(source.resources, await asyncio.gather(*reads), strict=True))
    except ValueError as error:
        reader.problems.append(Problem(source.argument, str(error)))
        return []
    documents = {resource: answer for resource, answer in answers.items() if isinstance(answer, dict)}
    if len(documents) == 1:
        return [_Subject(document, source) for document in documents.values()]
    (answer, *_) = answers.values()
    if source.resource is not None and _is_hidden(answer):
        return [_Subject(None, source)]
    hint = NO_HINT if documents else await _hint(client, discovery, source, namespace)
    reader.problems.append(_name_problem(source, answer, [*documents], namespace, hint))
    return []


def _name_problem(
    name: Name, answer: Object | Unreadable | None, found: Sequence[Resource], namespace: str, hint: Hint
) -> Problem:
    """The problem of a name that several objects have, or none; `answer` is that about the first kind."""
    if name.resource is None and not found and _is_hidden(answer):
        kind = f"name the kind too, such as pod/{name.name}"
        return Problem(name.argument, f"{kind}: you may not read the pods of namespace {namespace}")
    if name.resource is None:
        return name_problem(name, found, namespace, hint)
    if answer is not None:
        return Problem(name.argument, str(answer))
    missing = f"{name.resource.kind} {name.name} in namespace {namespace} not found"
    return Problem(name.argument, f"{missing}{hint.text or '; -n names another namespace'}{hint.option}")


def _is_hidden(answer: Object | Unreadable | None) -> bool:
    return isinstance(answer, Unreadable) and answer.why is Why.FORBIDDEN


async def _read_named(
    client: APIClient, discovery: Discovery, resource: Resource, name: str, namespace: str
) -> Object | Unreadable | None:
    served = await _served_resource(discovery, resource)
    return None if served is None else await read_object(client, served, name, namespace)


async def _served_resource(discovery: Discovery, resource: Resource) -> Resource | None:
    """The resource in its version; a kind that the settings add has none, and the API server prefers one."""
    if resource.version:
        return resource
    versions = await discovery.versions(resource.group)
    return replace(resource, version=versions[0]) if versions else None


_MOST_LISTED = "500"
"""Objects of a kind whose names are compared with a name that is not found."""


async def _hint(client: APIClient, discovery: Discovery, source: Name, namespace: str) -> Hint:
    """The object that was probably meant, among those that the user may list."""
    known: list[tuple[Resource, Object]] = []

    async def read(resource: Resource, home: str, query: dict[str, str]) -> None:
        served = await _served_resource(discovery, resource)
        try:
            answer = None if served is None else await client.get(served.path(home), query)
        except APIError:
            # A hint is not worth an error: the user may not list them, or they are not served.
            return
        known.extend((resource, item) for item in items_at(answer, ("items",)))

    same, some = {"fieldSelector": f"metadata.name={source.name}"}, {"limit": _MOST_LISTED}
    kinds = [each for each in source.resources if each == source.resource or each.kind in _USUAL]
    await asyncio.gather(
        *(read(each, "", same) for each in source.resources),
        *(read(each, home, some) for each in kinds for home in (namespace, "")),
        *(read(each, namespace, same) for each in all_resources() if source.resource and each.kind in _USUAL),
    )
    return name_hint(known, source.name, namespace)


_USUAL = ("Pod", "ResourceClaim", "Deployment", "Job", "StatefulSet")
"""The kinds whose names are compared, beside the kind that is named."""


def _plurals(kinds: Sequence[str]) -> str:
    return format_list([RESOURCES[kind].plural for kind in kinds])


async def _may_list(client: APIClient, kind: str) -> bool:
    resource, review = RESOURCES[kind], RESOURCES["SelfSubjectAccessReview"]
    attributes = {"verb": "list", "group": resource.group, "resource": resource.plural}
    document = {"apiVersion": review.api_version, "kind": review.kind, "spec": {"resourceAttributes": attributes}}
    try:
        answer = await client.post(review.path(), document)
    except APIError as error:
        if not error.is_forbidden:
            raise
        return False
    return answer["status"].get("allowed") is True


def _answer_by_objects(cluster: ClusterView, asked: _Asked, form: AnswerForm[T]) -> list[T]:
    of_files = [subject.document for subject in asked.subjects if subject.document and not subject.name]
    view = with_documents(asked.with_events(cluster), of_files, asked.namespace)
    return [
        each
        for subject in current_progress().count("explaining", asked.subjects)
        for each in form.answers(subject, asked.namespace, view, asked.policy)
    ]


async def _answer_by_service(client: APIClient, asked: _Asked, form: AnswerForm[T]) -> list[T]:
    """The answers of the Service.

    Raises:
        ServiceRefusal: It gives none.
    """
    answers: list[T] = []
    for subject in current_progress().count("explaining", asked.subjects):
        home = (namespace_of(subject.document) if subject.document else "") or asked.namespace
        found = await ask_service(client, _posted_question(subject), home, form)
        answers += [form.completed(each, subject, asked) for each in found]
    return answers


def _with_own_events(explanation: Explanation, subject: _Subject, asked: _Asked) -> Explanation:
    """The explanation of the Service, which reads no events, with what those of a bound pod say."""
    pod = subject.document
    if pod is None or namespace_of(pod) not in asked.events or not is_not_running(pod):
        return explanation
    view = asked.with_events(ManifestsView())
    (question,) = questions(pod, asked.namespace, view, asked.policy, found=True)
    own = explain(question, view, asked.policy)
    others = [each for each in explanation.obstacles if each.kind is not ObstacleKind.START_FAILS]
    return replace(own, obstacles=(*own.obstacles, *others)) if own.verdict is Feasibility.STUCK else explanation


def _posted_question(subject: _Subject) -> dict[str, Any]:
    """The question as the service takes it; an object that the user may not read is named."""
    if subject.document is not None:
        return {"object": subject.document}
    if subject.name is None or subject.name.resource is None:
        raise ValueError("a subject has an object, or a kind and a name")
    return {"kind": subject.name.resource.name, "name": subject.name.name}


def _explanations(subject: _Subject, home: str, view: ClusterView, policy: GPUAdmissionPolicy) -> list[Explanation]:
    if subject.document is None:
        return []
    asked = questions(subject.document, home, view, policy, found=subject.name is not None)
    return [explain(each, view, policy) for each in asked]


def _headrooms(subject: _Subject, home: str, view: ClusterView, policy: GPUAdmissionPolicy) -> list[Headroom]:
    found = None if subject.document is None else headroom(subject.document, home, view, policy)
    return [] if found is None else [found]


EXPLANATIONS = AnswerForm(list[Explanation], "explain", _explanations, _with_own_events, "Explained")
HEADROOMS = AnswerForm(list[Headroom], "fit", _headrooms, lambda found, _subject, _asked: found, "Counted")
