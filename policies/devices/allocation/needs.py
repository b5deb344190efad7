"""The claims to allocate, with everything that decides about them except nodes and slices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from policies.devices.allocation.checks import Checks
from policies.devices.allocation.pools import PoolState
from policies.devices.allocation.reading import AllocationError, Implementation, read_claim, read_classes
from policies.devices.allocation.usage import Usage
from policies.devices.resource_claims import MOST_DEVICES
from policies.kubernetes.quantities import INT64_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from policies.devices.allocation.node_selectors import TargetNode
    from policies.devices.allocation.pools import Pool, SliceIndex
    from policies.devices.allocation.reading import Features
    from policies.devices.allocation.slices import AllocatableDevice
    from policies.devices.deviceclasses import DeviceClass
    from policies.devices.resource_claims import Claim, DeviceRequest, Subrequest
    from policies.kubernetes.objects import Object

__all__ = ["Candidate", "Need", "Needs", "Question"]


@dataclass(frozen=True, slots=True)
class Question:
    """Claims that are to be allocated together."""

    claims: tuple[Claim, ...]
    classes: Mapping[str, DeviceClass]
    usage: Usage
    features: Features
    checks: Checks

    @classmethod
    def read(
        cls,
        claims: Iterable[Object],
        classes: Iterable[Object],
        usage: Usage,
        features: Features,
        index: SliceIndex,
    ) -> Question:
        """Read ResourceClaims and DeviceClasses, for the devices of an index.

        Raises:
            AllocationError: a field is of the wrong type.
        """
        read = tuple(map(read_claim, claims))
        by_name = read_classes(classes)
        known = _supported_usage(usage, features)
        return cls(read, by_name, known, features, Checks.of(read, by_name, features, known, index))

    def against(self, usage: Usage) -> Question:
        """The same where other claims hold something else."""
        known = _supported_usage(usage, self.features)
        return replace(self, usage=known, checks=self.checks.against(known))


def _supported_usage(usage: Usage, features: Features) -> Usage:
    """The stable implementation knows no shares."""
    return Usage(usage.devices, known_pools=usage.pools) if features.implementation is Implementation.STABLE else usage


class Candidate(NamedTuple):
    """A device, and what the node sees of its pool."""

    device: AllocatableDevice
    pool: Pool


@dataclass(frozen=True, slots=True)
class Need:
    """What one alternative of a request needs."""

    count: int
    devices: tuple[Candidate, ...] | None = None
    """All devices, for a request with allocationMode All."""


class Needs:
    """Validates claims for one node, and finds what their requests need there.

    Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go Allocate,
    validateDeviceRequest.
    """

    def __init__(self, question: Question, node: TargetNode, pools: Sequence[Pool]) -> None:
        self._classes = question.classes
        self._features = question.features
        self._checks = question.checks
        self._node = node
        self._pools = pools

    def of_claim(self, claim: Claim) -> dict[Subrequest, Need]:
        """The need of every alternative.

        Raises:
            AllocationError: the claim requests something that this cluster does not support, or more devices than an
                allocation can have, or all devices of a pool that is incomplete or invalid.
        """
        needs: dict[Subrequest, Need] = {}
        least = 0
        for request in claim.requests:
            self._check_features(claim, request)
            if not request.subrequests:
                where = f"claim {claim.label}, request {request.name}"
                raise AllocationError(f"{where}: missing device class name (unsupported request type?)")
            of_request = {each: self._of(claim, each) for each in request.subrequests}
            needs |= of_request
            least += min(need.count for need in of_request.values())
        if least > MOST_DEVICES:
            raise AllocationError(
                f"claim {claim.label}: number of requested devices {least} exceeds the claim limit of {MOST_DEVICES}"
            )
        return needs

    def _check_features(self, claim: Claim, request: DeviceRequest) -> None:
        if request.is_prioritized and not self._features.prioritized_list:
            raise AllocationError(
                f"claim {claim.label}, request {request.name}: has subrequests, "
                f"but the DRAPrioritizedList feature is disabled"
            )
        if self._features.consumable_capacity or self._features.implementation is Implementation.STABLE:
            return
        kind = "subrequest" if request.is_prioritized else "request"
        for subrequest in request.subrequests:
            if subrequest.capacity is not None:
                raise AllocationError(
                    f"claim {claim.label}, {kind} {subrequest.name}: has capacity requests, "
                    f"but the DRAConsumableCapacity feature is disabled"
                )

    def _of(self, claim: Claim, subrequest: Subrequest) -> Need:
        where = f"claim {claim.label}, request {subrequest.name}"
        if None in subrequest.selectors:
            position = subrequest.selectors.index(None)
            raise AllocationError(f"{where}, selector #{position}: CEL expression empty (unsupported selector type?)")
        if subrequest.sets_admin_access and not self._features.admin_access:
            raise AllocationError(f"{where}: admin access is requested, but the feature is disabled")
        if not subrequest.device_class:
            raise AllocationError(f"{where}: missing device class name (unsupported request type?)")
        if subrequest.device_class not in self._classes:
            # As Kubernetes' allocator tests have it; its scheduler looks for classes before, and says it better.
            missing = f'could not retrieve device class {subrequest.device_class}:  "not found" not found'
            raise AllocationError(f"{where}: {missing}")
        if subrequest.allocation_mode == "ExactCount":
            if subrequest.count > INT64_MAX:
                raise AllocationError(f"{where}: exact count {subrequest.count} is too large")
            return Need(subrequest.count)
        if subrequest.allocation_mode == "All":
            devices = self._all(claim, subrequest)
            return Need(len(devices), tuple(devices))
        raise AllocationError(f"{where}: unsupported count mode {subrequest.allocation_mode}")

    def _all(self, claim: Claim, subrequest: Subrequest) -> list[Candidate]:
        devices: list[Candidate] = []
        for pool in self._pools:
            if pool.state in (PoolState.INCOMPLETE, PoolState.INVALID):
                trouble = "being updated" if pool.state is PoolState.INCOMPLETE else "invalid"
                raise AllocationError(
                    f"claim {claim.label}, request {subrequest.name}: asks for all devices, "
                    f"but resource pool {pool.name} is currently {trouble}"
                )
            devices += [
                Candidate(device, pool)
                for device in pool.devices()
                if self._checks.selectable(claim, subrequest, device, self._node) is None
                and self._checks.capacity(subrequest, device, {}) is None
            ]
        return devices
