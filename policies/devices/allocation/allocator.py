"""The devices that Kubernetes' scheduler would allocate to claims on a node."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid5

from policies.devices.allocation.checks import Needs, Question
from policies.devices.allocation.constraints import constraints_of, missing_pairs
from policies.devices.allocation.pools import Pool, PoolGatherer, PoolState
from policies.devices.allocation.reading import (
    DEFAULTS,
    AllocationError,
    Features,
    Implementation,
    InvalidPoolsError,
    objects,
    text,
    texts,
)
from policies.devices.allocation.search import Picks, Search
from policies.devices.allocation.slices import TargetNode
from policies.devices.allocation.usage import NONE, Usage
from policies.kubernetes.bounds import check_cancelled

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

    from policies.devices.allocation.checks import Need
    from policies.devices.allocation.pools import SliceIndex
    from policies.devices.allocation.search import Pick
    from policies.devices.allocation.slices import AllocatableDevice, NodeSelection
    from policies.devices.deviceclasses import DeviceClass
    from policies.devices.resource_claims import Claim, Subrequest
    from policies.kubernetes.objects import Object


_SHARES = UUID("6f9e1a52-3f0e-5b0b-9d4b-4c1b8a3f7d10")
"""The namespace of our share ids. Kubernetes draws them at random; ours are the same for the same question."""


def allocation_result(
    question: Question, claim: Claim, picks: Sequence[Pick], selected: Sequence[Subrequest], node: TargetNode
) -> Object:
    """One claim's `status.allocation`, with the devices picked and the alternative that each request got.

    Raises:
        AllocationError: a slice's node selector has several terms, which an allocation cannot express.

    Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go Allocate,
    createNodeSelector.
    """
    merges = question.features.merges_configs
    configs = [*_class_configs(selected, question.classes), *_claim_configs(claim, selected, once=merges)]
    devices = {
        "results": [_device(question, claim, number, pick) for number, pick in enumerate(picks)],
        "config": [_for_all(config, selected) for config in configs] if merges else configs,
    }
    result: Object = {"devices": {key: value for key, value in devices.items() if value}}
    selector = _node_selector(question, claim, picks, node)
    return result if selector is None else {**result, "nodeSelector": selector}


def _device(question: Question, claim: Claim, number: int, pick: Pick) -> Object:
    device = pick.candidate.device
    result: Object = {
        "request": pick.subrequest.full_name,
        "driver": device.slice.driver,
        "pool": device.slice.pool,
        "device": device.name,
    }
    if pick.subrequest.has_admin_access:
        result["adminAccess"] = True
    if pick.subrequest.tolerations:
        result["tolerations"] = [dict(toleration) for toleration in pick.subrequest.tolerations]
    if question.features.binding_conditions:
        for field in ("bindingConditions", "bindingFailureConditions"):
            conditions = texts(device.document, field, device.where)
            if conditions:
                result[field] = list(conditions)
    if pick.consumed is not None:
        identity = claim.uid or f"{claim.namespace}/{claim.name}"
        result["shareID"] = str(uuid5(_SHARES, f"{identity}/{pick.subrequest.full_name}/{number}"))
    if pick.consumed:
        result["consumedCapacity"] = {name: str(amount) for name, amount in pick.consumed.items()}
    return result


def _class_configs(selected: Sequence[Subrequest], classes: Mapping[str, DeviceClass]) -> Iterator[Object]:
    """Each class's configs once, for all requests of the class."""
    for name in dict.fromkeys(subrequest.device_class for subrequest in selected):
        requests = [subrequest.full_name for subrequest in selected if subrequest.device_class == name]
        for config in classes[name].configs:
            yield {"source": "FromClass", "requests": list(requests), **_opaque(config.fields)}


def _claim_configs(claim: Claim, selected: Sequence[Subrequest], *, once: bool) -> Iterator[Object]:
    """The claim's configs for all requests or a selected one; once, or for each request."""
    for config in claim.configs:
        if not config.requests:
            yield {"source": "FromClaim", **_opaque(config.fields)}
            continue
        for subrequest in selected:
            if config.covers(subrequest):
                yield {"source": "FromClaim", "requests": list(config.requests), **_opaque(config.fields)}
                if once:
                    break


def _for_all(config: Object, selected: Sequence[Subrequest]) -> Object:
    """The config, without its requests if it is for all that were selected."""
    requests = config.get("requests") or ()
    if not all(each.request_name in requests or each.full_name in requests for each in selected):
        return config
    return {key: value for key, value in config.items() if key != "requests"}


def _opaque(config: Mapping[str, Any]) -> Object:
    return {"opaque": config["opaque"]} if config.get("opaque") is not None else {}


def _node_selector(question: Question, claim: Claim, picks: Sequence[Pick], node: TargetNode) -> Object | None:
    """From which nodes all of the devices can be reached; None for all nodes."""
    fields: list[Object] = []
    expressions: list[Object] = []
    for pick in picks:
        device = pick.candidate.device
        selection = device.slice.selection_of(device)
        binds = question.features.implementation is not Implementation.STABLE and device.document.get("bindsToNode")
        if selection.node_name is not None or binds:
            only = {"key": "metadata.name", "operator": "In", "values": [node.name]}
            return {"nodeSelectorTerms": [{"matchFields": [only]}]}
        for term in _terms(selection, claim):
            _add_new(objects(term, "matchFields", device.where), fields)
            _add_new(objects(term, "matchExpressions", device.where), expressions)
    term = {"matchExpressions": expressions, "matchFields": fields}
    return {"nodeSelectorTerms": [{key: value for key, value in term.items() if value}]} if any(term.values()) else None


def _terms(selection: NodeSelection, claim: Claim) -> list[Object]:
    terms = [] if selection.selector is None else objects(selection.selector, "nodeSelectorTerms", "nodeSelector")
    if len(terms) > 1:
        raise AllocationError(
            f"create NodeSelector for claim {claim.name}: "
            f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
        )
    return terms


def _add_new(requirements: Sequence[Object], known: list[Object]) -> None:
    """Add what is not there yet; in another order, values are the same."""
    for requirement in requirements:
        if all(_meaning(requirement) != _meaning(other) for other in known):
            known.append(requirement)


def _meaning(requirement: Object) -> tuple[str, str, frozenset[str]]:
    where = "nodeSelector"
    values = frozenset(texts(requirement, "values", where))
    return text(requirement, "key", where), text(requirement, "operator", where), values


STEP_BUDGET = 500_000
"""Search steps on one node; a step looks at a device for a request. About three seconds of work."""


_FEWEST_PAIRS = 3
"""Constraints of a claim from which on pairs are counted before the search."""


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

    def _lacks_pairs(self, claim: Claim, pools: Sequence[Pool], node: TargetNode) -> bool:
        """True if the node has too few pairs for a claim; the search would try all combinations of the others."""
        if len(claim.constraints) < _FEWEST_PAIRS:
            return False
        checks = self.question.checks

        def usable(subrequest: Subrequest) -> list[AllocatableDevice]:
            return [
                device
                for pool in pools
                if pool.state is PoolState.READY
                for device in pool.devices()
                if not (checks.selectable(claim, subrequest, device, node) or checks.in_use(subrequest, device))
            ]

        try:
            return missing_pairs(claim, self.question.features, usable) is not None
        except AllocationError:
            return False  # Kubernetes may find an answer, or fail, before it asks this selector.

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
        if any(self._lacks_pairs(claim, pools, target) for claim in question.claims) or not search.run(self._budget):
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
            (pool.state, pool.id[0], numbers.setdefault(pool.id[1], len(numbers)), self._pool_shape(pool, target))
            for pool in pools
        )

    def _pool_shape(self, pool: Pool, node: TargetNode) -> Hashable:
        own = all(found.selection.node_name and not found.selects_per_device for found in pool.slices)
        if pool.other_slices or not own:
            apart = (device for device in pool.devices() if device.slice.selects_per_device)
            reachable = tuple(self.question.checks.node(device, node) is None for device in apart)
            return pool.slices, pool.other_slices, reachable
        counters = tuple((name, tuple(sorted(amounts.items()))) for name, amounts in sorted(pool.counter_sets.items()))
        return counters, tuple(map(self.question.checks.slice_shape, pool.slices))
