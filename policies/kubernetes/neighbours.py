"""The neighbours of gpu-admission: systems that read or rewrite what GPU pods request.

One row for each. The rows decide whether a pod is converted, what `migrate` may remove from a manifest, and how other
webhooks change a pod. docs/neighbours.md is the same table for people.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from policies.kubernetes.nodes import REQUIRED
from policies.kubernetes.objects import FieldPath, items_at, lookup
from policies.kubernetes.pods import SPEC

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policies.kubernetes.pods import Pod


_NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A system that reads or rewrites GPU pods, or the objects that make them."""

    name: str
    effect: str
    """The fields that it reads or rewrites, and in which objects."""
    answer: str
    """The answer of gpu-admission to that."""
    source: str
    """The files and functions, or the page, that say so."""
    version: str
    """The version that was read, or the date of the page."""
    schedulers: tuple[str, ...] = ()
    """The usual names of its scheduler."""
    allocates_claims: bool | None = None
    """True if its scheduler allocates ResourceClaims; None if it has no scheduler."""
    makes_claims: bool | None = None
    """True if its scheduler makes claims for the extended resources of DeviceClasses (KEP-5004)."""
    resources: Mapping[str, str] = field(default_factory=lambda: _NONE)
    """Resources of containers that change the meaning of `nvidia.com/gpu` beside them, each with the new meaning."""
    annotations: Mapping[str, str] = field(default_factory=lambda: _NONE)
    """The same for annotations of pods."""
    node_labels: Mapping[str, str] = field(default_factory=lambda: _NONE)
    """The same for labels of nodes that pods select."""
    groups_without_pods: tuple[str, ...] = ()
    """Its API groups whose objects neither make pods nor configure GPUs, such as queues."""


QUEUE = "kueue.x-k8s.io/queue-name"
"""The label that names the queue of an object."""
_SUSPENDED_BY_PARENT = "kueue.x-k8s.io/pod-suspending-parent"
_COUNTED_BY_OWNER = frozenset(
    {
        *("AppWrapper", "CronJob", "JAXJob", "Job", "JobSet", "MPIJob", "PaddleJob", "PyTorchJob", "RayCluster"),
        *("RayJob", "RayService", "ScheduledSparkApplication", "SparkApplication", "TFJob", "TrainJob", "XGBoostJob"),
    }
)
"""Kinds that Kueue counts as a whole, before they have pods. It counts the pods of all others one by one."""
OBJECTS_WITH_QUEUED_PODS = frozenset(
    {
        ("apps", "Deployment"),
        ("apps", "StatefulSet"),
        ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"),
        ("serving.kserve.io", "InferenceService"),
        ("serving.kserve.io", "LLMInferenceService"),
    }
)
"""Group and kind of objects whose queue becomes that of their pods. KServe copies the label to its Deployments and
LeaderWorkerSets."""

KUEUE_FLAVOR = ("kueue.x-k8s.io", "ResourceFlavor")
KUEUE_QUEUES = (("kueue.x-k8s.io", "ClusterQueue"), ("kueue.x-k8s.io", "Cohort"))
KUEUE_CONFIGURATION = ("config.kueue.x-k8s.io", "Configuration")
VOLCANO_QUEUE = ("scheduling.volcano.sh", "Queue")
KINDS_OF_QUEUES = frozenset({KUEUE_FLAVOR, *KUEUE_QUEUES, KUEUE_CONFIGURATION, VOLCANO_QUEUE})
"""Group and kind of the objects that say what queues count."""

KUEUE = Neighbour(
    "Kueue",
    effect="counts a queued Job, JobSet, RayJob and so on as a whole, and all other queued pods one by one; copies the "
    f"label {QUEUE} of Deployments, StatefulSets and LeaderWorkerSets to their pods; counts claims from templates only "
    "of DeviceClasses in its deviceClassMappings, and fails other Workloads with claims",
    answer="pods that it counts one by one keep their resource names (GA316); pods of queued Jobs are converted, and "
    "`migrate` says which DeviceClass must be mapped",
    source="kubernetes-sigs/kueue pkg/controller/jobs/deployment/deployment_webhook.go Default, "
    "statefulset/statefulset_webhook.go Default, leaderworkerset/leaderworkerset_webhook.go podTemplateSpecDefault, "
    "pod/pod_webhook.go Default; pkg/dra/claims.go GetResourceRequestsForResourceClaimTemplates",
    version="v0.20.0-devel",
    groups_without_pods=("config.kueue.x-k8s.io", "kueue.x-k8s.io"),
)

KUBERAY = Neighbour(
    "KubeRay",
    effect="starts Ray with num-gpus from the GPU limits of the first container of each group, unless rayStartParams or "
    "the group's resources say it",
    answer="`migrate` writes num-gpus into rayStartParams before it removes the limit",
    source="ray-project/kuberay ray-operator/controllers/ray/common/pod.go addWellKnownAcceleratorResources, "
    "updateRayStartParamsResources; utils/resources.go IsGPUResourceKey",
    version="v1.7.0-rc.0",
)

GROVE = Neighbour(
    "Grove",
    effect="gives a ComputeDomain and a claim of it to the cliques of a grove.io/mnnvl-group whose containers name "
    "nvidia.com/gpu, and to no others",
    answer="`migrate` leaves a PodCliqueSet with such a group as it is",
    source="ai-dynamo/grove operator/internal/mnnvl/helpers.go HasGPUInPodSpec, ResolveGroupNameHierarchically; "
    "injection.go InjectMNNVLIntoPodSpec",
    version="v0.1.0-alpha.12",
)

HAMI = Neighbour(
    "HAMi",
    effect="hands out parts of GPUs: the resources nvidia.com/gpumem, gpumem-percentage, gpucores and priority, and its "
    "annotations, say what nvidia.com/gpu beside them means; its webhook sets the scheduler",
    answer="such a pod keeps its resource names (GA337), unless `conversion.readWishesOf: [HAMi]` lets nvidia.com/gpumem be "
    "read as the wish gpu-memory",
    source="Project-HAMi/HAMi pkg/device/nvidia/device.go MutateAdmission, GenerateResourceRequests; "
    "pkg/scheduler/webhook.go Handle; charts/hami/values.yaml",
    version="v2.10.0",
    schedulers=("hami-scheduler",),
    allocates_claims=True,
    makes_claims=True,
    resources=MappingProxyType(
        {
            "nvidia.com/gpucores": "part of the compute of a GPU",
            "nvidia.com/gpumem": "part of the memory of a GPU",
            "nvidia.com/gpumem-percentage": "part of the memory of a GPU",
            "nvidia.com/priority": "part of a GPU, by priority",
        }
    ),
    annotations=MappingProxyType(
        {
            "nvidia.com/nouse-gputype": "a GPU of other products",
            "nvidia.com/nouse-gpuuuid": "another GPU than these",
            "nvidia.com/use-gputype": "a GPU of these products",
            "nvidia.com/use-gpuuuid": "one of these GPUs",
            "nvidia.com/vgpu-mode": "a GPU in this mode of sharing",
        }
    ),
)

KAI = Neighbour(
    "KAI Scheduler",
    effect="shares GPUs by the annotations gpu-fraction and gpu-memory of pods that request no nvidia.com/gpu; its "
    "scheduler allocates claims, and makes none for extended resources of DeviceClasses",
    answer="its pods are converted once the settings list its scheduler (GA315); their extended resources of DeviceClasses "
    "count as no GPU request even then; pods with these annotations are not reviewed, because they request no GPU by a resource",
    source="NVIDIA/KAI-Scheduler pkg/admission/webhook/v1alpha2/gpusharing/gpu_sharing.go; "
    "pkg/scheduler/plugins/dynamicresources; pkg/binder/plugins/k8s-plugins/dynamicresources/dra.go",
    version="v0.13.0-rc1",
    schedulers=("kai-scheduler",),
    allocates_claims=True,
    makes_claims=False,
    groups_without_pods=("scheduling.run.ai",),
)

VOLCANO = Neighbour(
    "Volcano",
    effect="its Jobs are scheduled by Volcano unless they name a scheduler; the scheduler uses Kubernetes' plugin for "
    "claims, with claims for extended resources of DeviceClasses",
    answer="its pods are converted once the settings list its scheduler (GA315)",
    source="volcano-sh/volcano pkg/controllers/job/job_controller_util.go; pkg/webhooks/admission/jobs/mutate; "
    "pkg/scheduler/plugins/predicates/predicates.go",
    version="v1.16.0-alpha.1",
    schedulers=("volcano",),
    allocates_claims=True,
    makes_claims=True,
    groups_without_pods=("scheduling.volcano.sh",),
)

_GKE_SHARE = "a share of a GPU"
GKE = Neighbour(
    "GKE",
    effect="labels nodes whose nvidia.com/gpu is a MIG device (cloud.google.com/gke-gpu-partition-size) or a share of a "
    "GPU (gke-gpu-sharing-strategy, gke-max-shared-clients-per-gpu)",
    answer="a pod whose nodeSelector selects such nodes gets a claim for the same device where ResourceSlices have it; otherwise it "
    "keeps its resource names (GA337)",
    source="cloud.google.com/kubernetes-engine/docs/concepts/timesharing-gpus and how-to/gpus-multi",
    version="of July 2025",
    node_labels=MappingProxyType(
        {
            "cloud.google.com/gke-gpu-partition-size": "a MIG device",
            "cloud.google.com/gke-gpu-sharing-strategy": _GKE_SHARE,
            "cloud.google.com/gke-max-shared-clients-per-gpu": _GKE_SHARE,
        }
    ),
)

KSERVE = Neighbour(
    "KServe",
    effect="counts the GPUs of an InferenceService with workers by their nvidia.com/gpu, and writes nvidia.com/gpu into "
    "the containers of both",
    answer="`migrate` leaves an InferenceService with spec.predictor.workerSpec as it is",
    source="kserve/kserve pkg/controller/v1beta1/inferenceservice/components/predictor.go computeRayNodeAndGPUs; "
    "reconcilers/deployment/deployment_reconciler.go addGPUResourceToDeployment",
    version="v0.20.0-rc0",
)

COMPUTE_DOMAIN = Neighbour(
    "NVIDIA ComputeDomain",
    effect="its controller makes the ResourceClaimTemplate that spec.channel.resourceClaimTemplate.name of a ComputeDomain "
    "names",
    answer="a ComputeDomain in the same files or in the cluster provides its template",
    source="kubernetes-sigs/dra-driver-nvidia-gpu cmd/compute-domain-controller/resourceclaimtemplate.go "
    "WorkloadResourceClaimTemplateManager.Create; templates/compute-domain-workload-claim-template.tmpl.yaml",
    version="v0.4.0",
)

NEIGHBOURS = (KUEUE, KUBERAY, GROVE, HAMI, KAI, VOLCANO, GKE, KSERVE, COMPUTE_DOMAIN)

RESOURCES_OF_NEIGHBOURS = frozenset(name for each in NEIGHBOURS for name in each.resources)
"""Resources that a neighbour reads and no node advertises."""
KEYS_READ = ("kueue.x-k8s.io/", *sorted(key for each in NEIGHBOURS for key in each.annotations))
"""Prefixes of the labels and annotations of pods by which a neighbour is recognized."""


HAMI_MEMORY = "nvidia.com/gpumem"
"""HAMi's resource for the memory in MiB of each GPU that the container requests, unless its `memoryFactor` is not 1."""


class ForeignRequest(NamedTuple):
    """A field of a pod by which a neighbour gives another meaning to the GPUs that the pod requests."""

    path: FieldPath
    neighbour: Neighbour
    meaning: str
    """The devices that the neighbour then hands out as `nvidia.com/gpu`."""


def foreign_requests(pod: Pod) -> Iterator[ForeignRequest]:
    """The fields of a pod that say what its GPUs mean to a neighbour, and that no claim can express.

    A condition that excludes nodes with a label changes nothing.
    """
    for neighbour in NEIGHBOURS:
        for container in pod.all_containers if neighbour.resources else ():
            for section, amounts in (("limits", container.limits), ("requests", container.requests)):
                for name in amounts:
                    if name in neighbour.resources and (section == "limits" or name not in container.limits):
                        path = container.path / "resources" / section / name
                        yield ForeignRequest(path, neighbour, neighbour.resources[name])
        for key in pod.annotations:
            if key in neighbour.annotations:
                path = FieldPath(["metadata", "annotations", key])
                yield ForeignRequest(path, neighbour, neighbour.annotations[key])
        if neighbour.node_labels:
            yield from _node_requests(pod, neighbour)


def _node_requests(pod: Pod, neighbour: Neighbour) -> Iterator[ForeignRequest]:
    for key in pod.spec.get("nodeSelector") or ():
        if key in neighbour.node_labels:
            yield ForeignRequest(SPEC / "nodeSelector" / key, neighbour, neighbour.node_labels[key])
    terms = FieldPath([*SPEC, *REQUIRED, "nodeSelectorTerms"])
    for index, term in enumerate(items_at(pod.document, terms)):
        for place, expression in enumerate(items_at(term, ("matchExpressions",))):
            key = lookup(expression, ("key",))
            if key in neighbour.node_labels and lookup(expression, ("operator",)) not in ("NotIn", "DoesNotExist"):
                path = terms / index / "matchExpressions" / place
                yield ForeignRequest(path, neighbour, neighbour.node_labels[key])


def kueue_mark(pod: Pod) -> FieldPath | None:
    """The label or annotation by which Kueue counts this pod by itself; None if it does not.

    Since v0.17, Kueue marks the pods of a StatefulSet by an annotation, and adds the label only after their creation.
    """
    if _SUSPENDED_BY_PARENT in pod.annotations:
        return FieldPath(["metadata", "annotations", _SUSPENDED_BY_PARENT])
    if QUEUE in pod.labels and pod.controller_kind not in _COUNTED_BY_OWNER:
        return FieldPath(["metadata", "labels", QUEUE])
    return None


def neighbour_of_scheduler(name: str) -> Neighbour | None:
    """The neighbour whose scheduler usually has this name."""
    return next((each for each in NEIGHBOURS if name in each.schedulers), None)
