"""The survey: the result of a question on each node, now and if nothing were in use."""

from __future__ import annotations

from collections import defaultdict
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from policies.devices.allocation.reading import AllocationError
from policies.devices.allocation.usage import NONE
from policies.kubernetes.bounds import check_cancelled
from policies.kubernetes.objects import name_of
from policies.kubernetes.view import UNKNOWN
from policies.outcome.allocation import Solution, SolutionState, Solver, allocation_problem
from policies.outcome.device_reasons import DeviceMismatch, DeviceReasons
from policies.outcome.nodes import NodeChecks
from policies.outcome.reasons import Holders, Reason, ReasonKind, node_reason

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence

    from policies.fleet.cluster_digest import Cluster, ResourceUsage
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.outcome.question import Question
    from policies.outcome.reasons import Audience, NodeMismatch
    from policies.rules.settings import GPUAdmissionPolicy


_MOST_VALUE_GROUPS = 4
_MOST_REASONS = 6
_MOST_EXAMINED = 32
"""Nodes of a group whose devices are compared, if the checks of the nodes decided."""
_GAVE_UP = "whether it fits is unknown: too many combinations of devices nearly satisfy the claims to try them all"


@dataclass(frozen=True, slots=True)
class Failure:
    """An error that stops the scheduler, with the position of the first node that causes it."""

    message: str
    position: int


class _Part(NamedTuple):
    """Nodes with equal checks and devices, some of those with one result."""

    positions: Sequence[int]
    """No two parts have a node in common, so parts are in the order of their first nodes."""
    mismatches: tuple[NodeMismatch, ...]
    worst: NodeMismatch | None
    resources: frozenset[str]


@dataclass(slots=True)
class AlikeNodes:
    """Nodes with the same result, by their own checks or by the shape of their devices."""

    fits_if_empty: bool
    worst: NodeMismatch | None = None
    """The first permanent mismatch of each of the nodes, else the first temporary one; None if their devices decide."""
    solution: Solution | None = None
    """The result for the devices now, if their devices decide."""
    is_unknown: bool = False
    """True if the search was given up."""
    resources: frozenset[str] = frozenset()
    """The extended resources that a claim serves on these nodes."""
    positions: list[int] = field(default_factory=list)
    mismatches: list[tuple[NodeMismatch, ...]] = field(default_factory=list)
    """All mismatches of each node."""

    @property
    def fits(self) -> bool:
        """True if the nodes fit now."""
        return self.solution is not None and self.solution.state is SolutionState.FITS

    @property
    def is_blocked(self) -> bool:
        """True if the nodes do not fit whatever is in use, other than for their devices."""
        return self.worst is not None and self.worst.is_permanent


class Survey:
    """The results of all nodes for one question, and the facts that they rest on."""

    def __init__(
        self,
        question: Question,
        view: ClusterView,
        settings: GPUAdmissionPolicy,
        audience: Audience,
        *,
        cluster: Cluster,
        resource_usage: ResourceUsage,
    ) -> None:
        """Prepare the survey; `visit_nodes` does the work."""
        self.question = question
        self.view = view
        self.settings = settings
        self.audience = audience
        self.problem = allocation_problem(question, cluster, view, settings)
        self.groups: list[AlikeNodes] = []
        self._holders = Holders(cluster.holding, audience)
        self._set_usage(cluster, resource_usage)
        self._empty = Solver(self.problem, NONE)
        self._reasons_if_empty = DeviceReasons(self.problem, self._empty, NONE, self._holders)

    def count(self, *, empty: bool = False) -> int:
        """The number of nodes that fit now, or that would fit if nothing were in use."""
        return sum(len(alike.positions) for alike in self.groups if (alike.fits_if_empty if empty else alike.fits))

    @property
    def unknown(self) -> int:
        """The number of nodes on which the search was given up."""
        return sum(len(alike.positions) for alike in self.groups if alike.is_unknown)

    @property
    def refusing(self) -> frozenset[str]:
        """The nodes that the scheduler may choose now, and whose device plugin then refuses the pod.

        The scheduler does not know what a plugin refuses, so it may bind the pod there although other nodes fit.
        """
        names = self.cluster.nodes.each(name_of)
        return frozenset(
            names[position]
            for alike in self.groups
            if alike.worst is not None
            for position, mismatches in zip(alike.positions, alike.mismatches, strict=True)
            if all(each.kind is ReasonKind.ONE_SHARE for each in mismatches)
        )

    @property
    def missing(self) -> str:
        """A resource that is requested and no node has; empty if each is somewhere."""
        slices = self.view.list("ResourceSlice")
        has_devices = slices is UNKNOWN or bool(slices)
        if self.problem.claims and not has_devices:
            return "devices of a DRA driver"
        for name in self.problem.question.resources:
            by_claims = has_devices and name in self.problem.by_resource
            if "/" in name and not by_claims and not any(self.problem.nodes.allocatable(name)):
                return name
        return ""

    def with_less_use(
        self, positions: Collection[int], cluster: Cluster, resource_usage: ResourceUsage
    ) -> Survey | Failure:
        """The survey of the same question where less is in use of some nodes, which alone are visited anew.

        No device may be reached from several nodes.

        Args:
            positions: The nodes.
            cluster: The same cluster, with less usage of the devices of these nodes.
            resource_usage: The usage of resources, also less on these nodes.
        """
        other = copy(self)
        other._set_usage(cluster, resource_usage)  # noqa: SLF001 - of the same class
        failure = other.visit_nodes(positions)
        if failure is not None:
            return failure
        other.groups += self._without(frozenset(positions))
        return other

    def _set_usage(self, cluster: Cluster, resource_usage: ResourceUsage) -> None:
        self.cluster, self.resource_usage = cluster, resource_usage
        self.checks = NodeChecks(self.problem, resource_usage)
        self._now = Solver(self.problem, cluster.usage)
        self._reasons_now = DeviceReasons(self.problem, self._now, cluster.usage, self._holders)
        self._mismatches: dict[tuple[int, bool], DeviceMismatch | None] = {}
        """The results of `mismatch` by the first node, and whether nothing is in use."""

    def visit_nodes(self, positions: Iterable[int] | None = None) -> Failure | None:
        """Check every node: those of which the checks read the same once, and devices of one shape once.

        Returns the first error that stops the scheduler; there are no groups then.

        Args:
            positions: The only nodes to check; None for all.
        """
        kinds = self.checks.alike_nodes() if positions is None else ([position] for position in sorted(positions))
        by_key: defaultdict[Hashable, list[_Part]] = defaultdict(list)
        for kind in kinds:
            check_cancelled()
            mismatches, resources = self.checks.mismatches(kind[0]), self.checks.served_by_claims(kind[0])
            worst = next((each for each in mismatches if each.is_permanent), next(iter(mismatches), None))
            for key, nodes in self._by_key(kind, worst, resources):
                by_key[key].append(_Part(nodes, mismatches, worst, resources))
        found: list[AlikeNodes] = []
        for key, parts in sorted(by_key.items(), key=lambda item: min(item[1])):
            first = min(parts)
            position = first.positions[0]
            if isinstance(key, AllocationError):
                return Failure(str(key), position)
            try:
                group = self._alike_nodes(position, first.worst, first.resources)
            except AllocationError as error:
                return Failure(str(error), position)
            by_position = {position: part.mismatches for part in parts for position in part.positions}
            group.positions = sorted(by_position)
            group.mismatches = [by_position[position] for position in group.positions]
            found.append(group)
        self.groups = found
        return None

    def mismatch(self, alike: AlikeNodes, *, if_empty: bool = False) -> DeviceMismatch | None:
        """The reason why the devices of alike nodes do not suffice, now or if nothing is in use.

        None if they do, or if something else decides.
        """
        if alike.is_blocked or alike.fits or alike.is_unknown:
            return None
        position = alike.positions[0]
        if (position, if_empty) not in self._mismatches:
            mismatch = None
            if not if_empty and alike.worst is None:
                mismatch = self._reasons_now.mismatch(position, alike.resources)
            if if_empty and self._state_if_empty(position, alike.resources) is SolutionState.DOES_NOT_FIT:
                mismatch = self._reasons_if_empty.mismatch(position, alike.resources)
            self._mismatches[position, if_empty] = mismatch
        return self._mismatches[position, if_empty]

    def _worst_mismatch(self, alike: AlikeNodes) -> DeviceMismatch | None:
        """The reason that remains if nothing is in use, else that of now."""
        return self.mismatch(alike, if_empty=True) or self.mismatch(alike)

    def _by_key(
        self, positions: Sequence[int], worst: NodeMismatch | None, resources: frozenset[str]
    ) -> Iterator[tuple[Hashable, Sequence[int]]]:
        """Nodes with equal checks by a key, equal for nodes with one result, or by the error of the scheduler."""
        if worst is not None and worst.is_permanent:
            yield (worst.kind, worst.key), positions
            return
        solver = self._now if worst is None else self._empty
        by_shape = solver.by_shape(positions, resources) if solver.has_claims(resources) else {None: positions}
        for shape, nodes in by_shape.items():
            yield shape if isinstance(shape, AllocationError) else (shape, None if worst is None else worst.key), nodes

    def _alike_nodes(self, position: int, worst: NodeMismatch | None, resources: frozenset[str]) -> AlikeNodes:
        """A group of nodes like this one, still without nodes."""
        if worst is not None and worst.is_permanent:
            return AlikeNodes(fits_if_empty=False, worst=worst, resources=resources)
        now = self._now.solution(position, resources) if worst is None else None
        if now is not None and now.state is SolutionState.FITS:
            return AlikeNodes(fits_if_empty=True, solution=now, resources=resources)
        empty = self._state_if_empty(position, resources)
        return AlikeNodes(
            fits_if_empty=empty is SolutionState.FITS,
            worst=worst,
            solution=now,
            is_unknown=(empty if now is None else now.state) is SolutionState.GAVE_UP,
            resources=resources,
        )

    def _state_if_empty(self, position: int, resources: frozenset[str]) -> SolutionState | None:
        """The result for the devices of a node if nothing is in use; None if the scheduler fails then."""
        try:
            return self._empty.solution(position, resources).state
        except AllocationError:
            return None

    def ranked_groups(self, names: Collection[str] | None = None) -> list[list[AlikeNodes]]:
        """The groups, those with one reason together.

        Nodes that fit come first, then nodes that would fit if nothing were in use. Nodes that never fit follow: first those
        that have some of what is requested, last those that have none; the largest groups first.

        Args:
            names: The only nodes to rank; None for all.
        """
        merged: dict[Hashable, list[AlikeNodes]] = {}
        of_names: Iterable[AlikeNodes] = self.groups
        if names is not None:
            of_all = self.cluster.nodes.positions.items()
            of_names = self._without(frozenset(position for name, position in of_all if name not in names))
        for alike in of_names:
            merged.setdefault(self._reason_key(alike), []).append(alike)
        return sorted((group for each in merged.values() for group in self._by_values(each)), key=self._rank)

    def _reason_key(self, alike: AlikeNodes) -> Hashable:
        """A key, equal for nodes with the same worst reason."""
        if alike.fits:
            return "fits"
        if alike.is_unknown:
            return "gave up"
        shown = self._worst_mismatch(alike)
        if shown is None:
            return alike.worst and (alike.worst.kind, alike.worst.key)
        return shown.reason.kind, shown.gist, alike.fits_if_empty

    def _by_values(self, groups: list[AlikeNodes]) -> list[list[AlikeNodes]]:
        """Groups by the values that devices have where they do not match; one group if there are many."""
        by_values: dict[Hashable, list[AlikeNodes]] = {}
        for alike in groups:
            shown = self._worst_mismatch(alike)
            by_values.setdefault(shown.values if shown else (), []).append(alike)
        return list(by_values.values()) if len(by_values) <= _MOST_VALUE_GROUPS else [groups]

    def _rank(self, groups: Sequence[AlikeNodes]) -> tuple[bool, bool, bool, bool, int]:
        first = groups[0]
        size = sum(len(alike.positions) for alike in groups)
        return not first.fits, not first.fits_if_empty, self._has_nothing(first), first.is_blocked, -size

    def _has_nothing(self, alike: AlikeNodes) -> bool:
        """True if the nodes have nothing at all of what they lack."""
        if alike.is_blocked:
            shortage = None if alike.worst is None else alike.worst.shortage
            return shortage is not None and not shortage.allocatable
        lasting = self.mismatch(alike, if_empty=True)
        return lasting is not None and not lasting.has_any

    def names(self, groups: Iterable[AlikeNodes]) -> list[str]:
        """The names of the nodes in some groups, in the order of the cluster."""
        positions = sorted(position for alike in groups for position in alike.positions)
        names = self.cluster.nodes.each(name_of)
        return [names[position] for position in positions]

    def reasons(self, groups: Sequence[AlikeNodes]) -> tuple[Reason, ...]:
        """All reasons of groups that `ranked_groups` has put together, the worst first; empty if they fit.

        Reasons that remain if nothing is in use come first. The reason for devices is that of the first node.
        """
        first = min(groups, key=lambda alike: alike.positions[0])
        if first.fits:
            return ()
        found, total = self._node_mismatches(groups), sum(len(alike.positions) for alike in groups)
        if first.worst is not None:
            # Of several permanent mismatches, that of all these nodes comes first.
            worst = (first.worst.kind, first.worst.key)
            found = {worst: found.pop(worst), **found}
        permanent: list[Reason] = []
        temporary: list[Reason] = []
        for there in found.values():
            reason = node_reason([each for each, _ in there], [node for _, node in there], self.question, self.audience)
            if len(there) < total:
                reason = replace(reason, sentence=f"{reason.sentence} (on {len(there):,} of these {total:,} nodes)")
            (permanent if there[0][0].is_permanent else temporary).append(reason)
        devices, lasts = self._device_reason(groups)
        of_devices = [] if devices is None else [devices]
        reasons = [*permanent, *of_devices, *temporary] if lasts else [*permanent, *temporary, *of_devices]
        return tuple(reasons[:_MOST_REASONS])

    def _node_mismatches(
        self, groups: Iterable[AlikeNodes]
    ) -> dict[tuple[ReasonKind, Hashable], list[tuple[NodeMismatch, Object]]]:
        """The mismatches of nodes by what they are about, in the order of the checks and of their numbers."""
        found: defaultdict[tuple[ReasonKind, Hashable], list[tuple[NodeMismatch, Object]]] = defaultdict(list)
        for alike in groups:
            for position, mismatches in zip(alike.positions, alike.mismatches, strict=True):
                for each in mismatches:
                    found[each.kind, each.key].append((each, self.cluster.nodes[position]))
        kinds = [*ReasonKind]
        return dict(sorted(found.items(), key=lambda item: (kinds.index(item[0][0]), -len(item[1]))))

    def _device_reason(self, groups: Sequence[AlikeNodes]) -> tuple[Reason | None, bool]:
        """The reason why the devices of nodes do not suffice, and True if it remains if nothing is in use."""
        first = min(groups, key=lambda alike: alike.positions[0])
        if first.is_unknown:
            return Reason(ReasonKind.GAVE_UP, _GAVE_UP), True
        if (known := self._worst_mismatch(first)) is not None:
            return known.reason, self.mismatch(first, if_empty=True) is not None
        # The checks of the nodes decided, so their devices were not looked at yet.
        places = sorted((position, alike.resources) for alike in groups for position in alike.positions)
        found = [self._device_mismatch(*place) for place in places[:_MOST_EXAMINED]]
        mismatch, lasts = found[0]
        if mismatch is None:
            return None, False
        alike = all(each is not None and each.gist == mismatch.gist for each, _ in found)
        if alike and len(places) <= _MOST_EXAMINED:
            return mismatch.reason, lasts
        return replace(mismatch.reason, sentence=f"{mismatch.reason.sentence} (on the first of these nodes)"), lasts

    def _device_mismatch(self, position: int, resources: frozenset[str]) -> tuple[DeviceMismatch | None, bool]:
        """The mismatch of the devices of a node, or None; and True if it remains if nothing is in use."""
        if self._state_if_empty(position, resources) is SolutionState.DOES_NOT_FIT:
            return self._reasons_if_empty.mismatch(position, resources), True
        try:
            if self._now.solution(position, resources).state is SolutionState.DOES_NOT_FIT:
                return self._reasons_now.mismatch(position, resources), False
        except AllocationError:
            return None, False  # The scheduler never looks at the devices of this node, so their errors stop nothing.
        return None, False

    def _without(self, gone: frozenset[int]) -> Iterator[AlikeNodes]:
        """The groups without some nodes; groups that have no other nodes are left out."""
        for alike in self.groups:
            if gone.isdisjoint(alike.positions):
                yield alike
            elif not gone.issuperset(alike.positions):
                left = [pair for pair in zip(alike.positions, alike.mismatches, strict=True) if pair[0] not in gone]
                yield replace(
                    alike,
                    positions=[position for position, _ in left],
                    mismatches=[mismatches for _, mismatches in left],
                )
