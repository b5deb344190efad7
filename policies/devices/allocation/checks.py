"""The checks of a device for a request, and the needs of the claims to allocate."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.cel import CelCompileError, CelRuntimeError
from policies.devices.allocation.capacity import Reason, Rejection, demand
from policies.devices.allocation.pools import PoolState
from policies.devices.allocation.reading import AllocationError, Implementation, read_claim, read_classes
from policies.devices.allocation.shapes import Selectors
from policies.devices.allocation.usage import Usage
from policies.devices.device_taint_rules import PREVENTING
from policies.devices.resource_claims import MOST_DEVICES
from policies.kubernetes.quantities import INT64_MAX
from policies.nvidia.identifiers import DRIVER

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from policies.devices.allocation.capacity import Demand
    from policies.devices.allocation.pools import Pool, SliceIndex
    from policies.devices.allocation.reading import Features
    from policies.devices.allocation.shapes import AttributeRead, DeviceShapes
    from policies.devices.allocation.slices import AllocatableDevice, Slice, TargetNode
    from policies.devices.deviceclasses import DeviceClass
    from policies.devices.resource_claims import Claim, DeviceRequest, Subrequest
    from policies.kubernetes.objects import Object


def first_untolerated(
    taints: Iterable[Mapping[str, Any]], tolerations: Iterable[Mapping[str, Any]]
) -> Mapping[str, Any] | None:
    """The first taint that prevents allocation and that no toleration tolerates.

    Other effects, `None` and those of the future, prevent nothing.

    Source: k8s.io/dynamic-resource-allocation/resourceclaim/devicetoleration.go ToleratesTaint.
    """
    known = tuple(tolerations)
    for taint in taints:
        if taint.get("effect") in PREVENTING and not any(tolerates(toleration, taint) for toleration in known):
            return taint
    return None


def tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    """True if a toleration is for a taint; of which effect that taint is does not matter here."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    operator = toleration.get("operator") or "Equal"
    if operator == "Equal":
        return (toleration.get("value") or "") == (taint.get("value") or "")
    return bool(operator == "Exists")


_IN_USE = Rejection(Reason.IN_USE)
_BINDING_CONDITIONS_OFF = Rejection(Reason.BINDING_CONDITIONS_OFF)
_OTHER_NODE = Rejection(Reason.OTHER_NODE)
_COUNTERS_OFF = Rejection(Reason.COUNTERS_OFF)
_OFTEN_READ = frozenset(
    (DRIVER, name) for name in ("type", "productName", "architecture", "cudaComputeCapability", "profile")
)
"""Attributes that most selectors read and like GPUs have in common: all questions about them share the shapes of devices."""


@dataclass(slots=True, eq=False)
class Checks:
    """The checks that depend on the device and the request only, not on what else was picked.

    Most return the rejection of the device, or None if it passes. Results are cached by the device's shape, so equal
    devices on other nodes cost nothing.
    """

    _classes: Mapping[str, DeviceClass]
    _features: Features
    _usage: Usage
    _selectors: Selectors
    shapes: DeviceShapes
    _selected: dict[tuple[Subrequest, int], Rejection | None] = field(default_factory=dict)
    _demands: dict[tuple[Subrequest, int], Demand | Rejection] = field(default_factory=dict)
    _tainted: dict[tuple[Subrequest, int], Rejection | None] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        claims: Sequence[Claim],
        classes: Mapping[str, DeviceClass],
        features: Features,
        usage: Usage,
        index: SliceIndex,
    ) -> Checks:
        """The checks for some claims on the devices of an index."""
        selectors = Selectors(features)
        read = selectors.reads(_expressions(claims, classes))
        shapes = index.shapes(None if read is None else read | _attributes(claims) | _OFTEN_READ)
        return cls(classes, features, usage, selectors, shapes)

    def against(self, usage: Usage) -> Checks:
        """The same checks with other usage; cached results that do not depend on it are shared."""
        return replace(self, _usage=usage)

    def in_use(self, subrequest: Subrequest, device: AllocatableDevice) -> Rejection | None:
        """A rejection if another claim holds the device alone; never with admin access."""
        return _IN_USE if device.id in self._usage.devices and not subrequest.has_admin_access else None

    def binding_conditions(self, device: AllocatableDevice) -> Rejection | None:
        """A rejection if the device has binding conditions that this cluster does not support."""
        known = self._features.binding_conditions or not device.binding_conditions
        return None if known else _BINDING_CONDITIONS_OFF

    def selectors(self, claim: Claim, subrequest: Subrequest, device: AllocatableDevice) -> Rejection | None:
        """The first selector that does not match: those of the class come first, then the request's own.

        Raises:
            AllocationError: a selector cannot be compiled, or fails on this device.
        """
        key = (subrequest, self.shapes.of(device))
        if key not in self._selected:
            self._selected[key] = self._selector_rejection(claim, subrequest, device)
        return self._selected[key]

    def _selector_rejection(self, claim: Claim, subrequest: Subrequest, device: AllocatableDevice) -> Rejection | None:
        of_class = self._classes[subrequest.device_class].selectors
        for reason, owner, expressions in (
            (Reason.CLASS_SELECTOR, f"class {subrequest.device_class}", of_class),
            (Reason.REQUEST_SELECTOR, f"claim {claim.label}", subrequest.selectors),
        ):
            position = self._selectors.first_unmatched(owner, expressions, device, self.shapes)
            if position is not None:
                return Rejection(reason, index=position, name=expressions[position] or "")
        return None

    def matches(self, expression: str, device: AllocatableDevice) -> bool | None:
        """True if a selector, or a part of one, is true of a device; None if it fails."""
        try:
            return self._selectors.matches(expression, device, self.shapes)
        except (CelCompileError, CelRuntimeError):
            return None

    def node(self, device: AllocatableDevice, node: TargetNode) -> Rejection | None:
        """A rejection if the device, but not its whole slice, is for another node.

        Raises:
            AllocationError: its node selector is invalid.
        """
        if not device.slice.selects_per_device:
            return None
        return None if node.matches(device.slice.selection_of(device)) else _OTHER_NODE

    def demand(self, subrequest: Subrequest, device: AllocatableDevice) -> Demand | Rejection:
        """The amounts that the request takes of the device, or a rejection if the whole device is too small.

        Raises:
            AllocationError: the device's capacity cannot be read, or the requested one cannot be rounded up.
        """
        key = (subrequest, self.shapes.of(device))
        if key not in self._demands:
            self._demands[key] = demand(device, subrequest.capacity, self._features)
        return self._demands[key]

    def capacity(
        self, subrequest: Subrequest, device: AllocatableDevice, picked: Mapping[str, int]
    ) -> Rejection | None:
        """A rejection if other claims and the devices picked so far leave too little capacity.

        Raises:
            AllocationError: the device's capacity cannot be read.
        """
        if not self._features.consumable_capacity:
            return None
        needed = self.demand(subrequest, device)
        if isinstance(needed, Rejection):
            return needed
        return next(needed.shortages(self._usage.taken_capacity(device.id) or {}, picked), None)

    def capacity_shortages(self, subrequest: Subrequest, device: AllocatableDevice) -> tuple[Rejection, ...]:
        """A rejection for each capacity of the device of which other claims leave too little.

        Raises:
            AllocationError: the device's capacity cannot be read.
        """
        needed = self.demand(subrequest, device)
        if isinstance(needed, Rejection):
            return (needed,)
        return tuple(needed.shortages(self._usage.taken_capacity(device.id) or {}, {}))

    def counters(self, device: AllocatableDevice) -> Rejection | None:
        """A rejection if the device consumes counters that this cluster does not support."""
        return _COUNTERS_OFF if device.counter_sets and not self._features.partitionable_devices else None

    def taints(self, subrequest: Subrequest, device: AllocatableDevice) -> Rejection | None:
        """The first taint that keeps the device from the request."""
        if not self._features.device_taints or not device.taints:
            return None
        key = (subrequest, self.shapes.of(device))
        if key not in self._tainted:
            taint = first_untolerated(device.taints, subrequest.tolerations)
            self._tainted[key] = None if taint is None else Rejection(Reason.TAINT, taint=taint)
        return self._tainted[key]

    def is_shareable(self, device: AllocatableDevice) -> bool:
        """True if several claims can hold the device at once in this cluster."""
        return self._features.consumable_capacity and device.is_shareable

    def slice_shape(self, found: Slice) -> Hashable:
        """A key of the devices of a slice: their shapes and what other claims hold of them, in any order."""
        numbers = self.shapes.of_slice(found)
        if found.path not in self._usage.pools:
            return numbers
        return frozenset(Counter(zip(numbers, map(self.holdings, found.devices), strict=True)).items())

    def holdings(self, device: AllocatableDevice) -> tuple[object, ...]:
        """The parts of the device that other claims hold; devices of one shape may differ in it."""
        name = device.id
        taken = self._usage.taken_capacity(name)
        return (
            name in self._usage.devices,
            self._usage.holds(name),
            None if taken is None else frozenset(taken.items()),
        )

    def selectable(
        self, claim: Claim, subrequest: Subrequest, device: AllocatableDevice, node: TargetNode
    ) -> Rejection | None:
        """The first rejection by the checks that do not depend on picked devices, in Kubernetes' order.

        Raises:
            AllocationError: a selector cannot be compiled or fails on this device, or a node selector is invalid.
        """
        return self.binding_conditions(device) or self.selectors(claim, subrequest, device) or self.node(device, node)


def _expressions(claims: Iterable[Claim], classes: Mapping[str, DeviceClass]) -> set[str]:
    subrequests = [each for claim in claims for each in claim.subrequests]
    own = (expression for each in subrequests for expression in each.expressions)
    named = {each.device_class for each in subrequests} & classes.keys()
    of_classes = (expression for name in named for expression in classes[name].selectors)
    return {expression for expression in (*own, *of_classes) if expression is not None}


def _attributes(claims: Iterable[Claim]) -> frozenset[AttributeRead]:
    specs = [spec for claim in claims for spec in claim.constraints]
    names = (name for spec in specs for name in (spec.match_attribute, spec.distinct_attribute) if name is not None)
    return frozenset((domain, name) for domain, _, name in (each.partition("/") for each in names))


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
        cls, claims: Iterable[Object], classes: Iterable[Object], usage: Usage, features: Features, index: SliceIndex
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
    """The need of one alternative of a request."""

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
            name = subrequest.device_class
            missing = f'deviceclass.resource.k8s.io "{name}" not found'
            raise AllocationError(f"{where}: could not retrieve device class {name}: {missing}")
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
