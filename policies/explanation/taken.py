"""What pods take of nodes, as one explanation counts it."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from policies.explanation.cluster import used_amounts
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from policies.kubernetes.amounts import Amounts
    from policies.view import ClusterView

__all__ = ["Taken"]


class Taken:
    """What all pods take of each node: those that the view lists, and those that it does not show.

    What the others take is asked for node by node, when a node is first looked at, and stays so for this explanation.
    """

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._listed = view.derive(used_amounts)
        self._of: dict[str, Mapping[str, int]] = {}
        self.others_known = True
        """Whether the pods that the view does not list were counted on all nodes that were asked about."""

    @property
    def pods_known(self) -> bool:
        """Whether anything is known of pods; otherwise nodes count as empty."""
        return self._listed is not None

    def of(self, node: str) -> Mapping[str, int]:
        """What is taken of a node, in billionths by resource."""
        taken = self._of.get(node)
        if taken is None:
            taken = self._of[node] = self._together(node)
        return taken

    def without(self, node: str, ended: Iterable[Amounts]) -> Taken:
        """The same as if pods with these amounts had left a node."""
        left = dict(self.of(node))
        for amounts in ended:
            for name, amount in amounts:
                left[name] = left.get(name, 0) - amount
        others = copy(self)
        others._of = {**self._of, node: left}  # noqa: SLF001 - of the same class
        return others

    def _together(self, node: str) -> Mapping[str, int]:
        if self._listed is None:
            return {}
        listed, others = self._listed.get(node, {}), self._view.others_on(node)
        if others is UNKNOWN:
            self.others_known = False
            return listed
        if not others:
            return listed
        return {name: listed.get(name, 0) + others.get(name, 0) for name in {**listed, **others}}
