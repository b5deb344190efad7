"""Nodes, before their devices are looked at: which of them are out, in the order of Kubernetes' scheduler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from policies.dra.allocation.errors import AllocationError
from policies.dra.allocation.node_selectors import TargetNode
from policies.dra.allocation.slices import NodeSelection
from policies.explanation.problem import NO_RESOURCES
from policies.explanation.report import ReasonKind
from policies.kubernetes.amounts import billionths
from policies.kubernetes.nodes import NodeIndex, labels_of
from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import lookup
from policies.kubernetes.taints import tolerates_taint

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence

    from policies.explanation.cluster import Taken
    from policies.explanation.question import Question
    from policies.kubernetes.objects import Object

__all__ = ["Miss", "NodeChecks", "Shortage", "Taint"]

_UNSCHEDULABLE = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
_PREVENTING = ("NoSchedule", "NoExecute")
_ALWAYS_OFFERED = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})
"""Of these a node in a file may say nothing because nobody wrote it down; of all others that means that it has none."""


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a node that the pod does not tolerate."""

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        """As kubectl writes it."""
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


@dataclass(frozen=True, slots=True)
class Shortage:
    """A resource of which a node has less than asked for, in billionths."""

    resource: str
    asked: int
    left: int
    allocatable: int

    @property
    def for_ever(self) -> bool:
        """Whether it would not suffice on an empty node either."""
        return self.asked > self.allocatable


@dataclass(frozen=True, slots=True)
class Miss:
    """Why one node is out."""

    kind: ReasonKind
    key: Hashable = ""
    """Equal for nodes to which one sentence applies: the taint, the selector's label, the resource, the claim."""
    shortage: Shortage | None = None


class NodeChecks:
    """The checks of one question, asked about a node by its position among all nodes."""

    def __init__(
        self,
        question: Question,
        nodes: Sequence[Object],
        taken: Taken | None,
        by_claims: Collection[str],
    ) -> None:
        """Args: the question, all nodes, what pods take of them if that counts, resources that claims can serve."""
        self._question = question
        self._nodes = nodes
        self._taken_of = taken.of if taken else _nothing_of
        self._by_claims = by_claims
        self._spec = question.pod.spec if question.pod else {}
        self._selected = NodeIndex(nodes).selected(self._spec) if question.pod else -1
        self._tolerations = [each for each in self._spec.get("tolerations") or [] if isinstance(each, dict)]
        self._tolerated: dict[Taint, bool] = {}

    def miss(self, position: int) -> Miss | None:
        """The first reason why a node is out; None where only its devices are left to be asked about."""
        node = self._nodes[position]
        return (
            self._cordoned(node)
            or self._tainted(node)
            or self._unselected(node, position)
            or self._short(node)
            or self._claims_elsewhere(node)
        )

    def served_by_claims(self, position: int) -> frozenset[str]:
        """The pod's extended resources of which the node's kubelet offers none, so that a claim serves them there."""
        if not self._by_claims:
            return NO_RESOURCES
        node = self._nodes[position]
        return frozenset(name for name in self._by_claims if not self._allocatable(node, name))

    def room(self, position: int) -> int | None:
        """How many pods like this the node's own resources have room for; None without a limit."""
        node = self._nodes[position]
        rooms = [
            max(0, allocatable - self._taken(node, name)) // asked
            for name, asked in self._asked(node)
            if (allocatable := self._allocatable(node, name)) is not None
        ]
        return min(rooms, default=None)

    def _cordoned(self, node: Object) -> Miss | None:
        if lookup(node, ("spec", "unschedulable")) is True and not tolerates_taint(self._tolerations, _UNSCHEDULABLE):
            return Miss(ReasonKind.CORDONED)
        return None

    def _tainted(self, node: Object) -> Miss | None:
        if self._question.pod is None:
            return None
        untolerated = next((taint for taint in self._taints(node) if not self._tolerates(taint)), None)
        return None if untolerated is None else Miss(ReasonKind.TAINT, untolerated)

    def _taints(self, node: Object) -> Iterable[Taint]:
        """The taints that keep pods away; that of a cordoned node is told as such."""
        taints: Any = lookup(node, ("spec", "taints"))
        for taint in taints if isinstance(taints, list) else []:
            if isinstance(taint, dict) and taint.get("effect") in _PREVENTING:
                if taint.get("key") == _UNSCHEDULABLE["key"] and lookup(node, ("spec", "unschedulable")) is True:
                    continue
                yield Taint(str(taint.get("key") or ""), str(taint.get("value") or ""), str(taint["effect"]))

    def _tolerates(self, taint: Taint) -> bool:
        if taint not in self._tolerated:
            written = {"key": taint.key, "value": taint.value, "effect": taint.effect}
            self._tolerated[taint] = tolerates_taint(self._tolerations, written)
        return self._tolerated[taint]

    def _unselected(self, node: Object, position: int) -> Miss | None:
        if self._selected >> position & 1:
            return None
        labels = labels_of(node)
        selector = self._spec.get("nodeSelector") or {}
        wrong = next((key for key, value in selector.items() if labels.get(key) != value), "")
        return Miss(ReasonKind.NODE_SELECTOR, wrong)

    def _short(self, node: Object) -> Miss | None:
        for name, asked in self._asked(node):
            allocatable = self._allocatable(node, name)
            if allocatable is None:
                continue
            left = allocatable - self._taken(node, name)
            if asked > left:
                shortage = Shortage(name, asked, max(0, left), allocatable)
                return Miss(ReasonKind.RESOURCES, (name, shortage.for_ever), shortage)
        return None

    def _asked(self, node: Object) -> Iterable[tuple[str, int]]:
        """What is asked of the node itself: extended resources first, since these are what is scarce."""
        asked = sorted(self._question.resources.items(), key=_extended_first)
        return [
            (name, amount) for name, amount in asked if name not in self._by_claims or self._allocatable(node, name)
        ]

    @staticmethod
    def _allocatable(node: Object, resource: str) -> int | None:
        offered = lookup(node, ("status", "allocatable"))
        if resource in _ALWAYS_OFFERED and (not isinstance(offered, dict) or resource not in offered):
            return None
        return billionths(offered.get(resource)) if isinstance(offered, dict) else 0

    def _taken(self, node: Object, resource: str) -> int:
        return self._taken_of(name_of(node)).get(resource, 0)

    def _claims_elsewhere(self, node: Object) -> Miss | None:
        for claim in self._question.allocated:
            selector = lookup(claim.claim, ("status", "allocation", "nodeSelector"))
            if isinstance(selector, dict) and not _matches(node, selector):
                return Miss(ReasonKind.CLAIM_ELSEWHERE, claim.name)
        return None


def _nothing_of(node: str) -> Mapping[str, int]:
    """What is taken of a node of an empty cluster."""
    return {}


def _matches(node: Object, selector: Mapping[str, Any]) -> bool:
    """Whether a node matches an allocation's selector; one that is none matches nothing."""
    try:
        return TargetNode(node).matches(NodeSelection(selector=selector))
    except AllocationError:
        return False


def _extended_first(item: tuple[str, int]) -> tuple[bool, str]:
    return "/" not in item[0], item[0]
