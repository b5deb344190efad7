"""Requirements: the GPU labels that a pod's node selector and required affinity demand of its node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from policies.fleet.gpu_nodes import narrows_gpus
from policies.kubernetes.node_requirements import NodeRequirement, term_requirements
from policies.kubernetes.nodes import MOST_EXPRESSIONS, MOST_VALUES, REQUIRED, SelectionSize, required_terms
from policies.kubernetes.paths import lookup

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from policies.kubernetes.node_requirements import Alternatives

__all__ = ["LabelRequirements"]

_MOST_NAMED = 64
"""The most values of a label that a pod may list; with more, the list is ignored."""


@dataclass(frozen=True, slots=True)
class LabelRequirements:
    """Conditions on the labels of GPU Feature Discovery; other labels do not change the possible GPUs."""

    alternatives: Alternatives

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> LabelRequirements:
        """The requirements of a pod on its node.

        A pod whose requirements no node can ever meet is read as if it had none: if this reading differed from the
        scheduler's, a running pod would count as nothing. So is a pod with too many requirements to evaluate in time: it
        is charged the most.

        Source: k8s.io/component-helpers/scheduling/corev1/nodeaffinity.
        """
        size = SelectionSize.of(spec)
        if size.labels + size.terms + size.expressions > MOST_EXPRESSIONS or size.values > MOST_VALUES:
            return cls(((),))
        selector = spec.get("nodeSelector") or {}
        common = tuple(NodeRequirement(key, "In", (value,)) for key, value in selector.items() if narrows_gpus(key))
        if not lookup(spec, REQUIRED):
            return cls((common,))
        branches = dict.fromkeys((*common, *branch) for branch in _branches(spec))
        return cls(tuple(branches) or ((),))

    @property
    def is_anything(self) -> bool:
        """True if every node meets them."""
        return () in self.alternatives

    def allow(self, labels: Mapping[str, str]) -> bool:
        """True if a node with these labels meets them."""
        return any(all(each.holds(labels) for each in branch) for branch in self.alternatives)

    def values(self, keys: Collection[str]) -> frozenset[str] | None:
        """The values that one of the labels must have on a matching node; None if any value is allowed."""
        found: set[str] = set()
        for branch in self.alternatives:
            values = _values(branch, keys)
            if values is None:
                return None
            found |= values
        return frozenset(found) if 0 < len(found) <= _MOST_NAMED else None


def _values(branch: tuple[NodeRequirement, ...], keys: Collection[str]) -> set[str] | None:
    for key in keys:
        of_key = [each for each in branch if each.key == key]
        listed = [each.values for each in of_key if each.operator == "In"]
        if listed:
            return {value for value in listed[0] if all(each.holds({key: value}) for each in of_key)}
    return None


def _branches(spec: Mapping[str, Any]) -> Iterator[tuple[NodeRequirement, ...]]:
    """The conditions of each term on GPU labels; terms that match no node are left out."""
    for requirements in map(term_requirements, required_terms(spec)):
        if requirements is not None:
            yield tuple(each for each in requirements if narrows_gpus(each.key))
