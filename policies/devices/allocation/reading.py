"""Reads unvalidated API objects as Go does, with the errors and feature gates of an allocation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from policies.cel import CelFeatures
from policies.devices.claim_schemas import schema_of
from policies.devices.deviceclasses import DeviceClass
from policies.devices.resource_claims import Claim
from policies.kubernetes.objects import FieldPath
from policies.kubernetes.schema import find_problems
from policies.kubernetes.versions import Feature

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Self

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView


class AllocationError(Exception):
    """The allocation cannot be computed, in the words that Kubernetes' scheduler uses for it.

    It stops the scheduling of the pod on every node, not only on the node at hand.
    """


class InvalidPoolsError(AllocationError):
    """No devices were found, and some pool could not be looked into because it is invalid.

    Unlike its parent, it rules out this node only.
    """

    def __init__(self) -> None:
        super().__init__("invalid resource pools were encountered")


class SearchBudgetExceeded(AllocationError):  # noqa: N818 - it is what its name says; callers catch it by that name
    """The search for devices was given up, so whether the claims fit this node is unknown."""

    def __init__(self, steps: int, node: str) -> None:
        """Describe a search that ended after a number of steps on a node."""
        self.steps = steps
        super().__init__(
            f"gave up after {steps:,} search steps without knowing whether the claims fit node {node}: too many "
            f"combinations of devices nearly satisfy them. Kubernetes tries them all until its scheduler times out "
            f"after 10 seconds. Request fewer devices, narrow the selectors, or drop constraints that "
            f"few devices satisfy together."
        )


class Implementation(Enum):
    """Kubernetes has its allocator three times, and uses the oldest that knows every feature that is on."""

    STABLE = "stable"
    INCUBATING = "incubating"
    EXPERIMENTAL = "experimental"


_OF_1_36 = CelFeatures(list_type_attributes=False)


@dataclass(frozen=True, slots=True)
class Features:
    """The features of the allocator; the defaults are what Kubernetes 1.36 has on by default.

    Source: k8s.io/dynamic-resource-allocation/structured/internal/types.go.
    """

    admin_access: bool = True
    consumable_capacity: bool = True
    binding_conditions: bool = True
    device_taints: bool = True
    list_type_attributes: bool = False
    partitionable_devices: bool = True
    prioritized_list: bool = True
    fractional_ranges: bool = False
    """Capacities are rounded up to steps in thousandths, not in whole numbers."""
    cel: CelFeatures = _OF_1_36
    """The features of CEL that no gate of the allocator decides."""
    names_failing_devices: bool = False
    """The error of a selector names the device."""
    merges_configs: bool = False
    """An allocation has each config once, and no requests in one that is for all of them."""
    counters_of_own_nodes: bool = False
    """Slices with counters count for a node only if they are for it; else for every node."""
    keeps_step_notation: bool = False
    """An amount rounded up to a step is written as the step is; else in binary notation."""
    refuses_amounts: bool = False
    """A requested capacity that cannot be rounded up, or is negative, is an error."""

    @classmethod
    def of_cluster(cls, view: ClusterView) -> Self:
        """The features that are on: by default in the version, or proven; without a version, those of 1.36."""
        return cls(
            admin_access=Feature.DRAAdminAccess.is_on(view) is not False,
            consumable_capacity=Feature.DRAConsumableCapacity.is_on(view) is not False,
            binding_conditions=Feature.DRADeviceBindingConditions.is_on(view) is not False,
            device_taints=Feature.DRADeviceTaints.is_on(view) is not False,
            list_type_attributes=Feature.DRAListTypeAttributes.is_on(view) is True,
            partitionable_devices=Feature.DRAPartitionableDevices.is_on(view) is not False,
            prioritized_list=Feature.DRAPrioritizedList.is_on(view) is not False,
            fractional_ranges=Feature.DRAFractionalCapacityRange.is_on(view) is True,
            cel=CelFeatures.of_cluster(view, new_expressions=False),
            names_failing_devices=Feature.DevicesInSelectorErrors.is_on(view) is True,
            merges_configs=Feature.ConfigsForAllRequests.is_on(view) is True,
            counters_of_own_nodes=Feature.CountersOfOwnNodes.is_on(view) is True,
            keeps_step_notation=Feature.StepNotation.is_on(view) is True,
            refuses_amounts=Feature.UnrepresentableAmounts.is_on(view) is True,
        )

    @property
    def stored_selectors(self) -> CelFeatures:
        """The features with which the scheduler compiles selectors."""
        return self.cel._replace(
            consumable_capacity=self.consumable_capacity, list_type_attributes=self.list_type_attributes
        )

    @property
    def implementation(self) -> Implementation:
        """The one of its allocators that Kubernetes uses with these features.

        Source: k8s.io/dynamic-resource-allocation/structured/allocator.go and the SupportedFeatures of each.
        """
        if self.list_type_attributes:
            return Implementation.EXPERIMENTAL
        if self.consumable_capacity or self.binding_conditions or self.fractional_ranges:
            return Implementation.INCUBATING
        return Implementation.STABLE


DEFAULTS = Features()


_NOTHING: Mapping[str, Any] = {}


def read_claim(document: Object) -> Claim:
    """A ResourceClaim.

    Raises:
        AllocationError: a field of its spec has the wrong type.
    """
    claim = Claim(document)
    _check_types("ResourceClaim", claim.version, document, f"claim {claim.label}")
    return claim


def read_classes(documents: Iterable[Object]) -> Mapping[str, DeviceClass]:
    """DeviceClasses by name; the first of two with the same name counts.

    Raises:
        AllocationError: a field of a spec has the wrong type.
    """
    classes: dict[str, DeviceClass] = {}
    for document in documents:
        found = DeviceClass(document)
        _check_types("DeviceClass", "v1", document, f"class {found.name}")
        classes.setdefault(found.name, found)
    return classes


def _check_types(kind: str, version: str, document: Object, where: str) -> None:
    schema, spec = schema_of(kind, version) or schema_of(kind, "v1"), document.get("spec")
    if schema is not None and spec is not None:
        for found in find_problems(schema.fields["spec"], spec, FieldPath(("spec",))):
            if found.kind == "type" and found.path[-1] != "parameters":
                raise AllocationError(f"{where}: {found.path}: {found.message}")


def mapping(parent: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
    """A JSON object; empty if it is missing."""
    value = parent.get(key)
    if value is None:
        return _NOTHING
    if not isinstance(value, dict):
        raise _wrong(where, key, "an object", value)
    return value


def items(parent: Mapping[str, Any], key: str, where: str) -> list[Any]:
    """A JSON array; empty if it is missing."""
    value = parent.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise _wrong(where, key, "a list", value)
    return value


def objects(parent: Mapping[str, Any], key: str, where: str) -> list[dict[str, Any]]:
    """A JSON array of objects; empty if it is missing."""
    found = items(parent, key, where)
    for position, value in enumerate(found):
        if not isinstance(value, dict):
            raise _wrong(where, f"{key}[{position}]", "an object", value)
    return found


def texts(parent: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    """A JSON array of strings; empty if it is missing."""
    found = items(parent, key, where)
    for position, value in enumerate(found):
        if not isinstance(value, str):
            raise _wrong(where, f"{key}[{position}]", "a string", value)
    return tuple(found)


def text(parent: Mapping[str, Any], key: str, where: str) -> str:
    """A string; empty if it is missing."""
    value = parent.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _wrong(where, key, "a string", value)
    return value


def integer(parent: Mapping[str, Any], key: str, where: str) -> int:
    """A whole number; 0 if it is missing."""
    value = parent.get(key)
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(where, key, "a whole number", value)
    return value


def flag(parent: Mapping[str, Any], key: str, where: str) -> bool:
    """A bool; false if it is missing."""
    value = parent.get(key)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise _wrong(where, key, "true or false", value)
    return value


def _wrong(where: str, key: str, kind: str, value: object) -> AllocationError:
    shown = repr(value)
    return AllocationError(f"{where}: {key} must be {kind}, not {shown if len(shown) <= 60 else shown[:57] + '...'}")
