"""Nodes: selected by a node selector and a required node affinity; taints that pods tolerate."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, reduce
from itertools import accumulate
from operator import or_
from typing import TYPE_CHECKING, Any, Self

from policies.kubernetes.objects import lookup, mappings_at
from policies.kubernetes.quantities import parse_integer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from policies.kubernetes.objects import Object


_TEXT = frozenset({str})

REQUIRED = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")


def required_terms(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The terms of the required node affinity in a pod's spec; empty if it has none."""
    return lookup(spec, (*REQUIRED, "nodeSelectorTerms")) or []


def labels_of(node: Object) -> Mapping[str, str]:
    """A node's labels, without values of hand-written nodes that are numbers or booleans."""
    labels = lookup(node, ("metadata", "labels"))
    if not isinstance(labels, dict):
        return {}
    if _TEXT.issuperset(map(type, labels.values())):
        return labels
    return {key: value for key, value in labels.items() if isinstance(value, str)}


def allocatable(node: Object, resource: str) -> str:
    """The amount of an extended resource that the kubelet offers, as text; "0" if it offers none."""
    return str(lookup(node, ("status", "allocatable", resource)) or "0")


class NodeIndex:
    """Many nodes, asked all at once which of them a pod may run on.

    A set of nodes is an integer with a bit for each of them, the first node the lowest: sets of 5,000 nodes are united
    in a tenth of a microsecond. So an answer takes as long as the pod's selectors are, however many nodes there are.
    """

    def __init__(self, nodes: Iterable[Object]) -> None:
        self._read((lookup(node, ("metadata", "name")) or "", labels_of(node)) for node in nodes)

    @classmethod
    def of(cls, nodes: Iterable[tuple[str, Mapping[str, str]]]) -> Self:
        """The index of nodes whose names and labels have been read."""
        made = cls(())
        made._read(nodes)
        return made

    def _read(self, nodes: Iterable[tuple[str, Mapping[str, str]]]) -> None:
        named = [*nodes]
        self._all = (1 << len(named)) - 1
        self._names_in_order = [name for name, _ in named]
        self._nodes = [labels for _, labels in named]
        self._keys = frozenset[str]().union(*self._nodes)
        self._labels: dict[str, _Label] = {}

    @cached_property
    def _names(self) -> _Label:
        return _Label(self._names_in_order)

    def select(self, spec: Mapping[str, Any]) -> int:
        """The nodes that a pod's node selector and required node affinity let it run on.

        Source: k8s.io/component-helpers/scheduling/corev1/nodeaffinity: terms are OR-ed, expressions within a term
        AND-ed, a term without any expression matches nothing, nor does one with an expression that is none.
        """
        selected = self._all
        for key, value in (spec.get("nodeSelector") or {}).items():
            selected &= self._label(key).among([value])
        if lookup(spec, REQUIRED) is not None:
            selected &= _union(map(self._by_term, required_terms(spec)))
        return selected

    def _by_term(self, term: Mapping[str, Any]) -> int:
        expressions, field_expressions = term.get("matchExpressions") or [], term.get("matchFields") or []
        selected = self._all if expressions or field_expressions else 0
        for expression in expressions:
            selected &= self._by_expression(expression)
        for expression in field_expressions:
            selected &= self._by_field(expression)
        return selected

    def _by_expression(self, expression: Mapping[str, Any]) -> int:
        """The nodes whose labels satisfy one expression of a term.

        An expression that is none matches nothing: an unknown operator, `In` or `NotIn` without values, `Exists` or
        `DoesNotExist` with values, `Gt` or `Lt` with anything but one whole number.

        Source: k8s.io/apimachinery/pkg/labels NewRequirement, Requirement.Matches.
        """
        label, values = self._label(expression.get("key") or ""), expression.get("values") or []
        match expression.get("operator"):
            case "In":
                return label.among(values)
            case "NotIn" if values:
                return self._all & ~label.among(values)
            case "Exists" if not values:
                return label.present
            case "DoesNotExist" if not values:
                return self._all & ~label.present
            case "Gt" if len(values) == 1:
                return label.above(values[0])
            case "Lt" if len(values) == 1:
                return label.below(values[0])
            case _:
                return 0

    def _by_field(self, expression: Mapping[str, Any]) -> int:
        """`matchFields` has two operators, each takes one value, and every field but the name is empty."""
        operator, values = expression.get("operator"), expression.get("values") or []
        if operator not in ("In", "NotIn") or len(values) != 1:
            return 0
        empty = self._all if values == [""] else 0
        equal = self._names.among(values) if expression.get("key") == "metadata.name" else empty
        return equal if operator == "In" else self._all & ~equal

    def _label(self, key: str) -> _Label:
        if key not in self._keys:
            return _Label([])
        if key not in self._labels:
            self._labels[key] = _Label(labels.get(key) for labels in self._nodes)
        return self._labels[key]


class _Label:
    """The values of one label over many nodes, None where a node does not have it."""

    def __init__(self, values: Iterable[str | None]) -> None:
        self._nodes: dict[str, int] = {}
        for position, value in enumerate(values):
            if value is not None:
                self._nodes[value] = self._nodes.get(value, 0) | 1 << position

    @cached_property
    def present(self) -> int:
        """The nodes that have the label."""
        return _union(self._nodes.values())

    def among(self, values: Iterable[str]) -> int:
        """The nodes where the label has one of the values."""
        return _union(self._nodes.get(value, 0) for value in values)

    def above(self, bound: str) -> int:
        """The nodes where the label is a number greater than another."""
        number = parse_integer(bound)
        numbers, smaller = self._ordered
        return 0 if number is None else smaller[-1] & ~smaller[bisect_right(numbers, number)]

    def below(self, bound: str) -> int:
        """The nodes where the label is a number less than another."""
        number = parse_integer(bound)
        numbers, smaller = self._ordered
        return 0 if number is None else smaller[bisect_left(numbers, number)]

    @cached_property
    def _ordered(self) -> tuple[list[int], list[int]]:
        """The numeric values in their order, and for each the nodes before it; at the end, all of these nodes."""
        pairs = sorted(
            (number, nodes) for value, nodes in self._nodes.items() if (number := parse_integer(value)) is not None
        )
        return [number for number, _ in pairs], list(accumulate((nodes for _, nodes in pairs), or_, initial=0))


def _union(sets: Iterable[int]) -> int:
    return reduce(or_, sets, 0)


MOST_EXPRESSIONS = 1_000
"""Expressions of the required node affinity, its terms, and labels of the node selector, that are judged in time."""
MOST_VALUES = 10_000
"""Values in these expressions."""


@dataclass(frozen=True, slots=True)
class SelectionSize:
    """The size that decides how long a selection takes; the API server lets megabytes pass."""

    labels: int
    """Of the node selector."""
    terms: int
    """Of the required node affinity."""
    expressions: int
    values: int

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> SelectionSize:
        """Count, in a pod's spec."""
        terms = required_terms(spec)
        expressions = [
            item for term in terms for field in ("matchExpressions", "matchFields") for item in term.get(field) or []
        ]
        values = sum(len(item.get("values") or []) for item in expressions)
        return cls(len(spec.get("nodeSelector") or {}), len(terms), len(expressions), values)


UNSCHEDULABLE = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
"""The taint of a cordoned node."""
_PREVENTING = ("NoSchedule", "NoExecute")
_NOT_READY = {
    "node.kubernetes.io/not-ready": "the node is not ready",
    "node.kubernetes.io/unreachable": "the node is unreachable",
}
_CONDITIONS = {
    **_NOT_READY,
    "node.kubernetes.io/memory-pressure": "the node is short of memory",
    "node.kubernetes.io/disk-pressure": "the node is short of disk space",
    "node.kubernetes.io/pid-pressure": "the node is short of process ids",
    "node.kubernetes.io/network-unavailable": "the node has no network yet",
}


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a node or a device that keeps pods away, except those that tolerate it."""

    key: str
    value: str
    effect: str

    @classmethod
    def read(cls, taint: Mapping[str, object]) -> Self:
        """A taint as the API has it; a field that is missing is empty."""
        return cls(*(str(taint.get(field) or "") for field in ("key", "value", "effect")))

    def __str__(self) -> str:
        """As kubectl writes it."""
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"

    @property
    def condition(self) -> str:
        """The state of the node that the taint stands for, as a clause; empty for all other taints."""
        return _CONDITIONS.get(self.key, "")


def is_cordoned(node: Object) -> bool:
    """True if `kubectl cordon` keeps new pods off a node."""
    return lookup(node, ("spec", "unschedulable")) is True


def is_ready(node: Object) -> bool:
    """False if the condition of the node or a taint says that its kubelet is not ready or not heard of.

    The service watches nodes without their conditions, which change with every heartbeat; the taints say the same.
    """
    conditions = mappings_at(node, ("status", "conditions"))
    return all(each.get("status") == "True" for each in conditions if each.get("type") == "Ready") and not any(
        taint.key in _NOT_READY for taint in preventing_taints(node)
    )


def preventing_taints(node: Object) -> Iterator[Taint]:
    """The taints that repel pods, without the taint of a cordoned node."""
    for taint in mappings_at(node, ("spec", "taints")):
        if taint.get("effect") in _PREVENTING:
            if taint.get("key") == UNSCHEDULABLE["key"] and is_cordoned(node):
                continue
            yield Taint.read(taint)


def tolerates_key(tolerations: Iterable[dict[str, Any]], key: str, effect: str) -> bool:
    """True if a taint with this key and effect is tolerated, whatever its value.

    A toleration with `operator: Exists` does, for its key or, with an empty key, for all; an empty effect stands for
    every effect. One with `Equal` tolerates one value only, and a taint's value is the administrator's choice.

    Source: k8s.io/api/core/v1/toleration.go ToleratesTaint.
    """
    return any(
        toleration.get("operator") == "Exists"
        and toleration.get("key") in (None, "", key)
        and toleration.get("effect") in (None, "", effect)
        for toleration in tolerations
    )


def tolerates_taint(tolerations: Iterable[dict[str, Any]], taint: dict[str, Any]) -> bool:
    """True if the taint is tolerated, with its value.

    Source: k8s.io/api/core/v1/toleration.go ToleratesTaint.
    """
    return any(
        toleration.get("effect") in (None, "", taint.get("effect"))
        and (toleration.get("key") or "") in ("", taint.get("key"))
        and (
            toleration.get("operator") == "Exists"
            or (toleration.get("value") or "") == (taint.get("value") or "")
            or toleration.get("operator") not in (None, "", "Equal")
        )
        for toleration in tolerations
    )


class NodeTaint(Enum):
    """A state or role of a node that a taint describes."""

    CONDITION = "not ready, cordoned, or short of something"
    CLOUD = "not set up by its cloud yet, or shut down"
    ROLE = "set apart for a role"
    AUTOSCALED = "about to be started or removed by an autoscaler"
    STARTING = "not set up yet"
    PAUSED = "takes no pods for a while"
    NETWORK = "without a network yet"

    @property
    def passes(self) -> bool:
        """True if the taint disappears by itself during the life of the node; a role stays."""
        return self is not NodeTaint.ROLE


_BY_BEGINNING = {
    "node.kubernetes.io/": NodeTaint.CONDITION,
    "node.cloudprovider.kubernetes.io/": NodeTaint.CLOUD,
    "node-role.kubernetes.io/": NodeTaint.ROLE,
    "karpenter.sh/": NodeTaint.AUTOSCALED,
    "ToBeDeletedByClusterAutoscaler": NodeTaint.AUTOSCALED,
    "DeletionCandidateOfClusterAutoscaler": NodeTaint.AUTOSCALED,
    "startup-taint.cluster-autoscaler.kubernetes.io/": NodeTaint.STARTING,
    "ignore-taint.cluster-autoscaler.kubernetes.io/": NodeTaint.STARTING,
    "status-taint.cluster-autoscaler.kubernetes.io/": NodeTaint.PAUSED,
    "node.cilium.io/agent-not-ready": NodeTaint.NETWORK,
}
"""Source: https://kubernetes.io/docs/reference/labels-annotations-taints/, github.com/kubernetes/autoscaler
cluster-autoscaler/utils/taints, karpenter.sh/docs/concepts/disruption, github.com/cilium/cilium
Documentation/installation/taints.rst."""


def node_taint(key: str) -> NodeTaint | None:
    """The state or role of a node that the taint with this key describes; None for all other taints."""
    return next((kind for beginning, kind in _BY_BEGINNING.items() if key.startswith(beginning)), None)
