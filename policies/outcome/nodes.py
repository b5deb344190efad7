"""Checks of nodes other than their devices, in the order of Kubernetes' scheduler."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.devices.allocation.reading import AllocationError
from policies.devices.allocation.slices import NodeSelection, TargetNode
from policies.devices.native_quotas import QuotaUse
from policies.fleet.device_plugin import sharing_labels
from policies.kubernetes.nodes import (
    REQUIRED,
    UNSCHEDULABLE,
    Taint,
    is_cordoned,
    labels_of,
    preventing_taints,
    tolerates_taint,
)
from policies.kubernetes.objects import lookup, mappings_at
from policies.kubernetes.quantities import ONE, billionths
from policies.outcome.allocation import NO_RESOURCES
from policies.outcome.reasons import ClaimRefusal, NodeMismatch, ReasonKind, ShareRequest, Shortage

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

    from policies.fleet.cluster_digest import ResourceUsage
    from policies.kubernetes.objects import Object
    from policies.outcome.allocation import AllocationProblem
    from policies.outcome.question import Question


class _Guard(NamedTuple):
    """The cordon and the taints of a node, which keep pods off that do not tolerate them."""

    is_cordoned: bool
    taints: tuple[Taint, ...]


def _guard(node: Object) -> _Guard:
    return _Guard(is_cordoned(node), tuple(preventing_taints(node)))


class NodeChecks:
    """The checks of one question; nodes are given by their position."""

    def __init__(self, problem: AllocationProblem, usage: ResourceUsage | None) -> None:
        """Prepare the checks; nodes are empty without `usage`."""
        question, nodes = problem.question, problem.nodes
        self._question = question
        self._problem = problem
        self._nodes = nodes
        self._usage = usage
        self._by_claims = problem.by_resource
        self._shares = problem.shares
        self._share_requests = _share_requests(question)
        self._spec = question.pod.spec if question.pod else {}
        self._selections = [*self._read_selections()] if question.pod else []
        self._tolerations = [each for each in self._spec.get("tolerations") or [] if isinstance(each, dict)]
        self._tolerated: dict[Taint, bool] = {}
        self._repelled: dict[_Guard, tuple[NodeMismatch, ...]] = {}
        self._served: dict[tuple[int | None, ...], frozenset[str]] = {}
        self._refused: dict[frozenset[str], tuple[NodeMismatch, ...]] = {}

    def mismatches(self, position: int) -> tuple[NodeMismatch, ...]:
        """All mismatches of a node in the order of the checks; empty if only its devices remain to be checked."""
        guard = self._nodes.each(_guard)[position]
        if guard not in self._repelled:
            self._repelled[guard] = tuple(self._guard_mismatches(guard))
        unselected = (mismatch for selected, mismatch in self._selections if not selected >> position & 1)
        found = (*self._repelled[guard], *unselected, *self._shortages(position))
        if self._question.allocated or self._share_requests:
            node = self._nodes[position]
            found = (*found, *self._claim_mismatches(node), *self._share_mismatches(position))
        if self._by_claims:
            found = (*found, *self._quota_mismatches(self.served_by_claims(position)))
        return found

    def alike_nodes(self) -> Iterable[Sequence[int]]:
        """The positions of all nodes, those together of which the checks read the same."""
        nodes, question = self._nodes, self._question
        columns: list[Iterable[Hashable]] = [nodes.kinds(_guard)]
        columns += [f"{selected | 1 << len(nodes):b}"[:0:-1] for selected, _ in self._selections]
        columns += map(nodes.allocatable, self._by_claims)
        for _, requested, offered, used in self._amounts:
            amounts = zip(offered, used, strict=True)
            columns.append([None if each[0] is None or requested <= each[0] - each[1] else each for each in amounts])
        if question.allocated:
            columns.append([tuple(self._claim_mismatches(node)) for node in nodes])
        if self._share_requests:
            columns.append(nodes.kinds(sharing_labels))
            columns += [nodes.allocatable(request.resource) for request in self._share_requests]
        found: defaultdict[Hashable, list[int]] = defaultdict(list)
        for position, kind in enumerate(zip(*columns, strict=True)):
            found[kind].append(position)
        return found.values()

    def served_by_claims(self, position: int) -> frozenset[str]:
        """The pod's extended resources that a claim serves on a node, because its kubelet has none."""
        if not self._by_claims:
            return NO_RESOURCES
        amounts = tuple([self._nodes.allocatable(name)[position] for name in self._by_claims])
        if amounts not in self._served:
            pairs = zip(self._by_claims, amounts, strict=True)
            self._served[amounts] = frozenset(name for name, amount in pairs if not amount)
        return self._served[amounts]

    def room(self, position: int) -> int | None:
        """The number of such pods that the node has resources for and may run; None if unlimited."""
        rooms = [
            max(0, allocatable - used[position]) // requested
            for name, requested, offered, used in self._amounts
            if (allocatable := offered[position]) is not None and (allocatable or name not in self._by_claims)
        ]
        return min((*rooms, 1) if self._question.is_one_per_node else rooms, default=None)

    @cached_property
    def _amounts(self) -> Sequence[tuple[str, int, Sequence[int | None], Sequence[int]]]:
        """Each requested resource and its amount, and what each node offers of it and pods use there.

        Extended resources come first, because they are scarce.
        """
        nothing = [0] * len(self._nodes)
        return [
            (
                name,
                amount,
                self._nodes.allocatable(name),
                nothing if self._usage is None else self._usage.on_nodes(self._nodes, name),
            )
            for name, amount in sorted(self._question.resources.items(), key=lambda each: ("/" not in each[0], each[0]))
        ]

    def _shortages(self, position: int) -> Iterator[NodeMismatch]:
        """The resources of which a node has too little."""
        for name, requested, offered, used in self._amounts:
            allocatable = offered[position]
            if allocatable is None or requested <= (left := allocatable - used[position]):
                continue
            if allocatable or name not in self._by_claims:
                shortage = Shortage(name, requested, max(0, left), allocatable)
                yield NodeMismatch(ReasonKind.RESOURCES, (name, shortage.is_permanent), shortage)

    def _guard_mismatches(self, guard: _Guard) -> Iterator[NodeMismatch]:
        if guard.is_cordoned and not tolerates_taint(self._tolerations, UNSCHEDULABLE):
            yield NodeMismatch(ReasonKind.CORDONED)
        seen: set[str] = set()
        for taint in guard.taints if self._question.pod is not None else ():
            # A state of the node has taints with both effects.
            if not self._tolerates(taint) and not (taint.condition and taint.key in seen):
                seen.add(taint.key)
                yield NodeMismatch(ReasonKind.TAINT, taint)

    def _tolerates(self, taint: Taint) -> bool:
        if taint not in self._tolerated:
            written = {"key": taint.key, "value": taint.value, "effect": taint.effect}
            self._tolerated[taint] = tolerates_taint(self._tolerations, written)
        return self._tolerated[taint]

    def _read_selections(self) -> Iterator[tuple[int, NodeMismatch]]:
        """The nodes that each label of the node selector, or the affinity, selects; the mismatch of others."""
        select = self._nodes.selectable.select
        for key, value in (self._spec.get("nodeSelector") or {}).items():
            yield select({"nodeSelector": {key: value}}), NodeMismatch(ReasonKind.NODE_SELECTOR, key)
        if lookup(self._spec, REQUIRED) is not None:
            yield select({**self._spec, "nodeSelector": None}), NodeMismatch(ReasonKind.NODE_SELECTOR)

    def _claim_mismatches(self, node: Object) -> Iterator[NodeMismatch]:
        for claim in self._question.allocated:
            selector = lookup(claim.claim.allocation, ("nodeSelector",))
            if isinstance(selector, dict) and not _matches(node, selector):
                yield NodeMismatch(ReasonKind.CLAIM_ELSEWHERE, claim.name)

    def _quota_mismatches(self, resources: frozenset[str]) -> tuple[NodeMismatch, ...]:
        """The ResourceQuotas that refuse the claim for these extended resources."""
        if resources not in self._refused:
            use = QuotaUse.NOTHING if self._usage is None else self._question.quota_use
            refusals = self._problem.quota_refusals(resources, use)
            self._refused[resources] = tuple(NodeMismatch(ReasonKind.QUOTA, ClaimRefusal.of(each)) for each in refusals)
        return self._refused[resources]

    def _share_mismatches(self, position: int) -> Iterator[NodeMismatch]:
        for request in self._share_requests:
            is_single = self._shares.is_single(labels_of(self._nodes[position]), request.resource)
            if is_single and self._nodes.allocatable(request.resource)[position]:
                yield NodeMismatch(ReasonKind.ONE_SHARE, request)


def _share_requests(question: Question) -> tuple[ShareRequest, ...]:
    """The most that one container requests of each device plugin's resource, if it is more than one."""
    most: dict[str, int] = {}
    spec = question.pod.spec if question.pod else {}
    for container in (*mappings_at(spec, ("initContainers",)), *mappings_at(spec, ("containers",))):
        limits = lookup(container, ("resources", "limits"))
        for name, amount in (limits if isinstance(limits, dict) else {}).items():
            if "/" in name:
                most[name] = max(most.get(name, 0), billionths(amount) // ONE)
    return tuple(ShareRequest(name, amount) for name, amount in most.items() if amount > 1)


def _matches(node: Object, selector: Mapping[str, Any]) -> bool:
    """True if a node matches an allocation's selector; an invalid selector matches nothing."""
    try:
        return TargetNode(node).matches(NodeSelection(selector=selector))
    except AllocationError:
        return False
