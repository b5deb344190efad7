"""The settings of a GPUAdmissionPolicy, with their defaults."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal

from policies.kubernetes.names import resource_name
from policies.kubernetes.quantities import parse_quantity
from policies.kubernetes.workloads import WORKLOADS, WorkloadKind
from policies.rules.decision import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


_ACRONYMS = {"gpu": "GPU", "gpus": "GPUs"}
"""Words of names that Kubernetes spells in their own way, wherever they do not come first."""


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(_ACRONYMS.get(word, word.capitalize()) for word in rest)


# Read by pydantic when a document is parsed, and only then: importing pydantic costs more than reviewing a pod.
_MODEL: dict[str, Any] = {"extra": "forbid", "alias_generator": _camel}


DRA_DRIVER_NAMESPACES = ("nvidia-dra-driver-gpu", "dra-driver-nvidia-gpu")
"""The usual namespaces of NVIDIA's DRA driver: the old and the new name of its Helm chart."""


class _InNamespaces:
    """A setting for the namespaces that match one of its shell patterns."""

    __slots__ = ()

    namespaces: tuple[str, ...]

    def holds_in(self, namespace: str) -> bool:
        """True if the setting holds in a namespace."""
        return any(fnmatchcase(namespace, pattern) for pattern in self.namespaces)


@dataclass(frozen=True, slots=True)
class RuleOverride(_InNamespaces):
    """Another severity for one rule."""

    __pydantic_config__ = _MODEL

    rule: Annotated[str, "GA and three digits"]
    severity: Severity
    namespaces: tuple[str, ...] = ("*",)
    """Where it holds, as shell patterns (`team-*`); later overrides win over earlier ones."""


@dataclass(frozen=True, slots=True)
class AlignedNIC:
    """The network device that a pod gets beside each GPU if it wishes `nic: aligned`."""

    __pydantic_config__ = _MODEL

    device_class: str
    """Its DeviceClass."""
    match_attribute: str = "resource.kubernetes.io/pcieRoot"
    """The attribute that GPU and network device have in common, such as the root of the PCIe bus."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """The conversion of pods to DRA."""

    __pydantic_config__ = _MODEL

    schedulers: tuple[str, ...] = ("default-scheduler",)
    """Schedulers that allocate claims, and make them for the extended resources of DeviceClasses.

    Pods of other schedulers are not converted, and such a resource of theirs does not count as a GPU request."""
    allow_pod_opt_out: bool = True
    """True if the pod label `gpu-admission.io/dra: disabled` is honoured."""
    keep_translated_labels: bool = False
    """True if node labels that became device selectors stay in the pod as well; they vanish from nodes without GFD."""
    read_wishes_of: tuple[Literal["HAMi"], ...] = ()
    """Other systems whose resources for a part of a GPU are read as the wish `gpu-memory` when a pod is converted."""
    native_quota: Literal["deny", "warn"] = "deny"
    """The action when conversion would switch a ResourceQuota of the namespace off."""
    unsatisfiable: Literal["warn", "deny"] = "warn"
    """The action when no device of the cluster matches now."""
    nic: AlignedNIC | None = None
    """None if pods cannot wish for network devices."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """The validation of the configuration of GPU clusters."""

    __pydantic_config__ = _MODEL

    operator_namespaces: tuple[str, ...] = ("gpu-operator", "nvidia-gpu-operator")
    """Where the GPU Operator may run; ConfigMaps and Secrets that its resources name are looked for there."""
    cluster_policy_deletion: Literal["warn", "deny"] = "warn"
    """The action when the ClusterPolicy is deleted while pods use GPUs."""


@dataclass(frozen=True, slots=True)
class DRADriver:
    """NVIDIA's DRA driver in this cluster. No object of the cluster has these facts."""

    __pydantic_config__ = _MODEL

    feature_gates: dict[str, bool] | None = None
    """Its feature gates that are set; None if unknown, and then those of the GPUCluster count if there is one."""
    version: str = ""
    """Its release, such as `25.8.0`; empty if unknown."""


@dataclass(frozen=True, slots=True)
class WishDefault(_InNamespaces):
    """Default wishes, for pods without own ones."""

    __pydantic_config__ = _MODEL

    wish: dict[str, str]
    """By the names of the annotations without `gpu-admission.io/`: `{"product": "H100*", "min-memory": "40Gi"}`."""
    namespaces: tuple[str, ...] = ("*",)
    """Where they hold, as shell patterns; of several defaults for one word the last one counts."""


@dataclass(frozen=True, slots=True)
class TaintTolerated(_InNamespaces):
    """A taint that GPU pods get a toleration for, even if no node has it now."""

    __pydantic_config__ = _MODEL

    key: str
    value: str = ""
    """Empty for every value."""
    effect: Literal["NoSchedule", "PreferNoSchedule"] = "NoSchedule"
    namespaces: tuple[str, ...] = ("*",)
    """The namespaces whose pods get it. A taint that reserves nodes is tolerated by pods of their namespaces only."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where GPU pods run."""

    __pydantic_config__ = _MODEL

    wishes: tuple[WishDefault, ...] = ()
    tolerations: tuple[TaintTolerated, ...] = ()
    """In addition to the taint `nvidia.com/gpu`."""
    tolerate_gpu_nodes: Literal["OptIn", "Always"] = "OptIn"
    """The GPU pods that get a toleration for the taint `nvidia.com/gpu`; `OptIn`: of namespaces that convert, and with a wish."""
    unsatisfiable: Literal["warn", "deny"] = "warn"
    """The action when no node has the GPU that a pod wishes now."""
    avoid_shared_gpus: bool = False
    """True if pods that request `nvidia.com/gpu` and do not wish otherwise are kept off nodes that share their GPUs."""


@dataclass(frozen=True, slots=True)
class Access:
    """The treatment of containers that use GPUs without a request to the scheduler."""

    __pydantic_config__ = _MODEL

    mode: Literal["warn", "deny"] = "warn"
    exempt_namespaces: tuple[str, ...] = ("gpu-admission", *DRA_DRIVER_NAMESPACES)
    """Shell patterns, beside `kube-system`, our own namespace and those of the GPU Operator."""
    exempt_service_accounts: tuple[str, ...] = ()
    """Service accounts of exempt pods, as `namespace/name`, each a shell pattern: `monitoring/dcgm-*`."""
    legacy_runtime: bool = False
    """NVIDIA's container runtime is the default of GPU nodes, so images of NVIDIA and CUDA_VERSION give GPUs."""


@dataclass(frozen=True, slots=True)
class ReplicaWeight:
    """The part of a GPU that one replica counts as, instead of 1/replicas."""

    __pydantic_config__ = _MODEL

    products: Annotated[tuple[str, ...], "globs as in wishes"]
    sharing: Literal["time-slicing", "mps"]
    gpus: str
    """A fraction of the shared device, above 0 and at most 1: `1/4`, `0.25`."""


@dataclass(frozen=True, slots=True)
class Quotas:
    """The counting of GPUQuotas."""

    __pydantic_config__ = _MODEL

    exempt_namespaces: tuple[str, ...] = ("gpu-admission", *DRA_DRIVER_NAMESPACES)
    """Shell patterns, beside `kube-system`, our own namespace and those of the GPU Operator: a GPUQuota there has no
    effect."""
    name_holders: Literal["Auto", "Always", "Never"] = "Auto"
    """Name the pods and claims that hold the rest in a refusal; `Auto`: to callers with a client certificate."""
    weights: tuple[ReplicaWeight, ...] = ()
    """If several match a product, the last one counts."""
    unlimited_share: str = ""
    """The part of a device that a claim counts for if the DRA driver shares the device without limit: a fraction, above 0
    and at most 1 (`1/8`), or memory (`10Gi`). If empty, a claim counts for the whole device."""
    admin_access: Literal["charge", "free"] = "charge"
    """Count devices that a claim requests with adminAccess; Kubernetes' own quota counts them."""
    trusted_creators: tuple[str, ...] = (
        "system:serviceaccount:kube-system:resource-claim-controller",
        "system:kube-controller-manager",
        "system:kube-scheduler",
    )
    """Users who create the claims of pods. A claim of any other user is charged by itself, whatever owner it names."""

    def unlimited_part(self, memory: int | None) -> Fraction | None:
        """The part of a device that `unlimited_share` is, at most 1; None if it is not set.

        Args:
            memory: Of the device, in bytes. If it is unknown, a share that is memory is the whole device.
        """
        if not self.unlimited_share or self.unlimited_share[-1].isdigit():
            return Fraction(self.unlimited_share) if self.unlimited_share else None
        return min(parse_quantity(self.unlimited_share) / memory, Fraction(1)) if memory else Fraction(1)


@dataclass(frozen=True, slots=True)
class AddedKind:
    """A kind of workload, in addition to the built-in ones."""

    __pydantic_config__ = _MODEL

    group: str
    """Its API group."""
    kind: str
    templates: tuple[str, ...]
    """Paths of its pod templates or pod specs: `spec.template`, `spec.workers[*].template`."""
    counts: tuple[str, ...] = ()
    """Paths of numbers; each multiplies the pods of every template beside or below it."""
    resource: str = ""
    """Its plural, if that is not the kind in lower case with an English plural."""

    @property
    def plural(self) -> str:
        """The resource, as webhook rules and RBAC name it."""
        return self.resource or resource_name(self.kind)


@dataclass(frozen=True, slots=True)
class Workloads:
    """The kinds of workloads whose pods are reviewed."""

    __pydantic_config__ = _MODEL

    kinds: tuple[AddedKind, ...] = ()


@dataclass(frozen=True, slots=True)
class Explanations:
    """Where users see why pods wait for GPUs."""

    __pydantic_config__ = _MODEL

    on_pods: bool = False
    """True if pods that wait get a condition and an event; needs the component `explain-on-pods`."""


@dataclass(frozen=True, slots=True)
class Exemption(_InNamespaces):
    """Users or groups exempt from some rules; each use is in the audit log."""

    __pydantic_config__ = _MODEL

    from_: tuple[str, ...]
    """Rules by their ids, as shell patterns (`GA307`, `GA6*`); `access` for all of GA6xx; `conversion`: their pods stay
    as they are."""
    users: tuple[str, ...] = ()
    """User names, as shell patterns."""
    groups: tuple[str, ...] = ()
    """Shell patterns; one group suffices."""
    service_accounts: tuple[str, ...] = ()
    """Service accounts of the user, as `namespace/name`, each a shell pattern."""
    namespaces: tuple[str, ...] = ("*",)
    """Where it holds, as shell patterns. For objects without a namespace it must be `*`."""


@dataclass(frozen=True, slots=True)
class GPUAdmissionPolicy:
    """The administrator's choices: the `spec` of the one GPUAdmissionPolicy, named `default`."""

    __pydantic_config__ = _MODEL

    rules: tuple[RuleOverride, ...] = ()
    conversion: Conversion = field(default_factory=Conversion)
    configuration: Configuration = field(default_factory=Configuration)
    dra_driver: DRADriver = field(default_factory=DRADriver)
    placement: Placement = field(default_factory=Placement)
    access: Access = field(default_factory=Access)
    quota: Quotas = field(default_factory=Quotas)
    workloads: Workloads = field(default_factory=Workloads)
    explain: Explanations = field(default_factory=Explanations)
    exemptions: tuple[Exemption, ...] = ()

    @property
    def exempts_from_conversion(self) -> bool:
        """True if the user is exempt from conversion; see `policies.rules.settings.exemptions`."""
        return False

    def severity_of(self, rule: str, default: Severity, namespace: str) -> Severity:
        """The severity of a rule in a namespace; `default` if nothing overrides it."""
        for override in reversed(self.rules):
            if override.rule == rule and override.holds_in(namespace):
                return override.severity
        return default

    def judge(self, findings: Iterable[Finding], namespace: str) -> tuple[Finding, ...]:
        """The findings with the severities that hold in a namespace, without those that are off.

        Settings do not change findings of `fixed` rules, nor those that announce a refusal.
        """
        judged = []
        for finding in findings:
            severity = finding.severity
            if not (finding.rule.fixed or finding.announces_refusal):
                severity = self.severity_of(finding.rule.id, severity, namespace)
            if finding.never_refuses and severity is Severity.DENY:
                severity = Severity.WARN
            if severity is not Severity.OFF:
                judged.append(finding if finding.severity is severity else replace(finding, severity=severity))
        return tuple(judged)


DEFAULTS = GPUAdmissionPolicy()


def workload_kinds(settings: GPUAdmissionPolicy) -> Mapping[tuple[str, str], WorkloadKind]:
    """The kinds of objects that create pods, by group and kind; settings can replace built-in ones."""
    return _with_added(settings.workloads.kinds) if settings.workloads.kinds else WORKLOADS


@lru_cache(maxsize=8)
def _with_added(added: tuple[AddedKind, ...]) -> Mapping[tuple[str, str], WorkloadKind]:
    kinds = (WorkloadKind(each.group, each.kind, each.templates, each.counts) for each in added)
    return MappingProxyType({**WORKLOADS, **{(kind.group, kind.kind): kind for kind in kinds}})
