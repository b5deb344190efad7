"""Explanations as data: where something fits, why not elsewhere, what to change; for an audience."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import Enum, StrEnum
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from policies.kubernetes.names import format_count, format_list, with_capital, with_full_stop
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.objects import lookup, mappings_at, name_of, namespace_of
from policies.kubernetes.resourceslices import device_fields
from policies.kubernetes.view import UNKNOWN, ClusterView
from policies.outcome import Certainty, DeviceOutcome, Feasibility, NodeGroup, Obstacle, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from policies.kubernetes.objects import Object
    from policies.outcome import Audience, Question
    from policies.rules.decision import Finding


class Change(StrEnum):
    """The kind of change that a suggestion proposes."""

    COUNT = "count"
    """Request fewer devices."""
    SELECTOR = "selector"
    """Leave out one condition of a selector, or change its bound."""
    CAPACITY = "capacity"
    """Request less of a capacity, or another capacity."""
    TOLERATION = "toleration"
    """Tolerate a taint of devices, or of nodes."""
    CONSTRAINT = "constraint"
    """Leave out a constraint."""
    WISH = "wish"
    """Change the bound of a wish, or drop the wish."""
    PREEMPTION = "preemption"
    """End pods of lower priority."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A change after which the question fits."""

    change: Change
    sentence: str
    """The change, which was tried with success; an imperative without a full stop: `request 4 devices instead of 8 in request gpu`."""
    claim: str
    """The name of the changed claim in the question; empty if the pod is changed."""
    request: str
    """The request, `gpu` or `gpu/large`; empty for constraints and the pod."""
    nodes: int
    """The number of nodes that fit then."""
    at_least: bool = False
    """True if not all nodes were tried."""
    only_if_empty: bool = False
    """True if it fits then only if nothing is in use; offered only if nothing else helps."""

    @property
    def outcome(self) -> str:
        """The effect of the change, a clause: `then it fits on 3 nodes`."""
        then = "then it would fit" if self.only_if_empty else "then it fits"
        where = f"on {'at least ' if self.at_least else ''}{format_count(self.nodes, 'node')}"
        return f"{then} {where}{' if nothing were in use' if self.only_if_empty else ''}"


@dataclass(frozen=True, slots=True)
class ReviewWarning:
    """A warning of review."""

    rule: str
    """The rule, `GA404`."""
    path: str
    message: str
    remedy: str
    administrator: str
    """The remedy for an administrator; empty if there is none."""
    text: str
    """Remedy, message and path as one sentence."""

    @classmethod
    def of(cls, finding: Finding) -> ReviewWarning:
        """The warning for a finding."""
        return cls(
            finding.rule.id, str(finding.path), finding.message, finding.remedy, finding.administrator, finding.text
        )

    def __str__(self) -> str:
        return f"{self.text} [{self.rule}]"


@dataclass(frozen=True, slots=True)
class Peers:
    """The pods of a workload, of which one is explained."""

    owner: str
    """Kind and name of the controller of the pods: `ReplicaSet web-5d8f`, or the workload itself."""
    pods: int
    """The number of pods that the workload should have at once, or that exist if only their controller is known."""
    bound: int
    """The number of them that have a node."""

    @property
    def waiting(self) -> int:
        """The number of pods without a node, or that do not exist yet."""
        return max(self.pods - self.bound, 0)


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of one question; `nodes` and `replicas` are null if they are unknown."""

    label: str
    """The label of the question."""
    verdict: Feasibility
    headline: str
    """The result in one sentence, without a full stop."""
    obstacles: tuple[Obstacle, ...] = ()
    """With BLOCKED and STUCK, and with UNKNOWN if facts are missing; the worst first. Nodes are not counted then. With
    SCHEDULED, the unhealthy devices of the pod or claim."""
    nodes: int | None = None
    """The number of all nodes; None if they are unknown or were not checked."""
    nodes_guessed: bool = False
    """True if the nodes are unknown and made up from the slices; only devices count then."""
    fit_now: int = 0
    fit_if_empty: int = 0
    unknown_nodes: int = 0
    """The number of nodes on which the search was given up."""
    replicas: int | None = None
    """The number of such pods or claims that fit now; None if it is unknown."""
    replicas_at_least: bool = False
    """True if counting was stopped, so that there may be more."""
    groups: tuple[NodeGroup, ...] = ()
    """Groups of alike nodes: those that fit first, then those that nearly fit, the largest first."""
    groups_left_out: int = 0
    """The number of groups that are not shown, and of their nodes."""
    nodes_left_out: int = 0
    suggestions: tuple[Suggestion, ...] = ()
    """The smallest changes that make it fit, if no node fits now."""
    converted_to: str = ""
    """The template that conversion creates for the pod; empty if it is not converted."""
    warnings: tuple[ReviewWarning, ...] = ()
    """Warnings of review about conversion and placement, if the pod is not stored yet."""
    remarks: tuple[str, ...] = ()
    """Assumptions and problems beside the result; sentences without a full stop."""
    certainty: Certainty = Certainty.SEEN
    """The certainty of the verdict; if it is unknown, the headline and the obstacles say why."""
    peers: Peers | None = None
    """For a pod of a workload, all of its pods; None if there is one, or their number is unknown."""

    @property
    def is_placed(self) -> bool:
        """True if at least one replica fits now, or is scheduled already."""
        return self.verdict in (Feasibility.FITS, Feasibility.SCHEDULED)


def fit_word(group: NodeGroup) -> str:
    """The answer for the nodes of a group: `yes`, `if empty`, `no` or `unknown`."""
    if group.certainty is Certainty.UNKNOWN:
        return "unknown"
    return "yes" if group.fits else "if empty" if group.fits_if_empty else "no"


def why_sentences(group: NodeGroup) -> tuple[str, ...]:
    """The reasons why the nodes of a group do not fit, or the GPUs that a pod gets there; in sentences."""
    if group.reason is None:
        gets, devices = format_list(group.gets) if group.gets else "", ", ".join(group.devices)
        what = f"{gets} ({devices})" if gets and devices else gets or devices
        return (f"It would get {what}.",) if what else ()
    others = (f"Also: {with_full_stop(each.sentence)}" for each in group.other_reasons)
    return (as_sentence(group.reason.sentence), *map(with_full_stop, group.reason.details), *others)


def left_out_sentence(explanation: Explanation) -> str:
    """The groups that are not shown; empty if all are."""
    if not explanation.groups_left_out:
        return ""
    groups = format_count(explanation.groups_left_out, "more group")
    return f"and {groups} with {format_count(explanation.nodes_left_out, 'node')}"


def replicas_text(explanation: Explanation) -> str:
    """The number of replicas that fit now: `3`, `100 or more`, `unknown`."""
    replicas = "unknown" if explanation.replicas is None else str(explanation.replicas)
    return f"{replicas} or more" if explanation.replicas_at_least else replicas


def obstacle_sentence(obstacle: Obstacle) -> str:
    """An obstacle with its remedy and rule."""
    rule = f" [{obstacle.rule}]" if obstacle.rule else ""
    remedy = f"; {obstacle.remedy}" if obstacle.remedy else ""
    return f"{obstacle.sentence}{remedy}{rule}"


def suggestion_sentence(suggestion: Suggestion) -> str:
    """A suggestion, and where it fits then."""
    return f"{with_capital(suggestion.sentence)}; {suggestion.outcome}"


def notes_of(explanation: Explanation) -> list[str]:
    """The remarks of an explanation as sentences."""
    converted = explanation.converted_to
    template = [f"conversion creates ResourceClaimTemplate {converted} for the GPUs of the pod"] if converted else []
    return [with_full_stop(note) for note in (*template, *explanation.remarks)]


def as_sentence(text: str) -> str:
    """A text with a capital and a full stop."""
    return with_full_stop(with_capital(text))


T = TypeVar("T")

_NODE = "<node>"
_OBJECT = "<object of another namespace>"
_RUN = re.compile(r"[A-Za-z0-9]+(?:[-./]+[A-Za-z0-9]+)*")
_SEPARATOR = re.compile(r"([-./]+)")
_NODES = re.compile(rf"{_NODE}(?:(?:, | and | or ){_NODE})+")
_OWN_KINDS = ("Pod", "ResourceClaim", "ResourceClaimTemplate", "GPUQuota")
"""The kinds of objects that the members of a namespace write, as far as a view keeps them."""
_PARTS = (Explanation, NodeGroup, DeviceOutcome, Reason, Suggestion, Obstacle, ReviewWarning, Peers)


class _Names(NamedTuple):
    """Names that may have to be hidden."""

    nodes: frozenset[str]
    """Of nodes, their host names, their ResourceSlices and their pools."""
    namespaces: frozenset[str]
    shown: frozenset[str] = frozenset()
    """References to objects of these namespaces that are shown all the same, such as `team-b/train`."""


def redacted_explanation(
    explanation: Explanation, question: Question, view: ClusterView, audience: Audience
) -> Explanation:
    """The explanation without the names of nodes and of objects in other namespaces.

    Names that the explained object contains stay: its author knows them, and hiding those that exist would tell which do. Of
    an object in another namespace the author must have written the namespace and the name.
    """
    shown: Explanation = _redaction(_documents(question), view, audience).of(explanation)
    return shown


def redactor(asked: Iterable[Question], view: ClusterView, audience: Audience) -> Callable[[str], str]:
    """Returns a function that hides the names in a text as `redacted_explanation` does for some questions."""
    return _redaction((each for question in asked for each in _documents(question)), view, audience).text


def name_redactor(view: ClusterView, audience: Audience) -> Callable[[str], str]:
    """Returns a function that hides the names in a text that an audience must not see.

    Names that the objects of the audience's namespace contain stay, as in explanations.
    """
    listed = (view.list(kind, audience.namespace) for kind in _OWN_KINDS)
    own = chain.from_iterable(objects for objects in listed if objects is not UNKNOWN)
    return _redaction(own if audience.namespace else (), view, audience).text


def _redaction(documents: Iterable[Object], view: ClusterView, audience: Audience) -> _Redaction:
    """The redaction of the names that an audience must not see, except those that these documents contain."""
    known = view.derive(_names)
    nodes = frozenset() if audience.sees_nodes else known.nodes
    namespaces = known.namespaces - {audience.namespace} if audience.namespace else frozenset()
    found = _Redaction(_Names(nodes, namespaces), audience.namespace)
    texts = (text for document in documents for text in _texts(_written_part(document)))
    own = {name for text in texts for name in found.names_in(text)}
    return _Redaction(_Names(nodes - own, namespaces, frozenset(own)), audience.namespace)


class _Redaction:
    """Replaces hidden names in texts."""

    def __init__(self, hidden: _Names, namespace: str) -> None:
        self._hidden = hidden
        self._own = f"{namespace}/" if namespace else ""

    def of(self, value: Any) -> Any:
        """A part of an explanation with all its texts redacted."""
        match value:
            case Enum():
                return value
            case str():
                return self.text(value)
            case list() | tuple() if type(value) in (list, tuple):
                return type(value)(map(self.of, value))
            case Mapping():
                return {key: self.of(each) for key, each in value.items()}
            case _ if isinstance(value, _PARTS):
                return replace(value, **{each.name: self.of(getattr(value, each.name)) for each in fields(value)})
        return value

    def names_in(self, text: str) -> Iterator[str]:
        """The hidden names in a text; of objects with their namespaces."""
        for run in _RUN.finditer(text):
            for name, replacement in self._pieces(run[0]):
                if replacement:
                    yield name

    def text(self, text: str) -> str:
        """A text without hidden names."""
        replaced = _RUN.sub(lambda run: "".join(other or piece for piece, other in self._pieces(run[0])), text)
        return _NODES.sub(lambda found: f"<{found[0].count(_NODE)} nodes>", replaced)

    def _pieces(self, run: str) -> Iterator[tuple[str, str]]:
        """The pieces of a run of words, each with its replacement; empty if it stays.

        A name is found at the ends of words only, so that `node-1` is not found in `node-10`.
        """
        if self._own and run.startswith(self._own):
            yield run, ""
            return
        words = _SEPARATOR.split(run)
        start = 0
        while start < len(words):
            end, name, replacement = self._longest_name(words, start)
            yield name, replacement
            if replacement == _OBJECT:
                return
            if end < len(words):
                yield words[end], ""
            start = end + 1

    def _longest_name(self, words: list[str], start: int) -> tuple[int, str, str]:
        """The end of the longest hidden name that begins here, the name, and its replacement; or one word."""
        for end in range(len(words) if len(words) % 2 else len(words) - 1, start, -2):
            name = "".join(words[start:end])
            if name in self._hidden.nodes:
                return end, name, _NODE
            if name in self._hidden.namespaces and words[end : end + 1] == ["/"]:
                whole = "".join(words[start:])
                return (len(words), whole, "" if whole in self._hidden.shown else _OBJECT)
        return start + 1, words[start], ""


def _names(view: ClusterView) -> _Names:
    """The names of all nodes and namespaces; call it as `view.derive(_names)`."""
    nodes = chain(*_list_each(view, "Node", _names_of_node), *_list_each(view, "ResourceSlice", _names_in_slice))
    in_use = (_list_each(view, kind, namespace_of) for kind in ("Pod", "ResourceClaim"))
    namespaces = chain(_list_each(view, "Namespace", name_of), *in_use)
    return _Names(frozenset(nodes) - {""}, frozenset(namespaces) - {""})


def _list_each(view: ClusterView, kind: str, function: Callable[[Object], T]) -> Sequence[T]:
    found = view.derive_each(kind, function)
    return () if found is UNKNOWN else found


def _names_of_node(node: Object) -> tuple[str, ...]:
    return name_of(node), str(labels_of(node).get("kubernetes.io/hostname") or "")


def _names_in_slice(document: Object) -> tuple[str, ...]:
    """The names of a ResourceSlice, of the nodes that it names, and of a pool that belongs to one node."""
    spec = lookup(document, ("spec",))
    devices = (device_fields(each) for each in mappings_at(document, ("spec", "devices")))
    named = [str(node) for each in (spec, *devices) if (node := lookup(each, ("nodeName",)))]
    # A pool that several nodes can reach has its own name, which is part of the names of its devices.
    pool = str(lookup(spec, ("pool", "name")) or "") if named else ""
    return (name_of(document), pool, *named)


def _documents(question: Question) -> Iterator[Object]:
    """The explained object and its claims."""
    claims = (each.claim.document for each in (*question.claims, *question.allocated))
    for document in (question.pod.document if question.pod else None, question.written, *claims):
        if document is not None:
            yield document


def _written_part(document: Object) -> Object:
    """The part of an object that its author wrote: no status, and not the node that was chosen."""
    spec = document.get("spec")
    written = {key: value for key, value in spec.items() if key != "nodeName"} if isinstance(spec, dict) else {}
    return {"metadata": document.get("metadata"), "spec": written}


def _texts(value: Any) -> Iterator[str]:
    """All strings of JSON values, keys included."""
    match value:
        case str():
            yield value
        case Mapping():
            for key, each in value.items():
                yield from _texts(key)
                yield from _texts(each)
        case list():
            for each in value:
                yield from _texts(each)
