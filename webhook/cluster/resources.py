"""The API resources that this program reads, writes and installs, and their paths."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from policies.kubernetes.names import plural
from policies.kubernetes.paths import items_at, lookup
from policies.kubernetes.workloads import WORKLOAD_KINDS
from webhook.cluster.errors import APIError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.settings import GPUAdmissionPolicy
    from webhook.cluster.reader import Reader

__all__ = ["RESOURCES", "WORKLOAD_RESOURCES", "Resource", "workload_resources"]


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of objects as the API server serves it."""

    group: str
    """Empty for the core group."""
    version: str
    plural: str
    kind: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    """As `kubectl api-resources` lists them."""

    @property
    def api_version(self) -> str:
        """The `apiVersion` of objects: `v1`, `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def name(self) -> str:
        """The unambiguous name for `kubectl get`: `pods`, `jobs.batch`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The path of one object, or of the collection if no name is given.

        Args:
            namespace: The namespace of the object; empty for cluster-scoped objects, and for a list of all namespaces.
            name: The name of the object; empty for the collection.
            subresource: `status`, `binding` and the like.

        Raises:
            ValueError: The namespace or the name is invalid, missing, or must not be given.
        """
        if namespace and not self.namespaced:
            raise ValueError(f"a {self.kind} has no namespace, but {namespace[:63]!r} was given")
        if name and self.namespaced and not namespace:
            raise ValueError(f"a {self.kind} needs a namespace, but none was given for {name[:253]!r}")
        if subresource and not name:
            raise ValueError(f"subresource {subresource!r} needs the name of a {self.kind}")
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        parts += ["namespaces", _segment(namespace)] if namespace else []
        parts += [self.plural]
        parts += [_segment(part) for part in (name, *subresource.split("/")) if part]
        return "/" + "/".join(parts)


def _segment(name: str) -> str:
    """A name as one segment of a path. Source: apimachinery pkg/api/validation/path/name.go."""
    if name in (".", "..") or "/" in name or "%" in name:
        raise ValueError(f'invalid name {name[:253]!r}: must not be "." or "..", and must not contain "/" or "%"')
    return quote(name, safe=":")


def _resources(group: str, version: str, kinds: str, *, namespaced: bool) -> list[Resource]:
    """Resources whose name is the English plural of the kind."""
    names = ((kind, tuple(_SHORT_NAMES.get(kind, "").split())) for kind in kinds.split())
    return [Resource(group, version, plural(kind), kind, namespaced, short) for kind, short in names]


_SHORT_NAMES = {
    "ConfigMap": "cm",
    "CronJob": "cj",
    "CustomResourceDefinition": "crd crds",
    "DaemonSet": "ds",
    "Deployment": "deploy",
    "Event": "ev",
    "LeaderWorkerSet": "lws",
    "LimitRange": "limits",
    "Namespace": "ns",
    "NetworkPolicy": "netpol",
    "Node": "no",
    "Pod": "po",
    "PodDisruptionBudget": "pdb",
    "PriorityClass": "pc",
    "ReplicaSet": "rs",
    "ReplicationController": "rc",
    "ResourceQuota": "quota",
    "Service": "svc",
    "ServiceAccount": "sa",
    "StatefulSet": "sts",
}


_ALL = [
    *_resources("", "v1", "Namespace Node", namespaced=False),
    *_resources(
        "",
        "v1",
        "ConfigMap Event LimitRange Pod PodTemplate ReplicationController ResourceQuota Secret Service ServiceAccount",
        namespaced=True,
    ),
    *_resources("apps", "v1", "DaemonSet Deployment ReplicaSet StatefulSet", namespaced=True),
    *_resources("batch", "v1", "CronJob Job", namespaced=True),
    *_resources("coordination.k8s.io", "v1", "Lease", namespaced=True),
    *_resources("networking.k8s.io", "v1", "NetworkPolicy", namespaced=True),
    *_resources("policy", "v1", "PodDisruptionBudget", namespaced=True),
    *_resources("node.k8s.io", "v1", "RuntimeClass", namespaced=False),
    *_resources("scheduling.k8s.io", "v1", "PriorityClass", namespaced=False),
    *_resources("scheduling.k8s.io", "v1alpha2", "PodGroup", namespaced=True),
    *_resources("resource.k8s.io", "v1", "DeviceClass ResourceSlice", namespaced=False),
    *_resources("resource.k8s.io", "v1", "ResourceClaim ResourceClaimTemplate", namespaced=True),
    *_resources(
        "admissionregistration.k8s.io",
        "v1",
        "MutatingWebhookConfiguration ValidatingWebhookConfiguration "
        "ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding",
        namespaced=False,
    ),
    *_resources("apiextensions.k8s.io", "v1", "CustomResourceDefinition", namespaced=False),
    *_resources("flowcontrol.apiserver.k8s.io", "v1", "FlowSchema PriorityLevelConfiguration", namespaced=False),
    *_resources("authentication.k8s.io", "v1", "TokenReview", namespaced=False),
    *_resources("authorization.k8s.io", "v1", "SelfSubjectAccessReview SubjectAccessReview", namespaced=False),
    *_resources("rbac.authorization.k8s.io", "v1", "ClusterRole ClusterRoleBinding", namespaced=False),
    *_resources("rbac.authorization.k8s.io", "v1", "Role RoleBinding", namespaced=True),
    *_resources("gpu-admission.io", "v1alpha1", "GPUAdmissionPolicy", namespaced=False),
    *_resources("gpu-admission.io", "v1alpha1", "GPUQuota", namespaced=True),
    *_resources("nvidia.com", "v1", "ClusterPolicy", namespaced=False),
    *_resources("nvidia.com", "v1alpha1", "GPUCluster NVIDIADriver", namespaced=False),
    *_resources("resource.nvidia.com", "v1beta1", "ComputeDomain", namespaced=True),
    *_resources("karpenter.sh", "v1", "NodePool", namespaced=False),
    *_resources("monitoring.coreos.com", "v1", "PrometheusRule ServiceMonitor", namespaced=True),
    Resource("monitoring.coreos.com", "v1", "prometheuses", "Prometheus", namespaced=True),
    *_resources("jobset.x-k8s.io", "v1alpha2", "JobSet", namespaced=True),
    *_resources("kubeflow.org", "v1", "JAXJob Notebook PaddleJob PyTorchJob TFJob XGBoostJob", namespaced=True),
    *_resources("kubeflow.org", "v2beta1", "MPIJob", namespaced=True),
    *_resources("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", namespaced=True),
    *_resources("ray.io", "v1", "RayCluster RayJob RayService", namespaced=True),
    *_resources("argoproj.io", "v1alpha1", "Rollout", namespaced=True),
    *_resources("grove.io", "v1alpha1", "PodCliqueSet", namespaced=True),
    *_resources("serving.kserve.io", "v1beta1", "InferenceService", namespaced=True),
    *_resources("sparkoperator.k8s.io", "v1beta2", "ScheduledSparkApplication SparkApplication", namespaced=True),
    *_resources("trainer.kubeflow.org", "v1alpha1", "ClusterTrainingRuntime", namespaced=False),
    *_resources("trainer.kubeflow.org", "v1alpha1", "TrainingRuntime TrainJob", namespaced=True),
]

RESOURCES: Mapping[str, Resource] = MappingProxyType({resource.kind: resource for resource in _ALL})
"""By kind, in the version that Kubernetes 1.34 and newer serve, or the operator's newest. Kubernetes 1.36 and newer serve
PodGroups only with the feature gate GenericWorkload.

Sources: the API reference of Kubernetes 1.36; the CRDs of gpu-operator, dra-driver-nvidia-gpu, karpenter,
prometheus-operator, jobset, lws, kuberay, training-operator, mpi-operator, argo-rollouts, grove, kserve, spark-operator
and trainer.
"""


_NAMESAKES = {("batch.volcano.sh", "Job"): Resource("batch.volcano.sh", "v1alpha1", "jobs", "Job", namespaced=True)}
"""Workload kinds that have the name of another kind in `RESOURCES`."""

WORKLOAD_RESOURCES = {key: _NAMESAKES.get(key) or RESOURCES[key[1]] for key in WORKLOAD_KINDS}
"""The resources of all built-in workload kinds, by group and kind."""


async def workload_resources(client: Reader, settings: GPUAdmissionPolicy) -> list[Resource]:
    """The resources of all workload kinds; omits added kinds that the API server does not serve.

    Raises:
        ClusterError: The API server does not answer.
    """
    added = [await _discover_resource(client, each.group, each.kind) for each in settings.workloads.kinds]
    found = {(each.group, each.kind): each for each in added if each is not None}
    return [*{**WORKLOAD_RESOURCES, **found}.values()]


async def _discover_resource(client: Reader, group: str, kind: str) -> Resource | None:
    """The resource of a kind in the first version of its group that serves it."""
    for listed in items_at(await _get_if_served(client, f"/apis/{group}"), ("versions",)):
        version = lookup(listed, ("version",))
        for each in items_at(await _get_if_served(client, f"/apis/{group}/{version}"), ("resources",)):
            name, namespaced = lookup(each, ("name",)), lookup(each, ("namespaced",))
            if lookup(each, ("kind",)) == kind and isinstance(name, str) and "/" not in name:
                return Resource(group, str(version), name, kind, namespaced=bool(namespaced))
    return None


async def _get_if_served(client: Reader, path: str) -> Any:
    try:
        return await client.get(path)
    except APIError as error:
        if not error.not_found:
            raise
        return None
