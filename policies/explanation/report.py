"""The answer: whether it fits, where, why not elsewhere, and what to change."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.decision import Finding
    from policies.explanation.question import Obstacle

__all__ = ["Change", "Explanation", "Feasibility", "NodeGroup", "Reason", "ReasonKind", "Suggestion"]


class Feasibility(StrEnum):
    """What an explanation comes to."""

    FITS = "fits"
    """Some node fits now."""
    FULL = "full"
    """No node fits now, some would if nothing were in use."""
    IMPOSSIBLE = "impossible"
    """No node fits, even if nothing were in use."""
    BLOCKED = "blocked"
    """Something stands in the way whichever node is taken; see `obstacles`."""
    UNKNOWN = "unknown"
    """It cannot be told: facts are missing (see `obstacles`), or the search was given up on nodes that may fit."""
    SCHEDULED = "scheduled"
    """The pod has a node, or the claim its devices, already."""


class ReasonKind(StrEnum):
    """Why a node is out, in the order in which it is looked for."""

    CORDONED = "cordoned"
    TAINT = "taint"
    NODE_SELECTOR = "node selector"
    RESOURCES = "resources"
    """Of a resource of the node (`cpu`, `nvidia.com/gpu`), less is left than asked for."""
    CLAIM_ELSEWHERE = "claim elsewhere"
    """A claim has its devices already, and they cannot be reached from here."""
    NO_DEVICES = "no devices"
    """The node sees no devices at all."""
    POOL = "pool"
    """A pool is incomplete, invalid, or about to be replaced."""
    DEVICES = "devices"
    """Fewer devices can serve a request than it asks for; the details say why the others cannot."""
    COMBINATION = "combination"
    """Each request could be served alone, but not all together."""
    CONSTRAINT = "constraint"
    """The devices do not satisfy a constraint together."""
    GAVE_UP = "gave up"
    """Whether the node fits is unknown: there are too many combinations to try."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a group of nodes is out."""

    kind: ReasonKind
    sentence: str
    """For people, in plain words with numbers and names; without a full stop."""
    details: tuple[str, ...] = ()
    """More sentences, one for each kind of devices: who holds them, what they lack; without full stops. They are about
    the first node of the group; on its other nodes the devices and their holders may have other names."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """The same as data. TAINT: `key`, `value`, `effect`. RESOURCES: `resource`, `asked`, `left`, `allocatable`
    (quantities as text). CLAIM_ELSEWHERE: `claim`. POOL: `pool`, `state`, `found`, `expected`. DEVICES: `claim`,
    `request`, `asked`, `usable`, and `rejected`, a list of `devices`, `reason`, `count`. CONSTRAINT: `claim`, `constraint`."""

    def as_json(self) -> dict[str, Any]:
        """As plain data: `kind`, `sentence`, `details`, `facts`."""
        return {
            "kind": str(self.kind),
            "sentence": self.sentence,
            "details": list(self.details),
            "facts": dict(self.facts),
        }


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes to which the same sentences apply."""

    count: int
    nodes: tuple[str, ...]
    """The names of the first of them, in the order of the cluster; `count` says how many there are."""
    fits: bool
    """Whether it fits on each of them now."""
    fits_if_empty: bool
    """Whether it would if nothing were in use there."""
    reason: Reason | None = None
    """The first thing that stops them; None where it fits."""
    devices: tuple[str, ...] = ()
    """What it would get on the first of them, each as `request: gpu-0..gpu-3`; only where it fits."""

    def as_json(self) -> dict[str, Any]:
        """As plain data: `count`, `nodes`, `fits`, `fitsIfEmpty`, `reason` (null where it fits), `devices`."""
        return {
            "count": self.count,
            "nodes": list(self.nodes),
            "fits": self.fits,
            "fitsIfEmpty": self.fits_if_empty,
            "reason": None if self.reason is None else self.reason.as_json(),
            "devices": list(self.devices),
        }


class Change(StrEnum):
    """What a suggestion changes."""

    COUNT = "count"
    """Ask for fewer devices."""
    SELECTOR = "selector"
    """Leave out one condition of one selector, or move its bound."""
    CAPACITY = "capacity"
    """Ask for less of a capacity, or for another one."""
    TOLERATION = "toleration"
    """Tolerate a taint of devices, or of nodes."""
    CONSTRAINT = "constraint"
    """Leave out a constraint."""
    WISH = "wish"
    """Move the bound of a wish, or drop it."""
    PREEMPTION = "preemption"
    """End pods of lower priority, which the scheduler does not do by itself."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One change after which it fits; tried out, not guessed."""

    change: Change
    sentence: str
    """What to change, an imperative without a full stop: `ask for 4 devices instead of 8 in request gpu`."""
    claim: str
    """The name by which the question calls the claim; empty where the pod itself is to be changed."""
    request: str
    """The request, `gpu` or `gpu/large`; empty for constraints and the pod."""
    nodes: int
    """How many nodes fit then."""
    at_least: bool = False
    """Whether there may be more nodes: not all were tried."""
    only_if_empty: bool = False
    """Whether it fits then only once nothing is in use; such are offered where nothing else helps."""

    def as_json(self) -> dict[str, Any]:
        """As plain data: `change`, `sentence`, `claim`, `request`, `nodes`, `atLeast`, `onlyIfEmpty`."""
        return {
            "change": str(self.change),
            "sentence": self.sentence,
            "claim": self.claim,
            "request": self.request,
            "nodes": self.nodes,
            "atLeast": self.at_least,
            "onlyIfEmpty": self.only_if_empty,
        }


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer to one question, as data."""

    label: str
    """Of the question."""
    verdict: Feasibility
    headline: str
    """The answer in one sentence, without a full stop."""
    obstacles: tuple[Obstacle, ...] = ()
    """With BLOCKED, and with UNKNOWN where facts are missing; the worst first. Nodes are not counted then."""
    nodes: int | None = None
    """Nodes in all; None where none are known, or none were looked at."""
    nodes_guessed: bool = False
    """Whether nodes are unknown and were made up from the slices: then only devices count, neither taints nor labels."""
    fit_now: int = 0
    fit_if_empty: int = 0
    unknown_nodes: int = 0
    """Nodes on which the search was given up."""
    replicas: int | None = None
    """How many pods (or claims) like this fit now, placed one after the other; None where nobody can say."""
    replicas_at_least: bool = False
    """Whether there may be more: counting was stopped."""
    groups: tuple[NodeGroup, ...] = ()
    """Groups of like nodes: those that fit first, then the nearest misses and the largest."""
    groups_left_out: int = 0
    """Groups that are not told, and how many nodes they hold."""
    nodes_left_out: int = 0
    suggestions: tuple[Suggestion, ...] = ()
    """Smallest changes that make it fit, where no node fits now."""
    converted_to: str = ""
    """The template that conversion makes for the pod; empty where it is not converted."""
    warnings: tuple[Finding, ...] = ()
    """What review warns about where the pod's GPUs come from, where it is not stored yet."""
    remarks: tuple[str, ...] = ()
    """What the answer leaves out or takes for granted: facts that are unknown; sentences without a full stop."""

    @property
    def is_placed(self) -> bool:
        """True if at least one replica fits now, or is scheduled already."""
        return self.verdict in (Feasibility.FITS, Feasibility.SCHEDULED)

    def as_json(self) -> dict[str, Any]:
        """As plain data with stable names.

        `label`, `verdict`, `headline`, `obstacles` (see Obstacle), `nodes` (null where unknown), `nodesGuessed`,
        `fitNow`, `fitIfEmpty`, `unknownNodes`, `replicas` (null where unknown), `replicasAtLeast`, `groups` (see
        NodeGroup), `groupsLeftOut`, `nodesLeftOut`, `suggestions` (see Suggestion), `convertedTo`, `warnings` (each
        `rule`, `path`, `message`, `remedy`), `remarks`.
        """
        return {
            "label": self.label,
            "verdict": str(self.verdict),
            "headline": self.headline,
            "obstacles": [obstacle.as_json() for obstacle in self.obstacles],
            "nodes": self.nodes,
            "nodesGuessed": self.nodes_guessed,
            "fitNow": self.fit_now,
            "fitIfEmpty": self.fit_if_empty,
            "unknownNodes": self.unknown_nodes,
            "replicas": self.replicas,
            "replicasAtLeast": self.replicas_at_least,
            "groups": [group.as_json() for group in self.groups],
            "groupsLeftOut": self.groups_left_out,
            "nodesLeftOut": self.nodes_left_out,
            "suggestions": [suggestion.as_json() for suggestion in self.suggestions],
            "convertedTo": self.converted_to,
            "warnings": [_warning(finding) for finding in self.warnings],
            "remarks": list(self.remarks),
        }


def _warning(finding: Finding) -> dict[str, str]:
    return {
        "rule": finding.rule.id,
        "path": str(finding.path),
        "message": finding.message,
        "remedy": finding.remedy,
    }
