"""The table of webhooks: when the API server calls each entry.

`deploy/render.py` writes both webhook configurations from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from policies import match_conditions as conditions
from policies.entries import ENTRIES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.entries import Entry

__all__ = ["WEBHOOKS", "ResourceRule", "Webhook"]


@dataclass(frozen=True, slots=True)
class ResourceRule:
    """Operations on resources of one API group."""

    operations: tuple[str, ...]
    group: str
    resources: tuple[str, ...]
    versions: tuple[str, ...] = ("v1",)
    scope: Literal["Namespaced", "Cluster"] = "Namespaced"


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """When the API server calls an entry.

    Name, path, failure policy and side effects are those of the entry.
    """

    entry: Entry = field(kw_only=False)
    mutating: bool
    """Whether it is one of the mutating configuration. The entry `configuration` is in both, to deny in better words."""
    note: str
    """The comment in the manifest."""
    rules: tuple[ResourceRule, ...]
    conditions: Mapping[str, str] = field(default_factory=dict)
    """Expressions by their names."""
    timeout: int = 5
    """Seconds."""
    reinvocation: Literal["Never", "IfNeeded"] = "Never"
    """Of mutating webhooks."""
    namespaces: tuple[str, Literal["In", "NotIn"], str] | None = None
    """A label of the namespace, an operator and a value; None for all namespaces that are not exempt."""
    objects: tuple[str, str] | None = None
    """A label of the object and its value; None for all objects."""
    everywhere: bool = False
    """True if no namespace is exempt, because the objects have none."""


_WRITES = ("CREATE", "UPDATE")
_NEW_PODS = ResourceRule(("CREATE",), "", ("pods",))

WEBHOOKS = (
    Webhook(
        ENTRIES["conversion"],
        mutating=True,
        note=(
            "Fails closed, in namespaces that opted in only. Asked again when something changed the pod after it, as a LimitRange\n"
            "does.\n"
            "Requests are enough: the API server copies limits to them before it asks."
        ),
        timeout=10,
        reinvocation="IfNeeded",
        namespaces=("gpu-admission.io/dra", "In", "enabled"),
        rules=(_NEW_PODS,),
        conditions={"gpus": conditions.REQUESTS_NVIDIA},
    ),
    Webhook(
        ENTRIES["preview"],
        mutating=True,
        note="Never changes a pod.",
        namespaces=("gpu-admission.io/dra", "In", "preview"),
        rules=(_NEW_PODS,),
        conditions={"gpus": conditions.REQUESTS_NVIDIA},
    ),
    Webhook(
        ENTRIES["placement"],
        mutating=True,
        note="Extended resources of any name: a DeviceClass can stand for each.",
        reinvocation="IfNeeded",
        rules=(_NEW_PODS,),
        conditions={
            "not-bound": '!has(object.spec) || !has(object.spec.nodeName) || object.spec.nodeName == ""',
            "gpus-or-wishes": conditions.REQUESTS_DEVICES_OR_WISHES,
        },
    ),
    Webhook(
        ENTRIES["reapply"],
        mutating=True,
        note="Converted pods that are applied again; the selector takes in those whose label is being taken away as well.",
        objects=("gpu-admission.io/managed", "true"),
        rules=(ResourceRule(("UPDATE",), "", ("pods",)),),
        conditions={
            "not-deleting": "!has(object.metadata.deletionTimestamp)",
            "spec-changed": "object.spec != oldObject.spec",
        },
    ),
    Webhook(
        ENTRIES["configuration"],
        mutating=True,
        note="Changes nothing: asked before the schema of the CRD, it denies what that denies too, in better words.",
        rules=(
            ResourceRule(
                _WRITES,
                "nvidia.com",
                ("clusterpolicies", "gpuclusters", "nvidiadrivers"),
                versions=("*",),
                scope="Cluster",
            ),
            ResourceRule(
                _WRITES,
                "gpu-admission.io",
                ("gpuadmissionpolicies",),
                versions=("v1alpha1",),
                scope="Cluster",
            ),
            ResourceRule(_WRITES, "gpu-admission.io", ("gpuquotas",), versions=("v1alpha1",)),
        ),
    ),
    Webhook(
        ENTRIES["conversion-check"],
        mutating=False,
        note="The same pods as conversion, after everything that changes pods.",
        namespaces=("gpu-admission.io/dra", "In", "enabled"),
        rules=(_NEW_PODS,),
        conditions={"gpus": conditions.REQUESTS_NVIDIA},
    ),
    Webhook(
        ENTRIES["access"],
        mutating=False,
        note="envFrom alone is no reason to ask: ConfigMaps of workloads are not read, so nothing could be said.",
        rules=(
            _NEW_PODS,
            ResourceRule(("UPDATE",), "", ("pods/ephemeralcontainers",)),
        ),
        conditions={
            "takes-gpus": conditions.SHOWS_GPU_ACCESS,
        },
    ),
    Webhook(
        ENTRIES["workloads"],
        mutating=False,
        note=(
            "Only the author of a workload gets warnings, and only when its spec changes. Kinds of other groups are mostly made for\n"
            "GPUs, so they are not searched here."
        ),
        rules=(
            ResourceRule(_WRITES, "", ("podtemplates", "replicationcontrollers")),
            ResourceRule(_WRITES, "apps", ("daemonsets", "deployments", "replicasets", "statefulsets")),
            ResourceRule(_WRITES, "argoproj.io", ("rollouts",), versions=("*",)),
            ResourceRule(_WRITES, "batch", ("cronjobs", "jobs")),
            ResourceRule(_WRITES, "batch.volcano.sh", ("jobs",), versions=("*",)),
            ResourceRule(_WRITES, "grove.io", ("podcliquesets",), versions=("*",)),
            ResourceRule(_WRITES, "jobset.x-k8s.io", ("jobsets",), versions=("*",)),
            ResourceRule(
                _WRITES,
                "kubeflow.org",
                ("jaxjobs", "mpijobs", "notebooks", "paddlejobs", "pytorchjobs", "tfjobs", "xgboostjobs"),
                versions=("*",),
            ),
            ResourceRule(_WRITES, "leaderworkerset.x-k8s.io", ("leaderworkersets",), versions=("*",)),
            ResourceRule(_WRITES, "ray.io", ("rayclusters", "rayjobs", "rayservices"), versions=("*",)),
            ResourceRule(_WRITES, "serving.kserve.io", ("inferenceservices",), versions=("*",)),
            ResourceRule(
                _WRITES,
                "sparkoperator.k8s.io",
                ("scheduledsparkapplications", "sparkapplications"),
                versions=("*",),
            ),
            ResourceRule(_WRITES, "trainer.kubeflow.org", ("trainjobs",), versions=("*",)),
        ),
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
            ResourceRule(
                ("CREATE",),
                "resource.k8s.io",
                ("resourceclaims", "resourceclaimtemplates"),
                versions=("v1", "v1beta2", "v1beta1"),
            ),
            ResourceRule(
                ("CREATE",),
                "resource.k8s.io",
                ("deviceclasses",),
                versions=("v1", "v1beta2", "v1beta1"),
                scope="Cluster",
            ),
            ResourceRule(("CREATE",), "resource.nvidia.com", ("computedomains",), versions=("*",)),
        ),
        conditions={
            "by-people": conditions.NOT_BY_CONTROLLERS,
        },
    ),
    Webhook(
        ENTRIES["quota-enforced"],
        mutating=False,
        note=(
            "What quotas are charged for, after everything else is decided. A DeviceClass may give its GPUs any name, so every\n"
            "extended resource may be one. Claims are charged for every user: the service knows for which pod, and whether that\n"
            "has paid. Where the label says so, nothing gets GPUs that cannot be charged."
        ),
        timeout=10,
        namespaces=("gpu-admission.io/quota", "In", "enforced"),
        rules=(
            _NEW_PODS,
            ResourceRule(("CREATE",), "resource.k8s.io", ("resourceclaims",), versions=("v1", "v1beta2", "v1beta1")),
        ),
        conditions={
            "gpus": conditions.IS_CHARGED,
        },
    ),
    Webhook(
        ENTRIES["quota"],
        mutating=False,
        note="The same elsewhere: what cannot be charged passes, with a warning.",
        namespaces=("gpu-admission.io/quota", "NotIn", "enforced"),
        rules=(
            _NEW_PODS,
            ResourceRule(("CREATE",), "resource.k8s.io", ("resourceclaims",), versions=("v1", "v1beta2", "v1beta1")),
        ),
        conditions={
            "gpus": conditions.IS_CHARGED,
        },
    ),
    Webhook(
        ENTRIES["configuration"],
        mutating=False,
        note=(
            "ConfigMaps of the operator's namespaces, or with our label anywhere. Of our own settings and quotas, the invalid are\n"
            "refused."
        ),
        rules=(
            ResourceRule(
                _WRITES,
                "nvidia.com",
                ("clusterpolicies", "gpuclusters", "nvidiadrivers"),
                versions=("*",),
                scope="Cluster",
            ),
            ResourceRule(("DELETE",), "nvidia.com", ("clusterpolicies",), versions=("*",), scope="Cluster"),
            ResourceRule(
                _WRITES,
                "gpu-admission.io",
                ("gpuadmissionpolicies",),
                versions=("v1alpha1",),
                scope="Cluster",
            ),
            ResourceRule(_WRITES, "gpu-admission.io", ("gpuquotas",), versions=("v1alpha1",)),
            ResourceRule(("CREATE", "UPDATE", "DELETE"), "", ("configmaps",)),
        ),
        conditions={
            "ours": conditions.IS_CONFIGURATION,
            "changed": conditions.CONFIG_MAP_CHANGED,
        },
    ),
    Webhook(
        ENTRIES["nodes"],
        mutating=False,
        note="Labels can be written through nodes/status too; heartbeats change none of these.",
        everywhere=True,
        rules=(
            ResourceRule(_WRITES, "", ("nodes",), scope="Cluster"),
            ResourceRule(("UPDATE",), "", ("nodes/status",), scope="Cluster"),
        ),
        conditions={
            "watched-labels": conditions.WATCHED_LABELS_CHANGED,
        },
    ),
)
"""In the order of the manifests, which is that in which the API server calls mutating webhooks."""
