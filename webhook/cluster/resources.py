"""The API resources that this program reads, writes and installs, and their paths."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from policies.kubernetes.names import plural
from policies.kubernetes.paths import lookup
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

    @property
    def api_version(self) -> str:
        """What objects write as their `apiVersion`: `v1`, `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def name(self) -> str:
        """What `kubectl get` calls it without a doubt: `pods`, `jobs.batch`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The path of one object, or of the collection where no name is given.

        Args:
            namespace: Where the object is; empty for objects that are in none, and for a list of all namespaces.
            name: Which object; empty for the collection.
            subresource: `status`, `binding` and the like of one object.

        Raises:
            ValueError: no object can have this namespace or name, or one of them is missing or too much.
        """
        if namespace and not self.namespaced:
            raise ValueError(f"a {self.kind} is in no namespace, but {namespace[:63]!r} was given")
        if name and self.namespaced and not namespace:
            raise ValueError(f"a {self.kind} is in a namespace, but none was given for {name[:253]!r}")
        if subresource and not name:
            raise ValueError(f"{subresource!r} is a part of one {self.kind}, but no name was given")
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        parts += ["namespaces", _segment(namespace)] if namespace else []
        parts += [self.plural]
        parts += [_segment(part) for part in (name, *subresource.split("/")) if part]
        return "/" + "/".join(parts)


def _segment(name: str) -> str:
    """A name as one step of a path. What the API server takes for none: apimachinery pkg/api/validation/path/name.go."""
    if name in (".", "..") or "/" in name or "%" in name:
        raise ValueError(f'no object is called {name[:253]!r}: a name is not "." or ".." and has no "/" or "%"')
    return quote(name, safe=":")


def _resources(group: str, version: str, kinds: str, *, namespaced: bool) -> list[Resource]:
    """Resources whose plural is the kind in lower case with an ending as English has it."""
    return [Resource(group, version, plural(kind), kind, namespaced) for kind in kinds.split()]


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
"""By kind, in the version that is written here: the one Kubernetes 1.34 and newer serve, or the operator's newest. A
PodGroup is served only where the feature gate GenericWorkload is on, by 1.36 and newer.

Sources: the API reference of Kubernetes 1.36; the CRDs of gpu-operator, dra-driver-nvidia-gpu, karpenter,
prometheus-operator, jobset, lws, kuberay, training-operator, mpi-operator, argo-rollouts, grove, kserve, spark-operator
and trainer.
"""


_NAMESAKES = {("batch.volcano.sh", "Job"): Resource("batch.volcano.sh", "v1alpha1", "jobs", "Job", namespaced=True)}
"""Kinds whose name is also that of a kind in `RESOURCES`."""

WORKLOAD_RESOURCES = {key: _NAMESAKES.get(key) or RESOURCES[key[1]] for key in WORKLOAD_KINDS}
"""By group and kind, of every built-in kind that makes pods."""


async def workload_resources(client: Reader, settings: GPUAdmissionPolicy) -> list[Resource]:
    """The resources of all kinds that make pods; an added kind that the API server does not serve is left out.

    Raises:
        ClusterError: The API server does not answer.
    """
    added = [await _served(client, each.group, each.kind) for each in settings.workloads.kinds]
    found = {(each.group, each.kind): each for each in added if each is not None}
    return [*{**WORKLOAD_RESOURCES, **found}.values()]


async def _served(client: Reader, group: str, kind: str) -> Resource | None:
    """The resource of a kind in the first version of its group that has it, as clients prefer them."""
    versions = lookup(await _discovered(client, f"/apis/{group}"), ("versions",))
    for listed in versions if isinstance(versions, list) else ():
        version = lookup(listed, ("version",))
        resources = lookup(await _discovered(client, f"/apis/{group}/{version}"), ("resources",))
        for each in resources if isinstance(resources, list) else ():
            name, namespaced = lookup(each, ("name",)), lookup(each, ("namespaced",))
            if lookup(each, ("kind",)) == kind and isinstance(name, str) and "/" not in name:
                return Resource(group, str(version), name, kind, namespaced=bool(namespaced))
    return None


async def _discovered(client: Reader, path: str) -> Any:
    try:
        return await client.get(path)
    except APIError as error:
        if not error.not_found:
            raise
        return None
