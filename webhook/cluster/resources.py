"""The API resources that this program reads, writes and installs, and their paths."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import quote

from policies.kubernetes.names import resource_name
from policies.kubernetes.workloads import WORKLOAD_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


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
    other_versions: tuple[str, ...] = ()
    """Versions to read if `version` is not served, in this order; the fields that are read are the same in all."""

    @property
    def api_version(self) -> str:
        """The `apiVersion` of objects: `v1`, `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def name(self) -> str:
        """The unambiguous name for `kubectl get`: `pods`, `jobs.batch`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def versions(self) -> tuple[str, ...]:
        """All versions that are read, the preferred one first."""
        return self.version, *self.other_versions

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


class ServedVersions:
    """The versions in which an API server has served resources with several versions."""

    def __init__(self) -> None:
        self._last: dict[str, Resource] = {}

    def candidates(self, resource: Resource) -> list[Resource]:
        """A resource in each of its versions, the version that was served last first."""
        found = [replace(resource, version=each, other_versions=()) for each in resource.versions]
        last = self._last.get(resource.name)
        return found if last is None else sorted(found, key=lambda each: each != last)

    def has(self, resource: Resource) -> bool:
        """True if a version was served."""
        return resource.name in self._last

    def note(self, served: Resource) -> None:
        """Remember the version of an answer."""
        self._last[served.name] = served


def _segment(name: str) -> str:
    """A name as one segment of a path. Source: apimachinery pkg/api/validation/path/name.go."""
    if name in (".", "..") or "/" in name or "%" in name:
        raise ValueError(f'invalid name {name[:253]!r}: must not be "." or "..", and must not contain "/" or "%"')
    return quote(name, safe=":")


_TABLE = """
v1 cluster Namespace=ns Node=no
v1 namespaced ConfigMap=cm Event=ev LimitRange=limits Pod=po PodTemplate ReplicationController=rc
v1 namespaced ResourceQuota=quota Secret Service=svc ServiceAccount=sa
apps/v1 namespaced DaemonSet=ds Deployment=deploy ReplicaSet=rs StatefulSet=sts
batch/v1 namespaced CronJob=cj Job
coordination.k8s.io/v1 namespaced Lease
networking.k8s.io/v1 namespaced NetworkPolicy=netpol
policy/v1 namespaced PodDisruptionBudget=pdb
node.k8s.io/v1 cluster RuntimeClass
scheduling.k8s.io/v1 cluster PriorityClass=pc
scheduling.k8s.io/v1beta1,v1alpha3,v1alpha2 namespaced PodGroup
resource.k8s.io/v1 cluster DeviceClass ResourceSlice
resource.k8s.io/v1,v1beta2,v1alpha3 cluster DeviceTaintRule
resource.k8s.io/v1 namespaced ResourceClaim ResourceClaimTemplate
admissionregistration.k8s.io/v1 cluster MutatingWebhookConfiguration ValidatingWebhookConfiguration
admissionregistration.k8s.io/v1 cluster ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding
apiextensions.k8s.io/v1 cluster CustomResourceDefinition=crd,crds
flowcontrol.apiserver.k8s.io/v1 cluster FlowSchema PriorityLevelConfiguration
authentication.k8s.io/v1 cluster TokenReview
authorization.k8s.io/v1 cluster SelfSubjectAccessReview SubjectAccessReview
rbac.authorization.k8s.io/v1 cluster ClusterRole ClusterRoleBinding
rbac.authorization.k8s.io/v1 namespaced Role RoleBinding
gpu-admission.io/v1alpha1 cluster ClusterGPUQuota GPUAdmissionPolicy GPUQuotaGroup
gpu-admission.io/v1alpha1 namespaced GPUQuota
nvidia.com/v1 cluster ClusterPolicy
nvidia.com/v1alpha1 cluster GPUCluster NVIDIADriver
resource.nvidia.com/v1beta1 namespaced ComputeDomain
karpenter.sh/v1 cluster NodePool
monitoring.coreos.com/v1 namespaced PrometheusRule ServiceMonitor
jobset.x-k8s.io/v1alpha2 namespaced JobSet
kubeflow.org/v1 namespaced JAXJob Notebook PaddleJob PyTorchJob TFJob XGBoostJob
kubeflow.org/v2beta1 namespaced MPIJob
leaderworkerset.x-k8s.io/v1 namespaced LeaderWorkerSet=lws
ray.io/v1 namespaced RayCluster RayJob RayService
argoproj.io/v1alpha1 namespaced Rollout
grove.io/v1alpha1 namespaced PodCliqueSet
serving.kserve.io/v1beta1 namespaced InferenceService
serving.kserve.io/v1alpha1 namespaced LLMInferenceService
sparkoperator.k8s.io/v1beta2 namespaced ScheduledSparkApplication SparkApplication
trainer.kubeflow.org/v1alpha1 cluster ClusterTrainingRuntime
trainer.kubeflow.org/v1alpha1 namespaced TrainingRuntime TrainJob
"""
"""The apiVersion with further versions, the scope and the kinds, with the short names that `kubectl api-resources` lists."""


def _resources(table: str) -> Iterator[Resource]:
    """The resources of a table; the name of each is the English plural of its kind."""
    for line in table.strip().splitlines():
        api_version, scope, kinds = line.split(maxsplit=2)
        group, _, versions = api_version.rpartition("/")
        version, *others = versions.split(",")
        for kind, _, short in (each.partition("=") for each in kinds.split()):
            names = tuple(short.split(",")) if short else ()
            yield Resource(group, version, resource_name(kind), kind, scope == "namespaced", names, tuple(others))


_PROMETHEUS = Resource("monitoring.coreos.com", "v1", "prometheuses", "Prometheus", namespaced=True)

RESOURCES: Mapping[str, Resource] = MappingProxyType(
    {resource.kind: resource for resource in (*_resources(_TABLE), _PROMETHEUS)}
)
"""By kind, in the version that Kubernetes 1.34 and newer serve, or the operator's newest. PodGroups and DeviceTaintRules are
served in the versions that `policies.kubernetes.versions` has, PodGroups only with the feature gate GenericWorkload.

Sources: the API reference of Kubernetes 1.36; the CRDs of gpu-operator, dra-driver-nvidia-gpu, karpenter,
prometheus-operator, jobset, lws, kuberay, training-operator, mpi-operator, argo-rollouts, grove, kserve, spark-operator
and trainer.
"""


NEW_EVENT = Resource("events.k8s.io", "v1", "events", "Event", namespaced=True)
"""The newer form of events, which can be a series; API servers store both forms as one object."""


_NAMESAKES = {("batch.volcano.sh", "Job"): Resource("batch.volcano.sh", "v1alpha1", "jobs", "Job", namespaced=True)}
"""Workload kinds that have the name of another kind in `RESOURCES`."""


WORKLOAD_RESOURCES = {key: _NAMESAKES.get(key) or RESOURCES[key[1]] for key in WORKLOAD_KINDS}
"""The resources of all built-in workload kinds, by group and kind."""
