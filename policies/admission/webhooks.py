"""The webhook entries that the API server calls, their concerns, and the failure policy of each.

`policies.admission.webhooks` says when the API server calls them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Literal, NamedTuple

from policies.kubernetes import webhook_rules as conditions
from policies.kubernetes.names import DRA_LABEL, MANAGED, QUOTA_LABEL, resource_name
from policies.kubernetes.workloads import WORKLOADS
from policies.nvidia.pod_conditions import (
    CHANGES_GPU_ACCESS,
    REQUESTS_DEVICES,
    REQUESTS_DEVICES_OR_WISHES,
    REQUESTS_NVIDIA_DEVICES,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from policies.kubernetes.objects import Object
    from policies.nvidia.pod_conditions import ChangeCondition, PodCondition
    from policies.rules.request import Concern


CONFIGURATIONS = (
    ("MutatingWebhookConfiguration", "gpu-admission"),
    ("ValidatingWebhookConfiguration", "gpu-admission"),
)
"""The webhook configurations that `deploy/` installs: kind and name."""

FailurePolicy = Literal["Fail", "Ignore"]

_EFFECTS: frozenset[Concern] = frozenset({"conversion", "quota"})
"""The concerns that write: templates, and charges."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One webhook as the API server knows it: `<name>.gpu-admission.io`, called at `POST /<name>`."""

    name: str
    concerns: Mapping[Concern, FailurePolicy]
    """In the order of review, each with its failure policy: if a concern that fails closed fails, the object is refused; one
    that fails open is skipped with a warning."""
    mutating: bool = False
    exempt_from: tuple[Concern, ...] = ()
    """Concerns. The namespaceSelector of the entry excludes the namespaces that are exempt from all of them. In an entry that
    fails closed, these are the concerns that the namespace opted in to: an outage must not stop what is exempt."""

    @property
    def failure_policy(self) -> FailurePolicy:
        """The effect of a failed call: `Fail`, a refusal, if one of the concerns fails closed."""
        return "Fail" if "Fail" in self.concerns.values() else "Ignore"

    @property
    def side_effects(self) -> Literal["None", "NoneOnDryRun"]:
        """`NoneOnDryRun` if a concern writes to the cluster, which it never does on a dry run."""
        return "None" if _EFFECTS.isdisjoint(self.concerns) else "NoneOnDryRun"

    @property
    def webhook(self) -> str:
        """The name that kubectl shows in a refusal."""
        return f"{self.name}.gpu-admission.io"


_ENTRIES = (
    Entry("convert-pods", {"conversion": "Fail", "placement": "Ignore"}, mutating=True, exempt_from=("conversion",)),
    Entry("place-pods", {"preview": "Ignore", "placement": "Ignore"}, mutating=True),
    Entry("place-unconverted-pods", {"placement": "Ignore"}, mutating=True),
    Entry("reapply", {"reapply": "Ignore"}, mutating=True),
    Entry("workloads", {"workloads": "Ignore"}),
    Entry("claims", {"claims": "Ignore"}),
    Entry(
        "enforce-converted-pods",
        {"conversion-check": "Fail", "access": "Ignore", "quota": "Ignore"},
        exempt_from=("conversion",),
    ),
    Entry("enforce-quota", {"conversion-check": "Fail", "access": "Ignore", "quota": "Fail"}, exempt_from=("quota",)),
    Entry("check-pods", {"access": "Ignore", "quota": "Ignore"}, exempt_from=("access", "quota")),
    Entry("check-unconverted-pods", {"access": "Ignore", "quota": "Ignore"}, exempt_from=("access", "quota")),
    Entry("guard-pods", {"access": "Ignore"}, exempt_from=("access",)),
    Entry("guard-changes", {"access": "Ignore"}, exempt_from=("access",)),
    Entry("configuration", {"configuration": "Ignore"}),
    Entry("nodes", {"configuration": "Ignore"}),
    Entry("opt-in", {"opt-in": "Ignore"}, exempt_from=("conversion",)),
)

ENTRIES = {entry.name: entry for entry in _ENTRIES}
"""By name, in the order in which the API server calls them: mutating entries one after the other, then the validating."""


@dataclass(frozen=True, slots=True)
class ResourceRule:
    """Operations on objects of one API group."""

    operations: tuple[str, ...]
    group: str
    kinds: tuple[str, ...]
    """Kinds, or subresources of kinds: `Node/status`."""
    versions: tuple[str, ...] = ("v1",)
    scope: Literal["Namespaced", "Cluster", "*"] = "Namespaced"

    @property
    def resources(self) -> tuple[str, ...]:
        """The kinds as the API server names their resources: `nodes/status`."""
        parts = (kind.partition("/") for kind in self.kinds)
        return tuple(f"{resource_name(kind)}{slash}{subresource}" for kind, slash, subresource in parts)

    def document(self) -> Object:
        """The rule in a webhook or admission policy."""
        return {
            "apiGroups": [self.group],
            "apiVersions": list(self.versions),
            "operations": list(self.operations),
            "resources": list(self.resources),
            "scope": self.scope,
        }


class NamespaceLabel(NamedTuple):
    """A requirement on a label of the namespace."""

    key: str
    operator: Literal["In", "NotIn"]
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """When the API server calls an entry.

    Name, path, failure policy and side effects are those of the entry.
    """

    entry: Entry = field(kw_only=False)
    mutating: bool
    """True if it is one of the mutating configuration. The entry `configuration` is in both, to deny in better words."""
    note: str
    """The comment in the manifest."""
    rules: tuple[ResourceRule, ...]
    conditions: Mapping[str, str | PodCondition | ChangeCondition] = field(default_factory=dict)
    """CEL expressions, and conditions on pods and their changes, by their names."""
    timeout: int = 5
    """Seconds."""
    reinvocation: Literal["Never", "IfNeeded"] = "Never"
    """Of mutating webhooks."""
    namespaces: tuple[NamespaceLabel, ...] = ()
    """All must hold; empty for all namespaces that are not exempt."""
    objects: tuple[str, str] | None = None
    """A label of the object and its value; None for all objects."""
    everywhere: bool = False
    """True if no namespace is exempt, because the objects have none."""


WRITES = ("CREATE", "UPDATE")
_CONVERTS = NamespaceLabel(DRA_LABEL, "In", "enabled")
_DOES_NOT_CONVERT = NamespaceLabel(DRA_LABEL, "NotIn", "enabled")
_ENFORCES_QUOTA = NamespaceLabel(QUOTA_LABEL, "In", "enforced")
_ENFORCES_NO_QUOTA = NamespaceLabel(QUOTA_LABEL, "NotIn", "enforced")
_IS_CLAIM = 'request.kind.kind == "ResourceClaim"'
NEW_PODS = ResourceRule(("CREATE",), "", ("Pod",))
_UPDATED_PODS = ResourceRule(("UPDATE",), "", ("Pod",))
_CLAIM_VERSIONS = ("v1", "v1beta2", "v1beta1")
_NEW_CLAIMS = ResourceRule(("CREATE",), "resource.k8s.io", ("ResourceClaim",), _CLAIM_VERSIONS)
_OPERATOR_OBJECTS = ResourceRule(
    WRITES, "nvidia.com", ("ClusterPolicy", "GPUCluster", "NVIDIADriver"), ("*",), "Cluster"
)
_OUR_OBJECTS = (
    ResourceRule(WRITES, "gpu-admission.io", ("ClusterGPUQuota", "GPUAdmissionPolicy"), ("v1alpha1",), "Cluster"),
    ResourceRule(WRITES, "gpu-admission.io", ("GPUQuota",), ("v1alpha1",)),
)
_CORE_GROUPS = ("", "apps", "batch")
"""Groups of Kubernetes itself, whose workloads have version v1."""
_WORKLOADS = tuple(
    ResourceRule(WRITES, group, tuple(kind for _, kind in kinds), ("v1",) if group in _CORE_GROUPS else ("*",))
    for group, kinds in groupby(sorted(WORKLOADS), key=lambda each: each[0])
)

WEBHOOKS = (
    Webhook(
        ENTRIES["convert-pods"],
        mutating=True,
        note=(
            "Fails closed, in namespaces that opted in only. Called again when something changed the pod after it, as a LimitRange\n"
            "does.\n"
            "Requests are enough: the API server copies limits to them before it calls."
        ),
        timeout=10,
        reinvocation="IfNeeded",
        namespaces=(_CONVERTS,),
        rules=(NEW_PODS,),
        conditions={"nvidia-devices": REQUESTS_NVIDIA_DEVICES},
    ),
    Webhook(
        ENTRIES["place-pods"],
        mutating=True,
        note="Extended resources of any name: a DeviceClass can stand for each. Previews what conversion would do, too.",
        reinvocation="IfNeeded",
        namespaces=(_DOES_NOT_CONVERT,),
        rules=(NEW_PODS,),
        conditions={"devices-or-wishes": REQUESTS_DEVICES_OR_WISHES},
    ),
    Webhook(
        ENTRIES["place-unconverted-pods"],
        mutating=True,
        note="The other pods of namespaces that convert. An outage does not stop them.",
        reinvocation="IfNeeded",
        namespaces=(_CONVERTS,),
        rules=(NEW_PODS,),
        conditions={
            "devices-or-wishes": REQUESTS_DEVICES_OR_WISHES,
            "no-nvidia-devices": ~REQUESTS_NVIDIA_DEVICES,
        },
    ),
    Webhook(
        ENTRIES["reapply"],
        mutating=True,
        note="Converted pods that are applied again; the selector takes in those whose label is being taken away as well.",
        objects=(MANAGED, "true"),
        rules=(_UPDATED_PODS,),
        conditions={
            "not-deleting": "!has(object.metadata.deletionTimestamp)",
            "spec-changed": "object.spec != oldObject.spec",
        },
    ),
    Webhook(
        ENTRIES["configuration"],
        mutating=True,
        note="Changes nothing: called before the schema of the CRD, it denies what that denies too, in better words.",
        rules=(_OPERATOR_OBJECTS, *_OUR_OBJECTS),
    ),
    Webhook(
        ENTRIES["enforce-converted-pods"],
        mutating=False,
        note="The pods of convert-pods, after everything that changes pods. Only the check of their conversion fails closed.",
        timeout=10,
        namespaces=(_CONVERTS, _ENFORCES_NO_QUOTA),
        rules=(NEW_PODS,),
        conditions={"nvidia-devices": REQUESTS_NVIDIA_DEVICES},
    ),
    Webhook(
        ENTRIES["enforce-quota"],
        mutating=False,
        note=(
            "Where the label says so, nothing gets GPUs that cannot be charged. A DeviceClass may give its GPUs any name, so every\n"
            "extended resource may be one. Claims are charged for every user: the service knows whether the pod of a claim\n"
            "was charged for it."
        ),
        timeout=10,
        namespaces=(_ENFORCES_QUOTA,),
        rules=(NEW_PODS, _NEW_CLAIMS),
        conditions={"devices": REQUESTS_DEVICES.unless(_IS_CLAIM)},
    ),
    Webhook(
        ENTRIES["check-pods"],
        mutating=False,
        note="The same elsewhere: what cannot be charged passes, with a warning.",
        namespaces=(_DOES_NOT_CONVERT, _ENFORCES_NO_QUOTA),
        rules=(NEW_PODS, _NEW_CLAIMS),
        conditions={"devices": REQUESTS_DEVICES.unless(_IS_CLAIM)},
    ),
    Webhook(
        ENTRIES["check-unconverted-pods"],
        mutating=False,
        note="The other pods of namespaces that convert, and their claims. An outage does not stop them.",
        namespaces=(_CONVERTS, _ENFORCES_NO_QUOTA),
        rules=(NEW_PODS, _NEW_CLAIMS),
        conditions={
            "devices": REQUESTS_DEVICES.unless(_IS_CLAIM),
            "no-nvidia-devices": (~REQUESTS_NVIDIA_DEVICES).unless(_IS_CLAIM),
        },
    ),
    Webhook(
        ENTRIES["guard-pods"],
        mutating=False,
        note="envFrom alone is no reason to call: ConfigMaps of workloads are not read, so nothing could be said.",
        rules=(NEW_PODS, ResourceRule(("UPDATE",), "", ("Pod/ephemeralcontainers",))),
        conditions={
            "gpu-access": conditions.SHOWS_GPU_ACCESS,
            "no-devices": (~REQUESTS_DEVICES).unless("oldObject != null"),
        },
    ),
    Webhook(
        ENTRIES["guard-changes"],
        mutating=False,
        note="Pods of every kind: nodes read annotations for CDI and images when a container starts, and both can change before.",
        rules=(_UPDATED_PODS,),
        conditions={"gpu-access-changes": CHANGES_GPU_ACCESS},
    ),
    Webhook(
        ENTRIES["workloads"],
        mutating=False,
        note=(
            "Only the author of a workload gets warnings, and only when its spec changes. Kinds of other groups are mostly made for\n"
            "GPUs, so they are not searched here."
        ),
        rules=_WORKLOADS,
        conditions={
            "by-its-author": "!has(object.metadata.ownerReferences) || !object.metadata.ownerReferences.exists(o, has(o.controller) && o.controller)",
            "not-deleting": "!has(object.metadata.deletionTimestamp)",
            "changed": conditions.TEMPLATE_CHANGED,
            "gpus": conditions.TEMPLATE_MENTIONS_GPUS,
        },
    ),
    Webhook(
        ENTRIES["claims"],
        mutating=False,
        note="A claim that a controller makes of a template was judged with the template.",
        rules=(
            ResourceRule(("CREATE",), "resource.k8s.io", ("ResourceClaim", "ResourceClaimTemplate"), _CLAIM_VERSIONS),
            ResourceRule(("CREATE",), "resource.k8s.io", ("DeviceClass",), _CLAIM_VERSIONS, "Cluster"),
            ResourceRule(("CREATE",), "resource.nvidia.com", ("ComputeDomain",), ("*",)),
            ResourceRule(WRITES, "resource.k8s.io", ("DeviceTaintRule",), ("*",), "Cluster"),
        ),
        conditions={"by-people": conditions.NOT_BY_CONTROLLERS},
    ),
    Webhook(
        ENTRIES["configuration"],
        mutating=False,
        note=(
            "ConfigMaps of the operator's namespaces, or with our label anywhere. Of our own settings and quotas, the invalid are\n"
            "refused. ResourceQuotas and LimitRanges of Kubernetes cause warnings, and their status is not matched."
        ),
        rules=(
            _OPERATOR_OBJECTS,
            ResourceRule(("DELETE",), "nvidia.com", ("ClusterPolicy",), ("*",), "Cluster"),
            *_OUR_OBJECTS,
            ResourceRule(("CREATE", "UPDATE", "DELETE"), "", ("ConfigMap",)),
            ResourceRule(WRITES, "", ("LimitRange", "ResourceQuota")),
        ),
        conditions={
            "ours": conditions.IS_CONFIGURATION,
            "changed": conditions.CONFIG_MAP_CHANGED,
            "limits-devices": conditions.LIMITS_DEVICES,
        },
    ),
    Webhook(
        ENTRIES["nodes"],
        mutating=False,
        note="Labels can be written through nodes/status too; heartbeats change none of these.",
        everywhere=True,
        rules=(
            ResourceRule(WRITES, "", ("Node",), scope="Cluster"),
            ResourceRule(("UPDATE",), "", ("Node/status",), scope="Cluster"),
        ),
        conditions={"watched-labels": conditions.WATCHED_LABELS_CHANGED},
    ),
    Webhook(
        ENTRIES["opt-in"],
        mutating=False,
        note="Namespaces that choose conversion, or another strategy. Says what becomes of their workloads; warnings only.",
        rules=(ResourceRule(WRITES, "", ("Namespace",), scope="Cluster"),),
        conditions={"conversion-changes": conditions.CONVERSION_CHANGED},
    ),
)
"""In the order of the manifests, which is that in which the API server calls mutating webhooks."""


class Call(NamedTuple):
    """Operations on objects of a kind, or on one subresource, for which the API server calls a webhook."""

    webhook: Webhook
    operations: tuple[str, ...]
    subresource: str


def _calls() -> dict[tuple[str, str], list[Call]]:
    calls: dict[tuple[str, str], list[Call]] = {}
    for webhook in WEBHOOKS:
        for rule in webhook.rules:
            for kind, _, subresource in (each.partition("/") for each in rule.kinds):
                calls.setdefault((rule.group, kind), []).append(Call(webhook, rule.operations, subresource))
    return calls


CALLS: Mapping[tuple[str, str], Sequence[Call]] = _calls()
"""By group and kind."""


def kinds_of(entry: str) -> frozenset[tuple[str, str]]:
    """Group and kind of the objects that the API server calls an entry about."""
    return frozenset(kind for kind, calls in CALLS.items() if any(call.webhook.entry.name == entry for call in calls))


CLAIM_KINDS = kinds_of("claims")
