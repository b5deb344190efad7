"""Grants: the GPUs that one pod gets on a node, and their comparison with others.

A kind of device is what quotas count (`DeviceKind`), and how it is shared (`ShownSharing`). Resources of the device plugin get
what labels say that the node hands out under their names; claims get the devices that the allocator picks.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.devices.allocation.usage import NONE, Held
from policies.devices.device_sharing import held_parts
from policies.devices.published_devices import gpu_groups, published_devices
from policies.fleet.offers.shown import ShownSharing
from policies.kubernetes.bounds import check_cancelled
from policies.kubernetes.names import format_count, format_list
from policies.kubernetes.objects import lookup, name_of
from policies.kubernetes.quantities import ONE
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.identifiers import DRIVER
from policies.nvidia.mig import MIGProfile, parse_resource
from policies.nvidia.products import fold_name
from policies.outcome.allocation import Solution, SolutionState, Solver
from policies.quota.demands.device_kinds import Offer, node_kinds, quota_device, replica_kind
from policies.rules.charges import DeviceKind

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

    from policies.devices.allocation.usage import Usage
    from policies.fleet.cluster_digest import Nodes
    from policies.kubernetes.objects import Object
    from policies.kubernetes.quantities import Amounts
    from policies.kubernetes.resourceslices import Device
    from policies.kubernetes.view import ClusterView
    from policies.outcome.survey import AlikeNodes, Survey
    from policies.quota.demands.device_kinds import NodeKind


_MEBI = 2**20
_EQUAL_MEMORY = 0.95
"""The part of the memory of before that counts as the same: sizes of MIG devices are predicted as exactly as that."""
_MOST_CHOICES = 4
"""Kinds of devices on one node among which claims can choose."""
_PARTS = {2: ("half", "halves"), 3: ("third", "thirds"), 4: ("quarter", "quarters")}


@dataclass(frozen=True, slots=True)
class Grant:
    """The GPUs that one pod gets."""

    kinds: frozenset[tuple[Offer, int]] = frozenset()
    """Each kind with the number of its devices."""

    @classmethod
    def of(cls, counts: Mapping[Offer, int]) -> Grant:
        """A grant of so many devices of some kinds."""
        return cls(frozenset((kind, count) for kind, count in counts.items() if count > 0))

    def is_as_good_as(self, other: Grant) -> bool:
        """True if each device of another grant has one here that is the same or better."""
        return self == other or _is_as_good(self, other)

    @property
    def main_kind(self) -> Offer | None:
        """The kind that most of its GPUs are; None for a grant without GPUs."""
        return max(
            self.kinds, key=lambda each: (each[1] * _power(each[0])[0], each[0].device.product), default=(None,)
        )[0]

    @property
    def words(self) -> str:
        """`8 whole NVIDIA-H100-80GB-HBM3`, `1 quarter of Tesla-T4 (time-slicing)`."""
        return format_list(self.words_by_kind) if self.kinds else "no GPU"

    @property
    def words_by_kind(self) -> tuple[str, ...]:
        """The words for each kind; empty for a grant without GPUs."""
        return tuple(sorted(_words(*each) for each in self.kinds))


@lru_cache(maxsize=4096)
def _is_as_good(grant: Grant, other: Grant) -> bool:
    left = dict(grant.kinds)
    for old, count in sorted(other.kinds, key=lambda each: _power(each[0]), reverse=True):
        missing = count
        for new in sorted(left, key=_power):
            if _is_kind_as_good(new, old):
                taken = min(missing, left[new])
                left[new] -= taken
                missing -= taken
        if missing:
            return False
    return True


def _is_kind_as_good(new: Offer, old: Offer) -> bool:
    """True if a device is the same or better.

    It must be of the same product, no share of a device that was whole, and no smaller. A product or a size that is unknown
    counts as the same, and so does the size of a share of a device that is shared without limit.
    """
    products = {fold_name(each.device.product) for each in (new, old) if each.device.product}
    if len(products) > 1 or (_is_share(new) and not _is_share(old)):
        return False
    kind, before = replica_kind(*new), replica_kind(*old)
    if not old.device.shared_without_limit:
        if kind.gpus < before.gpus:
            return False
        if kind.memory is not None and before.memory is not None and kind.memory < before.memory * _EQUAL_MEMORY:
            return False
    profile, wanted = (MIGProfile.parse(each.device.profile) for each in (new, old))
    return profile is None or wanted is None or not wanted.attributes or profile.attributes == wanted.attributes


def _is_share(kind: Offer) -> bool:
    is_part = kind.device.shared_without_limit or (not kind.device.profile and kind.device.gpus < 1)
    return is_part or kind.sharing.replicas > 1


def _power(kind: Offer) -> tuple[Any, int]:
    """GPUs and memory of a device, or of one share of it."""
    found = replica_kind(*kind)
    return found.gpus, found.memory or 0


def _words(kind: Offer, count: int) -> str:
    device, (replicas, strategy) = kind
    product = device.product or "an unknown product"
    whole = f"MIG {device.profile} of {product}" if device.profile else product
    if replicas > 1:
        one, several = _PARTS.get(replicas, (f"share of 1/{replicas}", f"shares of 1/{replicas}"))
        return f"{count:,} {one if count == 1 else several} of {whole}{f' ({strategy})' if strategy else ''}"
    if device.shared_without_limit:
        return f"{count:,} {'share' if count == 1 else 'shares'} of {whole} (unlimited)"
    if _is_share(kind):
        return f"{count:,} {'share' if count == 1 else 'shares'} of {whole}, {float(device.gpus):.0%} each"
    if device.profile:
        return f"{count:,} {whole}"
    return f"{count:,} whole {product}" if device.product else f"{format_count(count, 'whole GPU')} of {product}"


class GrantFinder:
    """Finds what pods get, and what they hold, in one cluster."""

    def __init__(self, view: ClusterView) -> None:
        """Read the kinds of nodes and devices, which the view digests once."""
        kinds = view.derive(node_kinds)
        self._kinds: Mapping[str, NodeKind] = {} if kinds is UNKNOWN else kinds.by_name
        self._published = view.derive(_published_kinds)
        self._devices = view.derive(published_devices)
        groups = gpu_groups(view)
        self._groups = () if groups is UNKNOWN else groups
        self._numbered: tuple[Nodes, Sequence[tuple[int, int]]] | None = None

    def on_nodes(self, survey: Survey, *, if_empty: bool = False) -> Mapping[Grant, Sequence[AlikeNodes]]:
        """The nodes that fit, by what one pod can get there: the groups of the survey, or parts of them.

        Where claims leave a choice of devices, a node counts for each.

        Args:
            survey: With its nodes visited.
            if_empty: True for the nodes that fit if nothing is in use.
        """
        found: defaultdict[Grant, list[AlikeNodes]] = defaultdict(list)
        for part, choices in self._parts(survey, if_empty=if_empty):
            for grant, _ in choices:
                found[grant].append(part)
        return found

    def picked_on_nodes(self, survey: Survey) -> Mapping[Grant, Sequence[AlikeNodes]]:
        """The nodes that fit now, by what the allocator picks there; each node counts once.

        The solution of each part is that of its first node.

        Args:
            survey: With its nodes visited.
        """
        found: defaultdict[Grant, list[AlikeNodes]] = defaultdict(list)
        for part, choices in self._parts(survey):
            grant, allocations = next(choices, (Grant(), ()))
            solution = Solution(SolutionState.FITS, tuple(allocations), part.positions[0])
            found[grant].append(replace(part, solution=solution))
        return found

    def _parts(
        self, survey: Survey, *, if_empty: bool = False
    ) -> Iterator[tuple[AlikeNodes, Iterator[tuple[Grant, Sequence[Object]]]]]:
        """The parts of the groups that fit whose nodes have the same GPUs.

        Each has what one pod can get there, with the allocations of its claims on the first node; the allocator's pick
        comes first.
        """
        question, nodes = survey.problem.question, survey.cluster.nodes
        amounts = [(name, -(-amount // ONE)) for name, amount in question.resources.items() if parse_resource(name)]
        allocated = [result for claim in question.allocated for result in claim.claim.allocated_devices]
        usage = NONE if if_empty else survey.cluster.usage
        solver = Solver(survey.problem, usage)
        kinds = self._kinds_by_position(nodes)
        for alike in survey.groups:
            if not (alike.fits_if_empty if if_empty else alike.fits):
                continue
            of_plugin = [(name, count) for name, count in amounts if name not in alike.resources]
            has_claims = solver.has_claims(alike.resources)
            parts: defaultdict[Hashable, list[int]] = defaultdict(list)
            for position in alike.positions:
                plugin, published = kinds[position]
                parts[plugin if of_plugin else None, published if has_claims else None].append(position)
            for positions in parts.values():
                check_cancelled()
                part = alike if len(parts) == 1 else replace(alike, positions=positions)
                of_node = self._plugin_counts(name_of(nodes[positions[0]]), of_plugin)
                choices: Iterable[Sequence[Object]] = ((),)
                if has_claims:
                    known = None if if_empty else alike.solution
                    choices = self._choices(solver, known, usage, positions[0], alike.resources)
                yield part, self._grants(of_node, allocated, choices)

    def _kinds_by_position(self, nodes: Nodes) -> Sequence[tuple[int, int]]:
        """For each node a number of what its device plugin offers, and one of what it publishes."""
        if self._numbered is None or self._numbered[0] is not nodes:
            numbers: dict[Hashable, int] = {}
            published = (self._published.get(name) for name in nodes.each(name_of))
            found = [
                (id(self._kinds.get(name)), numbers.setdefault(each, len(numbers)))
                for name, each in zip(nodes.each(name_of), published, strict=True)
            ]
            self._numbered = nodes, found
        return self._numbered[1]

    def _grants(
        self, of_node: Counter[Offer], allocated: Sequence[Object], choices: Iterable[Sequence[Object]]
    ) -> Iterator[tuple[Grant, Sequence[Object]]]:
        """The GPUs that one pod gets with each choice of allocations, and that choice."""
        for allocations in choices:
            held = Held.by([*allocated, *_results(allocations)])
            yield Grant.of(of_node + Counter(self._device_kinds(held))), allocations

    def _choices(
        self, solver: Solver, known: Solution | None, usage: Usage, position: int, resources: frozenset[str]
    ) -> Iterator[Sequence[Object]]:
        """The allocations of claims on a node, then those of other kinds of devices that fit as well.

        Nodes of one shape have one solution, but selectors need not read the product, so each part of a group is solved.
        """
        solution = solver.solution(position, resources) if known is None else known
        allocations: Sequence[Object] | None = solution.allocations
        if solution.node != position:
            allocations = solver.solve_again(position, resources, usage)
        groups = self._groups_on(name_of(solver.problem.nodes[position]))
        for _ in range(_MOST_CHOICES):
            if not allocations:
                return
            yield allocations
            picked = set(Held.by(_results(allocations)).devices)
            taken = [each for each in groups if not picked.isdisjoint(each)]
            groups = [each for each in groups if picked.isdisjoint(each)]
            if not groups or not taken:
                return
            usage = usage.and_held([Held(tuple(chain.from_iterable(taken)), ())])
            allocations = solver.solve_again(position, resources, usage)

    def _groups_on(self, node: str) -> list[frozenset[str]]:
        """The published GPUs of a node, those of one kind together, as `driver/pool/device`."""
        return [
            frozenset(f"{each.driver}/{each.pool}/{each.name}" for each in group.on_node[node])
            for group in self._groups
            if node in group.on_node
        ]

    def held_by(self, node: str, amounts: Amounts, holdings: Iterable[Held]) -> Grant:
        """The GPUs that a pod holds.

        Args:
            node: Of the pod.
            amounts: The resources that it takes of the node.
            holdings: The devices of its claims.
        """
        counts = self._plugin_counts(node, [(name, -(-amount // ONE)) for name, amount in amounts])
        for held in holdings:
            counts.update(self._device_kinds(held))
        return Grant.of(counts)

    def of_claim(self, held: Held) -> Grant:
        """The GPUs that a claim holds."""
        return Grant.of(Counter(self._device_kinds(held)))

    def _plugin_counts(self, node: str, amounts: Iterable[tuple[str, int]]) -> Counter[Offer]:
        kind = self._kinds.get(node)
        offers = {} if kind is None else dict(kind.offers)
        return Counter({offers[name]: count for name, count in amounts if name in offers})

    def _device_kinds(self, held: Held) -> Iterator[Offer]:
        """The kind of each GPU of an allocation; devices of other drivers are left out."""
        for identifier, consumed in (*((each, None) for each in held.devices), *held.shares):
            driver, _, path = identifier.partition("/")
            pool, _, name = path.rpartition("/")
            if driver == DRIVER:
                device = None if self._devices is UNKNOWN else self._devices.find(driver, pool, name)
                yield Offer(DeviceKind("")) if device is None else _offer(device, consumed)


def _results(allocations: Iterable[Object]) -> list[Object]:
    """The results of all requests of some allocations."""
    return [each for found in allocations for each in lookup(found, ("devices", "results")) or ()]


def _offer(device: Device, consumed: Mapping[str, Any] | None) -> Offer:
    """The kind of a published device, or of the share of it that a claim gets."""
    known = quota_device(device)
    taken = known.kind_taken(held_parts(device, consumed))
    part = taken.gpus / known.device.gpus
    if part == 1:
        return Offer(taken)
    shares = int(1 / part) if part else 0
    memory, held = known.device.memory, taken.memory
    # The memory of a share is rounded down to whole mebibytes.
    is_even = memory is not None and held is not None and shares and held // _MEBI == memory // _MEBI // shares
    return Offer(known.device, ShownSharing(shares)) if is_even or part * shares == 1 else Offer(taken)


def _published_kinds(view: ClusterView) -> Mapping[str, frozenset[tuple[int, int]]]:
    """The published devices of each node: kinds as numbers, each with the number of devices."""
    groups = gpu_groups(view)
    found: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for number, group in enumerate(() if groups is UNKNOWN else groups):
        for node, count in group.by_node.items():
            found[node].append((number, count))
    return {node: frozenset(kinds) for node, kinds in found.items()}


class QualityChange(NamedTuple):
    """Pods that find a place, and get GPUs that are not as good as before."""

    pods: int
    before: Grant
    after: Grant

    @property
    def gist(self) -> str:
        """The change in a few words: `shares instead of whole GPUs`."""
        new, old = self.after.main_kind, self.before.main_kind
        if new is None or old is None:
            return "no GPUs" if new is None else "other GPUs"
        if _form(new) != _form(old):
            return f"{_form(new)} instead of {_form(old)}"
        if fold_name(new.device.product) != fold_name(old.device.product):
            return f"{_form(new)} of another product"
        is_smaller = replica_kind(*new).gpus < replica_kind(*old).gpus
        return f"smaller {_form(new)}" if is_smaller else f"{_form(new)} with less memory"

    @property
    def words(self) -> str:
        """`8 quarters of Tesla-T4 (time-slicing) instead of 8 whole Tesla-T4`."""
        after, before = self.after.words, self.before.words
        if after == before:
            after, before = f"{after} with {_memory(self.after)}", _memory(self.before)
        return f"{after} instead of {before}"


def _form(kind: Offer) -> str:
    return "shares" if _is_share(kind) else "MIG devices" if kind.device.profile else "whole GPUs"


def _memory(grant: Grant) -> str:
    """The memory of each device of a grant."""
    sizes = sorted({_power(kind)[1] // 2**20 for kind, _ in grant.kinds})
    return format_list([f"{size:,}Mi" for size in sizes])


def quality_changes(
    was: Mapping[frozenset[Grant], int], rooms: Mapping[Grant, int], total: int
) -> tuple[QualityChange, ...]:
    """The pods that get GPUs that are not as good as before, most of them first.

    Pods take what they had, then what is better, those with the fewest choices first.

    Args:
        was: What pods had, or could have had, with the number of such pods.
        rooms: How many pods find a place, by what they get there; at most `total` at once.
        total: How many pods find a place.
    """
    left, missing = dict(rooms), dict(was)
    options = {had: [new for new in rooms if any(map(new.is_as_good_as, had))] for had in was}
    for had in sorted(was, key=lambda each: len(options[each])):
        for new in (*had.intersection(options[had]), *(each for each in options[had] if each not in had)):
            taken = min(missing[had], left[new])
            left[new] -= taken
            missing[had] -= taken
    others = min(sum(was.values()), total) - (sum(was.values()) - sum(missing.values()))
    changes = []
    for had in sorted(missing, key=lambda each: -missing[each]):
        for new in sorted(left, key=lambda grant: -left[grant]):
            taken = min(missing[had], left[new], others)
            if taken > 0:
                changes.append(QualityChange(taken, max(had, key=lambda grant: grant.words), new))
                left[new] -= taken
                missing[had] -= taken
                others -= taken
    return tuple(sorted(changes, key=lambda change: -change.pods))
