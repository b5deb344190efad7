"""Parts of GPUs by memory: the alternatives of a claim for the wish `gpu-memory`.

A part is a share of a GPU that the DRA driver divides by memory, or a MIG device, which one claim holds alone in every mode
of sharing. What the cluster has decides: shares come first, because they take no more than is wished, then the smallest
MIG device of each node that has the memory. The alternatives become a prioritized list (`firstAvailable`), and are
recorded with the pod, so that its template does not change with the cluster.

Source: KEP-4816, KEP-5075; github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/consumable_shares.go.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from policies.conversion.constraints import ConstraintError
from policies.conversion.templates import ExactRequest
from policies.devices.device_sharing import SharingMode, requested_parts, sharing_of
from policies.devices.deviceclasses import GPU_CLASS, MIG_CLASS
from policies.devices.published_devices import gpu_groups
from policies.kubernetes.bounds import count_work
from policies.kubernetes.quantities import mebibytes_text
from policies.kubernetes.versions import Feature
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.identifiers import DRIVER
from policies.nvidia.labels import Subject, device_predicate, profile_is
from policies.nvidia.mig import MIGProfile
from policies.nvidia.number_predicates import CapacityIs
from policies.nvidia.predicates import TRUE, Predicate, Shareable, all_of, attribute_of, negate
from policies.nvidia.wish_words import as_sold, read_least_memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.conversion.constraints import NodeConstraints
    from policies.devices.published_devices import DeviceGroup
    from policies.kubernetes.view import ClusterView
    from policies.nvidia.wishes import Wish


MOST_SLICES = 8
"""Alternatives of a prioritized list. Source: k8s.io/api/resource/v1 types.go FirstAvailableDeviceRequestMaxSize."""

_NO_LABEL = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Slice:
    """One way to get a part of a GPU."""

    type: Literal["gpu", "mig"]
    """A share of a GPU, or a MIG device."""
    profile: MIGProfile | None = None
    """The profile of the MIG device; None for any."""

    def __str__(self) -> str:
        """As it is recorded: `share`, `mig`, `1g.20gb`."""
        return "share" if self.type == "gpu" else str(self.profile or "mig")

    @classmethod
    def parse(cls, text: str) -> Slice:
        """Read a recorded slice.

        Raises:
            ValueError: No slice is written so.
        """
        known = {str(each): each for each in (SHARE, ANY_MIG)}
        if text in known:
            return known[text]
        profile = MIGProfile.parse(text)
        if profile is None:
            raise ValueError(text)
        return cls("mig", profile=profile)

    @property
    def name(self) -> str:
        """The name of its entry in a prioritized list, a DNS label: `share`, `mig-1g-20gb`."""
        spelt = str(self.profile or "").lower().replace("-", "-no-")
        return f"mig-{_NO_LABEL.sub('-', spelt)}" if spelt else str(self)

    @property
    def device_class(self) -> str:
        """The DeviceClass of the device."""
        return GPU_CLASS if self.type == "gpu" else MIG_CLASS

    def predicate(self, wish: Wish, constraints: NodeConstraints) -> Predicate:
        """The predicate on devices of this class.

        Raises:
            ConstraintError: A condition on node labels has no equivalent on such a device.
        """
        subject = Subject(self.type, self.profile)
        if self.type == "mig":
            profile = profile_is(self.profile) if self.profile else TRUE
            return all_of([profile, constraints.predicate(subject), device_predicate(wish, subject)])
        # A claim takes all multiprocessors of a GPU that publishes them (DynamicMIG), and so all of the GPU. The bounds on
        # memory are those of the share, and the allocator compares its memory with what the device has left.
        rest = replace(wish, min_memory=None, max_memory=None, gpu_memory=None)
        divided_otherwise = (negate(CapacityIs(name, ())) for name in ("shares", "multiprocessors"))
        return all_of(
            [Shareable(), *divided_otherwise, constraints.predicate(subject), device_predicate(rest, subject)]
        )

    def request(self, name: str, count: int, wish: Wish, constraints: NodeConstraints) -> ExactRequest:
        """The request for a number of such parts.

        Raises:
            ConstraintError: A condition on node labels has no equivalent on such a device.
        """
        memory = (wish.gpu_memory or 0) if self.type == "gpu" else 0
        return ExactRequest(name, self.device_class, count, self.predicate(wish, constraints), memory=memory)


SHARE, ANY_MIG = Slice("gpu"), Slice("mig")


def wished_slices(wish: Wish, constraints: NodeConstraints, view: ClusterView) -> tuple[Slice, ...]:
    """The alternatives for the part of a GPU that a pod wishes, the preferred one first; at least one.

    If no device of the cluster has such a part, or if devices are unknown, they are those that a later device can have.
    Alternatives on which the pod's conditions on node labels cannot be written are left out.
    """
    known = gpu_groups(view)
    groups = () if known is UNKNOWN else known
    found = list(_offered_slices(wish, constraints, groups)) or list(_possible_slices(groups, view))
    if wish.sharing == "shared":
        found = [SHARE]
    expressible = [each for each in found if _is_expressible(each, wish, constraints)] or found
    return tuple(expressible[: 1 if Feature.DRAPrioritizedList.is_on(view) is False else MOST_SLICES])


def amount_as_sold(wish: Wish, constraints: NodeConstraints, groups: Sequence[DeviceGroup]) -> str | None:
    """The amount in gigabytes instead of gibibytes, if a device has such a part: `20G` for `20Gi`."""
    sold = as_sold(f"{wish.gpu_memory}Mi")
    if sold is None:
        return None
    smaller = replace(wish, gpu_memory=read_least_memory(sold))
    return sold if any(_offered_slices(smaller, constraints, groups)) else None


def has_slice(slices: Sequence[Slice], wish: Wish, constraints: NodeConstraints, groups: Sequence[DeviceGroup]) -> bool:
    """True if a published device has one of these parts and meets the pod's conditions."""
    return any(
        _has_part(group, each, wish.gpu_memory or 0) and each.predicate(wish, constraints).matches(group.first)
        for each in slices
        for group in groups
    )


def _offered_slices(wish: Wish, constraints: NodeConstraints, groups: Sequence[DeviceGroup]) -> Iterator[Slice]:
    """The alternatives that published devices have."""
    memory = wish.gpu_memory or 0
    meeting = [each for each in groups if _meets_rest(each, wish, constraints)] or groups
    if any(_has_part(each, SHARE, memory) for each in meeting):
        yield SHARE
    smallest: dict[str, tuple[int, int, str]] = {}
    profiles: dict[tuple[int, int, str], MIGProfile] = {}
    for group in meeting:
        profile = MIGProfile.parse(str(attribute_of(group.first, "profile")))
        if profile is None or not _has_part(group, ANY_MIG, memory):
            continue
        size = int(group.first.capacity[_MEMORY]), profile.gpu_slices, str(profile)
        profiles[size] = profile
        count_work(len(group.by_node))
        for node in group.by_node:
            smallest[node] = min(size, smallest.get(node, size))
    used = dict.fromkeys(profiles[size] for size in sorted(set(smallest.values())))
    yield from (Slice("mig", profile=profile) for profile in used)


def _possible_slices(groups: Sequence[DeviceGroup], view: ClusterView) -> Iterator[Slice]:
    """The alternatives of later devices; no shares if devices are shared in another way now."""
    modes = {sharing_of(each.first).mode for each in groups if each.type == "gpu"}
    if Feature.DRAConsumableCapacity.is_on(view) is True and not modes & {SharingMode.SHARES, SharingMode.UNLIMITED}:
        yield SHARE
    yield ANY_MIG


_MEMORY = f"{DRIVER}/memory"


def _has_part(group: DeviceGroup, part: Slice, memory: int) -> bool:
    """True if devices are of the type of a part and have its memory, in MiB."""
    device = group.first
    if group.type != part.type:
        return False
    if part.type == "mig":
        return device.capacity.get(_MEMORY, 0) >= memory * 2**20
    taken = requested_parts(device, {"memory": mebibytes_text(memory)})
    if taken is None or sharing_of(device).mode is not SharingMode.MEMORY:
        return False
    return max(taken.values()) == taken.get("memory")


def _meets_rest(group: DeviceGroup, wish: Wish, constraints: NodeConstraints) -> bool:
    """True if devices meet the pod's other wishes and its conditions on node labels."""
    if group.type not in ("gpu", "mig"):
        return False
    subject = Subject("gpu" if group.type == "gpu" else "mig")
    rest = replace(wish, min_memory=None, max_memory=None, gpu_memory=None)
    try:
        conditions = constraints.predicate(subject)
    except ConstraintError:
        return False
    return all_of([conditions, device_predicate(rest, subject)]).matches(group.first)


def _is_expressible(part: Slice, wish: Wish, constraints: NodeConstraints) -> bool:
    try:
        part.predicate(wish, constraints)
    except ConstraintError:
        return False
    return True
