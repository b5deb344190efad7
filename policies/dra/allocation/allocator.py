"""Which devices Kubernetes' scheduler would allocate to claims on a node, computed without a cluster."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from policies.dra.allocation.constraints import constraints_of
from policies.dra.allocation.errors import InvalidPoolsError
from policies.dra.allocation.features import DEFAULTS, Features
from policies.dra.allocation.needs import Needs
from policies.dra.allocation.node_selectors import TargetNode
from policies.dra.allocation.picks import Picks
from policies.dra.allocation.pools import Pool, PoolGatherer, PoolState
from policies.dra.allocation.question import Question
from policies.dra.allocation.results import allocation_result
from policies.dra.allocation.search import Search
from policies.dra.allocation.usage import NONE, Usage
from policies.work import check_cancelled

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from policies.dra.allocation.index import SliceIndex
    from policies.dra.allocation.needs import Need
    from policies.dra.resource_claims import Subrequest
    from policies.kubernetes.objects import Object

__all__ = ["STEP_BUDGET", "Allocator"]

STEP_BUDGET = 500_000
"""Search steps on one node; a step looks at a device for a request. About three seconds of work."""


class Allocator:
    """Allocates claims on one node after the other.

    Verdicts of selectors by shape of device, and pools that look the same from several nodes, are kept for the next node.
    """

    def __init__(
        self,
        index: SliceIndex,
        *,
        claims: Iterable[Object],
        classes: Iterable[Object],
        usage: Usage = NONE,
        features: Features = DEFAULTS,
        budget: int = STEP_BUDGET,
        gatherer: PoolGatherer | None = None,
    ) -> None:
        """Read claims and classes.

        Args:
            index: the ResourceSlices.
            claims: ResourceClaims without an allocation, of any version.
            classes: the DeviceClasses.
            usage: the devices of other claims.
            features: the feature gates of the scheduler.
            budget: search steps on a node after which the search ends without a result.
            gatherer: the pools of the index with these features, if other claims have gathered some of them.

        Raises:
            AllocationError: a field of a claim or a class has the wrong type.
        """
        self.question = Question.read(claims, classes, usage, features, index)
        self._gatherer = PoolGatherer(index, features) if gatherer is None else gatherer
        self._budget = budget

    def against(self, usage: Usage, budget: int) -> Allocator:
        """The same claims with other usage; verdicts about devices and pools are shared."""
        other = copy(self)
        other.question, other._budget = self.question.against(usage), budget  # noqa: SLF001 - of the same class
        return other

    def allocate(self, node: Object) -> list[Object] | None:
        """The allocations of the claims on the node, in their order; None if they do not fit together.

        Raises:
            AllocationError: Kubernetes' scheduler would fail with this text.
            InvalidPoolsError: they do not fit, but an invalid pool is in the way; this stops this node only.
            SearchBudgetExceeded: the search would take too many steps.
        """
        question, target = self.question, TargetNode(node)
        check_cancelled()
        pools = self._gatherer.gather(target)
        needs: dict[Subrequest, Need] = {}
        constraints = []
        finder = Needs(question, target, pools)
        for claim in question.claims:
            needs |= finder.of_claim(claim)
            constraints.append(constraints_of(claim, question.features))
        picks = Picks(question.checks, question.usage, constraints)
        search = Search(question, needs, picks, target, pools)
        if not search.run(self._budget):
            if any(pool.state is PoolState.INVALID for pool in pools):
                raise InvalidPoolsError
            return None
        return [
            allocation_result(question, claim, picks.of_claim[number], search.subrequests(number), target)
            for number, claim in enumerate(question.claims)
        ]

    def pools(self, node: Object) -> Sequence[Pool]:
        """The pools that the node can reach, in the order in which they are searched.

        Raises:
            AllocationError: a node selector is invalid.
        """
        return self._gatherer.gather(TargetNode(node))

    def node_shape(self, node: Object) -> Hashable:
        """A key of what decides whether the claims fit a node: they fit all nodes of a shape, or none.

        Allocations on such nodes differ only in names and in copied fields. Nodes that share devices with other nodes
        have the same shape only if they share the same devices.

        Raises:
            AllocationError: a node selector is invalid.
        """
        target = TargetNode(node)
        check_cancelled()
        pools = self._gatherer.gather(target)
        numbers: dict[str, int] = {}
        return tuple(
            (
                pool.state,
                pool.id[0],
                numbers.setdefault(pool.id[1], len(numbers)),
                self._pool_shape(pool, target),
            )
            for pool in pools
        )

    def _pool_shape(self, pool: Pool, node: TargetNode) -> Hashable:
        own = all(found.selection.node_name and not found.selects_per_device for found in pool.slices)
        if pool.other_slices or not own:
            return pool.slices, pool.other_slices, self._node_dependent(pool, node)
        counters = tuple((name, tuple(sorted(amounts.items()))) for name, amounts in sorted(pool.counter_sets.items()))
        return counters, tuple(map(self.question.checks.slice_shape, pool.slices))

    def _node_dependent(self, pool: Pool, node: TargetNode) -> Hashable:
        return tuple(
            self.question.checks.node(device, node) is None
            for device in pool.devices()
            if device.slice.selects_per_device
        )
