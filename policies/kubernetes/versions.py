"""The table of what versions of Kubernetes do differently, which says what is on in a cluster.

What a cluster shows is stronger than its version: its API server lists its gates in `/metrics`, and drops the fields of a
gate that is off before it stores an object, so a stored field proves that the gate is on.

Source: k8s.io/kubernetes pkg/features/kube_features.go of 1.36.2, k8s.io/kube-scheduler pkg/features and the reference of
feature gates of 1.37; pkg/registry/resource/resourceslice/strategy.go and deviceclass/strategy.go, dropDisabledFields.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, unique
from typing import TYPE_CHECKING

from policies.kubernetes.objects import lookup, mappings_at
from policies.kubernetes.resourceslices import device_fields
from policies.kubernetes.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView, Unknown


Version = tuple[int, int]
"""Major and minor version."""

NEWEST_READ: Version = 1, 36
"""The newest version whose fields are all known here."""
_MAJOR = 1


class Stage(Enum):
    """The stage of a feature in a version, with whether it is on by default."""

    ALPHA = "alpha", False
    BETA_OFF = "beta, off", False
    BETA = "beta", True
    GA = "GA", True
    ALWAYS = "yes", True
    """Not behind a feature gate."""
    REMOVED = "removed", False

    def __init__(self, words: str, is_on: bool) -> None:
        self.words = words
        self.is_on = is_on


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """The history of one feature."""

    stages: Mapping[int, Stage]
    """By the minor version that began with it, in order."""
    reading: str
    """The difference in what gpu-admission reads."""
    what: str = ""
    """The behaviour, if no feature gate has this name."""
    shown_by: str = ""
    """The stored field that proves that it is on, if one does."""
    source: str = ""
    """The file of kubernetes/kubernetes, if it is not pkg/features/kube_features.go."""


_NOT_READ = "Not read yet: "
_ALPHA, _BETA_OFF, _BETA, _GA, _ALWAYS, _REMOVED = Stage


@unique
class Feature(Enum):
    """A feature gate, by its name in Kubernetes, or a behaviour without one."""

    DynamicResourceAllocation = Row(
        {26: _ALPHA, 32: _BETA_OFF, 34: _GA}, "`preflight` warns if `/metrics` shows that it is off"
    )
    DRAAdminAccess = Row({32: _ALPHA, 34: _BETA, 36: _GA}, "`adminAccess` of requests, in rules and in the allocator")
    DRAPrioritizedList = Row({33: _ALPHA, 34: _BETA, 36: _GA}, "`firstAvailable`, in rules and in the allocator")
    DRAConsumableCapacity = Row(
        {34: _ALPHA, 36: _BETA},
        "`capacity` of requests, `distinctAttribute`, shared devices; in CEL and in the allocator",
        shown_by="`allowMultipleAllocations` of a device",
    )
    DRADeviceTaints = Row(
        {33: _ALPHA, 36: _BETA, 37: _GA},
        "taints of devices and tolerations of requests",
        shown_by="`taints` of a device",
    )
    DRADeviceTaintRules = Row(
        {35: _ALPHA, 36: _BETA_OFF, 37: _GA},
        "taints that DeviceTaintRules add to devices, and pods that they end",
        shown_by="`EvictionInProgress` in the status of a DeviceTaintRule",
    )
    DRADeviceBindingConditions = Row(
        {34: _ALPHA, 36: _BETA}, "the implementation of the allocator", shown_by="`bindingConditions` of a device"
    )
    DRAPartitionableDevices = Row(
        {33: _ALPHA, 36: _BETA},
        "counters that devices share, such as those of MIG",
        shown_by="`sharedCounters` or `perDeviceNodeSelection` of a ResourceSlice, `consumesCounters` of a device",
    )
    DRAListTypeAttributes = Row(
        {36: _ALPHA}, "attributes that are lists, `includes` in CEL", shown_by="an attribute of a device that is a list"
    )
    DRAExtendedResource = Row(
        {34: _ALPHA, 36: _BETA, 37: _GA},
        "`extendedResourceName` of DeviceClasses; the strategies `rename`, `leave` and `auto`; ResourceQuotas that count "
        "claims as extended resources",
        shown_by="`extendedResourceName` of a DeviceClass",
    )
    DRAFractionalCapacityRange = Row(
        {37: _BETA_OFF, 38: _BETA}, "fractions in `requestPolicy.validRange`, in the allocator"
    )
    DRAResourceClaimDeviceStatus = Row(
        {32: _ALPHA, 33: _BETA, 37: _GA},
        "`status.devices` of claims: the condition `Ready` and network interfaces, in `explain`, `usage` and `report`",
    )
    DRAWorkloadResourceClaims = Row({36: _ALPHA, 37: _BETA_OFF}, "claims of PodGroups, if PodGroups are served")
    GenericWorkload = Row(
        {35: _ALPHA, 37: _BETA_OFF}, "PodGroups, in the version of `scheduling.k8s.io` that is served"
    )
    WorkloadWithJob = Row(
        {36: _ALPHA},
        "where it is shown to be off, the pods of a Job share no claims by `spec.scheduling.resourceClaims`",
    )
    RelaxedEnvironmentVariableValidation = Row(
        {30: _ALPHA, 32: _BETA, 34: _GA}, "names of environment variables in the operator's configuration (GA115)"
    )
    ResourceHealthStatus = Row(
        {31: _ALPHA, 36: _BETA},
        "`allocatedResourcesStatus` of pods: unhealthy devices, in `explain`, `usage` and `report`",
    )
    ManifestBasedAdmissionControlConfig = Row(
        {36: _ALPHA, 37: _BETA},
        "`deploy/render.py --static` writes admission policies, and webhooks by URL, for the files of an API server",
        source="staging/src/k8s.io/apiserver/pkg/features/kube_features.go",
    )

    ResourceV1 = Row(
        {34: _ALWAYS},
        "on older API servers, claims, classes and slices are unknown; older kubelets cannot read claims (GA336)",
        what="`resource.k8s.io/v1` is served",
        source="staging/src/k8s.io/api/resource/v1/types.go",
    )
    ResourceV1Beta2 = Row(
        {33: _BETA_OFF, 39: _REMOVED},
        "objects of that version (GA200)",
        what="`resource.k8s.io/v1beta2` is served",
        source="staging/src/k8s.io/api/resource/v1beta2/types.go",
    )
    ResourceV1Beta1 = Row(
        {32: _BETA_OFF, 38: _REMOVED},
        "objects of that version (GA200)",
        what="`resource.k8s.io/v1beta1` is served",
        source="staging/src/k8s.io/api/resource/v1beta1/types.go",
    )
    DeviceTaintRuleV1 = Row(
        {37: _ALWAYS},
        "rules of that version (GA200)",
        what="DeviceTaintRules are served in `resource.k8s.io/v1`",
        source="staging/src/k8s.io/api/resource/v1/types.go",
    )
    DeviceTaintRuleV1Beta2 = Row(
        {36: _BETA_OFF, 42: _REMOVED},
        "rules of that version (GA200)",
        what="DeviceTaintRules are served in `resource.k8s.io/v1beta2`",
        source="staging/src/k8s.io/api/resource/v1beta2/types.go",
    )
    DeviceTaintRuleV1Alpha3 = Row(
        {33: _ALPHA, 39: _REMOVED},
        "rules of that version (GA200)",
        what="DeviceTaintRules are served in `resource.k8s.io/v1alpha3`",
        source="staging/src/k8s.io/api/resource/v1alpha3/types.go",
    )
    RequestsInClassConfigs = Row(
        {35: _ALWAYS},
        "which config NVIDIA's driver applies to a request",
        what="the scheduler writes the names of requests into the configs that it copies from a class",
        source="staging/src/k8s.io/dynamic-resource-allocation/structured/internal/stable/allocator_stable.go",
    )
    CelGo029 = Row(
        {37: _ALWAYS},
        "names of fields between backticks; the costs of `startsWith`, `endsWith` and `matches`; what `lists.range`, "
        "`indexOf`, `or` and `orValue` refuse",
        what="selectors are compiled with cel-go 0.29, not 0.26",
        source="go.mod",
    )
    StoredListAttributes = Row(
        {37: _ALWAYS},
        "types in stored selectors, and devices with such attributes",
        what="CEL evaluates attributes that are lists, and stored selectors take attributes for dyn, without "
        "DRAListTypeAttributes too",
        source="staging/src/k8s.io/dynamic-resource-allocation/cel/compile.go",
    )
    StandardIncludes = Row(
        {37: _ALWAYS},
        "the cost of `includes`, and lists of more than 48 elements",
        what="`includes` is in CEL's library of lists, not DRA's",
        source="staging/src/k8s.io/apiserver/pkg/cel/library/lists.go",
    )
    DevicesInSelectorErrors = Row(
        {37: _ALWAYS},
        "the texts of such errors",
        what="the scheduler's error of a selector names the device, and advises optional chaining where a key is missing",
        source="staging/src/k8s.io/dynamic-resource-allocation/cel/errors.go",
    )
    ConfigsForAllRequests = Row(
        {37: _ALWAYS},
        "configs of allocations",
        what="an allocation has each config of its claim once, and no names of requests in one that is for all of them",
        source="staging/src/k8s.io/dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go",
    )
    CountersOfOwnNodes = Row(
        {37: _ALWAYS},
        "pools that are incomplete or invalid for other nodes only",
        what="a ResourceSlice with counters counts for a node only if it is for this node",
        source="staging/src/k8s.io/dynamic-resource-allocation/structured/internal/incubating/pools_incubating.go",
    )
    StepNotation = Row(
        {37: _ALWAYS},
        "`consumedCapacity` of allocations: `4k` rather than `4000`",
        what="an amount that is rounded up to a step is written as the step is",
        source="staging/src/k8s.io/dynamic-resource-allocation/structured/internal/incubating/consumable_capacity.go",
    )
    UnrepresentableAmounts = Row(
        {37: _ALWAYS},
        "such errors",
        what="a requested capacity that cannot be rounded up, or is negative, stops the allocation",
        source="staging/src/k8s.io/dynamic-resource-allocation/structured/internal/incubating/consumable_capacity.go "
        "(pull request 140442)",
    )
    CountersInOwnSlices = Row(
        {35: _ALWAYS},
        "pools and predicted slices of MIG",
        what="a ResourceSlice has counters or devices, not both",
        source="pkg/apis/resource/validation/validation.go",
    )
    JobScheduling = Row(
        {37: _ALWAYS},
        "claims that the pods of a Job share (stored only with the alpha gate WorkloadWithJob)",
        what="Jobs have `spec.scheduling.resourceClaims`",
        source="staging/src/k8s.io/api/batch/v1/types.go",
    )
    RulesWithoutSelector = Row(
        {35: _ALWAYS, 38: _REMOVED},
        "taints of such rules in the allocator; 1.37 counts as its first releases, later ones have the fix of 1.38",
        what="a DeviceTaintRule without `deviceSelector` taints all devices for the scheduler, though it should taint none",
        source="staging/src/k8s.io/dynamic-resource-allocation/resourceslice/tracker/tracker.go",
    )
    PodGroupV1Alpha2 = Row(
        {36: _ALPHA, 37: _REMOVED},
        "PodGroups of that version",
        what="PodGroups are served in `scheduling.k8s.io/v1alpha2`",
        source="staging/src/k8s.io/api/scheduling/v1alpha2/types.go",
    )
    PodGroupV1Alpha3 = Row(
        {37: _ALPHA},
        "PodGroups of that version, with `workloadRef` instead of `podGroupTemplateRef`",
        what="PodGroups are served in `scheduling.k8s.io/v1alpha3`",
        source="staging/src/k8s.io/api/scheduling/v1alpha3/types.go",
    )
    PodGroupV1Beta1 = Row(
        {37: _BETA_OFF},
        "PodGroups of that version, as of v1alpha3",
        what="PodGroups are served in `scheduling.k8s.io/v1beta1`",
        source="staging/src/k8s.io/api/scheduling/v1beta1/types.go",
    )
    RulesStopScheduler = Row(
        {36: _ALWAYS, 37: _REMOVED},
        "a warning (GA261); the allocator counts the taints of rules all the same",
        what="until 1.36.2, kube-scheduler ignores a DeviceTaintRule for ResourceSlices that it has seen, and crashes when one is "
        "added or changed while a rule exists",
        source="staging/src/k8s.io/dynamic-resource-allocation/resourceslice/tracker/tracker.go",
    )
    StrictSlices = Row(
        {38: _ALWAYS},
        _NOT_READ + "refusals of such slices",
        what="names of attributes have at most one slash, and `nodeSelector` of a device has one term",
        source="pkg/apis/resource/validation/validation.go",
    )

    ClaimsInAutoMode = Row(
        {36: _ALWAYS},
        "what `audit` and `migrate --prove` say of node pools",
        what="EKS Auto Mode runs NVIDIA's DRA driver and creates nodes for pods with claims",
        source="docs.aws.amazon.com/eks/latest/userguide/device-management.html",
    )

    @property
    def is_gate(self) -> bool:
        """True if Kubernetes has a feature gate of this name."""
        return not self.value.what

    @property
    def introduced(self) -> str:
        """The first version that has it, on or off: `1.34`."""
        return version_text((_MAJOR, min(self.value.stages)))

    @property
    def on_since(self) -> str:
        """The first version that has it on by default: `1.36`.

        Raises:
            ValueError: No version has it on by default.
        """
        return version_text((_MAJOR, min(minor for minor, stage in self.value.stages.items() if stage.is_on)))

    def stage_in(self, version: Version) -> Stage | None:
        """The stage in a version; None in versions before it was introduced."""
        begun = [stage for minor, stage in self.value.stages.items() if (_MAJOR, minor) <= version]
        return begun[-1] if begun else None

    def default_in(self, version: Version | Unknown) -> bool | Unknown:
        """True if a version has it on by default; unknown if the version is."""
        if version is UNKNOWN:
            return UNKNOWN
        stage = self.stage_in(version)
        return stage is not None and stage.is_on

    def remedy_in(self, version: Version, *others: str) -> str:
        """The remedies where a gate is off: `others`, turn it on, and upgrade to a version that has it on."""
        *ways, last = *others, "turn the gate on"
        if self.default_in(version) is not True:
            ways, last = [*ways, last], f"upgrade the cluster to {self.on_since}"
        return f"{', '.join(ways)}, or {last}" if ways else last

    def is_on(self, view: ClusterView) -> bool | Unknown:
        """True if it is on in a cluster: shown by the API server, proven by a stored object, or by default."""
        if (shown := view.feature_gates().get(self.name)) is not None:
            return shown
        default = self.default_in(view.server_version())
        if default is True or not self.value.shown_by:
            return default
        return self in view.derive(proven_features) or default

    def is_off(self, view: ClusterView) -> bool:
        """True if the API server shows that it is off."""
        return view.feature_gates().get(self.name) is False

    def is_complete(self, view: ClusterView) -> bool | Unknown:
        """True if it is on by default in a cluster's version and not shown to be off.

        For parts that alpha versions of a feature lack.
        """
        return False if self.is_off(view) else self.default_in(view.server_version())


GATE_LINES = "kubernetes_feature_enabled{"
"""The beginning of the lines of an API server's `/metrics` that list its feature gates."""
_GATE = re.compile(r'kubernetes_feature_enabled\{.*\bname="(\w+)".*\} ([01])')


def gate_in(line: str) -> tuple[str, bool] | None:
    """The feature gate in a line of the metrics, and whether it is on; None in other lines.

    Source: k8s.io/component-base metrics/features; seen on Kubernetes 1.36.2.
    """
    match = _GATE.match(line)
    return None if match is None else (match[1], match[2] == "1")


def version_text(version: Version) -> str:
    """A version as people write it: `1.36`."""
    return f"{version[0]}.{version[1]}"


def is_newer_than_known(version: Version | Unknown) -> bool:
    """True if a version may have fields that are not known here."""
    return version is not UNKNOWN and version > NEWEST_READ


_DEVICE_FIELDS = {
    "allowMultipleAllocations": Feature.DRAConsumableCapacity,
    "bindingConditions": Feature.DRADeviceBindingConditions,
    "consumesCounters": Feature.DRAPartitionableDevices,
    "taints": Feature.DRADeviceTaints,
}
"""The gate of each field of a device."""
_LIST_VALUES = frozenset({"bools", "ints", "strings", "versions"})


def proven_features(view: ClusterView) -> frozenset[Feature]:
    """The features that stored objects prove; call it as `view.derive(proven_features)`."""
    by_kind = (
        view.derive_each("ResourceSlice", _features_of_slice),
        view.derive_each("DeviceClass", _features_of_class),
        view.derive_each("DeviceTaintRule", _features_of_taint_rule),
    )
    return frozenset[Feature]().union(*(each for found in by_kind if found is not UNKNOWN for each in found))


def _features_of_slice(document: Object) -> frozenset[Feature]:
    spec = document.get("spec")
    has_parts = isinstance(spec, dict) and (spec.get("sharedCounters") or spec.get("perDeviceNodeSelection"))
    proven = {Feature.DRAPartitionableDevices} if has_parts else set[Feature]()
    for device in mappings_at(document, ("spec", "devices")):
        fields = device_fields(device)
        proven.update(feature for field, feature in _DEVICE_FIELDS.items() if fields.get(field))
        attributes = fields.get("attributes")
        values = attributes.values() if isinstance(attributes, dict) else ()
        if any(isinstance(value, dict) and not _LIST_VALUES.isdisjoint(value) for value in values):
            proven.add(Feature.DRAListTypeAttributes)
    return frozenset(proven)


def _features_of_class(document: Object) -> frozenset[Feature]:
    name = lookup(document, ("spec", "extendedResourceName"))
    return frozenset({Feature.DRAExtendedResource} if isinstance(name, str) and name else ())


def _features_of_taint_rule(document: Object) -> frozenset[Feature]:
    # The controller that the gate turns on writes the condition of every rule.
    conditions = mappings_at(document, ("status", "conditions"))
    is_handled = any(each.get("type") == "EvictionInProgress" for each in conditions)
    return frozenset({Feature.DRADeviceTaintRules} if is_handled else ())
