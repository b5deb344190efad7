"""Parts of GPUs by memory: the alternatives of a claim for the wish `gpu-memory`.

A part is a share of a device that the DRA driver divides by memory, or a MIG device. What the cluster has decides: shares
come first, because they take no more than is wished, then the smallest MIG device of each node that has the memory. The
alternatives become a prioritized list (`firstAvailable`), and are recorded with the pod, so that its template does not
change with the cluster.

Source: KEP-4816, KEP-5075; github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/consumable_shares.go.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from policies.conversion.constraints import ConstraintError
from policies.conversion.templates import ExactRequest
from policies.devices.deviceclasses import GPU_CLASS, MIG_CLASS
from policies.devices.published_devices import gpu_groups
from policies.kubernetes.bounds import count_work
from policies.kubernetes.objects import lookup
from policies.kubernetes.quantities import quantity_or_none
from policies.kubernetes.versions import Feature
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.identifiers import DRIVER
from policies.nvidia.labels import Subject, device_predicate, profile_is
from policies.nvidia.mig import MIGProfile
from policies.nvidia.predicates import TRUE, CapacityIs, Predicate, Shareable, all_of, attribute_of, negate
from policies.nvidia.wish_words import as_sold, read_least_memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.conversion.constraints import NodeConstraints
    from policies.devices.published_devices import DeviceGroup
    from policies.kubernetes.resourceslices import Device
    from policies.kubernetes.view import ClusterView
    from policies.nvidia.wishes import Wish


MOST_SLICES = 8
"""Alternatives of a prioritized list. Source: k8s.io/api/resource/v1 types.go FirstAvailableDeviceRequestMaxSize."""

_NO_LABEL = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Slice:
    """One way to get a part of a GPU."""

    type: Literal["gpu", "mig"]
    """The type of the device."""
    is_share: bool = False
    """True for a share of the device, false for a MIG device."""
    is_unshared: bool = False
    """True for a MIG device where others can be held by several claims."""
    profile: MIGProfile | None = None
    """The profile of the MIG device; None for any."""

    def __str__(self) -> str:
        """As it is recorded: `share`, `mig-share`, `mig`, `mig-unshared`, `1g.20gb`."""
        if self.is_share:
            return "share" if self.type == "gpu" else "mig-share"
        return str(self.profile or ("mig-unshared" if self.is_unshared else "mig"))

    @classmethod
    def parse(cls, text: str) -> Slice:
        """Read a recorded slice.

        Raises:
            ValueError: No slice is written so.
        """
        for each in (SHARE, MIG_SHARE, ANY_MIG, UNSHARED_MIG):
            if str(each) == text:
                return each
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
        if not self.is_share:
            profile = profile_is(self.profile) if self.profile else TRUE
            unshared = negate(Shareable()) if self.is_unshared else TRUE
            return all_of([profile, unshared, constraints.predicate(subject), device_predicate(wish, subject)])
        # The bounds on memory are those of the share; the allocator compares its memory with what the device has left.
        rest = replace(wish, min_memory=None, max_memory=None, gpu_memory=None)
        is_divided = all_of([Shareable(), negate(CapacityIs("shares", ()))])
        return all_of([is_divided, constraints.predicate(subject), device_predicate(rest, subject)])

    def request(self, name: str, count: int, wish: Wish, constraints: NodeConstraints) -> ExactRequest:
        """The request for a number of such parts.

        Raises:
            ConstraintError: A condition on node labels has no equivalent on such a device.
        """
        memory = (wish.gpu_memory or 0) if self.is_share else 0
        return ExactRequest(name, self.device_class, count, self.predicate(wish, constraints), memory=memory)


SHARE, MIG_SHARE = Slice("gpu", is_share=True), Slice("mig", is_share=True)
ANY_MIG, UNSHARED_MIG = Slice("mig"), Slice("mig", is_unshared=True)


def divides_memory(device: Device) -> bool:
    """True if claims share the device by memory, and one that requests no amount takes all of it."""
    if not device.is_shareable or f"{DRIVER}/shares" in device.capacity:
        return False
    default = lookup(device.item("capacity", DRIVER, "memory"), ("requestPolicy", "default"))
    return bool(quantity_or_none(default))


def wished_slices(wish: Wish, constraints: NodeConstraints, view: ClusterView) -> tuple[Slice, ...]:
    """The alternatives for the part of a GPU that a pod wishes, the preferred one first; at least one.

    If no device of the cluster has such a part, or if devices are unknown, they are those that a later device can have.
    Alternatives on which the pod's conditions on node labels cannot be written are left out.
    """
    known = gpu_groups(view)
    groups = () if known is UNKNOWN else known
    found = list(_offered_slices(wish, constraints, groups)) or list(_possible_slices(groups, view))
    if wish.sharing == "shared":
        found = [each for each in found if each.is_share] or [SHARE]
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
    for share in (SHARE, MIG_SHARE):
        if any(_has_part(each, share, memory) for each in meeting):
            yield share
    if any(each.type == "mig" and each.is_shareable for each in groups):
        return  # A MIG device that several claims can hold is no part by itself.
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
    shares_otherwise = any(each.is_shareable and not divides_memory(each.first) for each in groups)
    if Feature.DRAConsumableCapacity.is_on(view) is True and not shares_otherwise:
        yield SHARE
    yield UNSHARED_MIG if shares_otherwise else ANY_MIG


_MEMORY = f"{DRIVER}/memory"


def _has_part(group: DeviceGroup, part: Slice, memory: int) -> bool:
    """True if devices are of the type of a part and have its memory, in MiB."""
    device = group.first
    is_divided = divides_memory(device) if part.is_share else not device.is_shareable
    return group.type == part.type and is_divided and device.capacity.get(_MEMORY, 0) >= memory * 2**20


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
