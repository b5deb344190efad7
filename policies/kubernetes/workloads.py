"""Workload kinds: the paths of their pod templates, composed ones, and how many pods each runs."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from policies.kubernetes.neighbours import VOLCANO
from policies.kubernetes.objects import FieldPath, items_at, lookup
from policies.kubernetes.pod_templates import (
    PodCount,
    PodTemplate,
    clique_count,
    is_count,
    job_count,
    jobset_count,
    lws_count,
    pod_count,
    pod_template,
    ray_count,
    shared_claims,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from policies.kubernetes.objects import Object


_GROUP = "trainer.kubeflow.org"
TRAIN_JOB = (_GROUP, "TrainJob")
CLUSTER_RUNTIME = (_GROUP, "ClusterTrainingRuntime")
RUNTIME = (_GROUP, "TrainingRuntime")

_TRAINJOB_STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
_JOBS = ("spec", "template", "spec", "replicatedJobs")
_RUNTIME_REF = FieldPath(["spec", "runtimeRef"])
_TRAINER = FieldPath(["spec", "trainer"])
_TRAINER_CONTAINER = "node"
_FROM_TRAINER = {"image": "image", "command": "command", "args": "args", "resources": "resourcesPerNode"}
"""Fields of the trainer's container, by what a TrainJob calls them; they replace those of the runtime."""


def train_job_templates(job: Object, runtime: Object) -> Iterator[PodTemplate]:
    """The pod templates of the JobSet that a TrainJob and its runtime result in.

    Fields of the runtime are located at `spec.runtimeRef` of the job.

    Source: kubeflow trainer pkg/apis/trainer/v1alpha1/trainjob_types.go and trainingruntime_types.go; how they are
    joined, pkg/runtime/framework/plugins/jobset/builder.go.
    """
    for each in items_at(runtime, _JOBS):
        template = lookup(each, ("template", "spec", "template"))
        if not isinstance(template, dict):
            continue
        if lookup(each, ("template", "metadata", "labels", _TRAINJOB_STEP)) == "trainer":
            nodes = pod_count(runtime, FieldPath(["spec", "mlPolicy", "numNodes"]))
            count = pod_count(job, _TRAINER / "numNodes", nodes.pods)
        else:
            count = pod_count(each, FieldPath(["replicas"]))._replace(path=_RUNTIME_REF)
        yield _with_trainer(template, lookup(job, _TRAINER), count)


def _with_trainer(template: Object, trainer: Any, count: PodCount) -> PodTemplate:
    """A template of the runtime with the image, command, resources and variables of the job's trainer."""
    containers = lookup(template, ("spec", "containers"))
    homes: list[tuple[tuple[str | int, ...], FieldPath]] = []
    if isinstance(trainer, dict) and isinstance(containers, list):
        own = {field: trainer[name] for field, name in _FROM_TRAINER.items() if trainer.get(name)}
        changed = list(containers)
        for index, container in enumerate(containers):
            if lookup(container, ("name",)) == _TRAINER_CONTAINER:
                changed[index] = {**container, **own, **_env(container, trainer)}
                homes += [(("spec", "containers", index, field), _TRAINER / _FROM_TRAINER[field]) for field in own]
        template = {**template, "spec": {**template["spec"], "containers": changed}}
    return PodTemplate(_RUNTIME_REF, template, tuple(homes), count, is_composed=True)


def _env(container: Object, trainer: Object) -> dict[str, list[Any]]:
    own = trainer.get("env")
    if not isinstance(own, list):
        return {}
    names = {lookup(each, ("name",)) for each in own}
    inherited = [each for each in items_at(container, ("env",)) if lookup(each, ("name",)) not in names]
    return {"env": [*inherited, *own]}


_INHERITED = {"schedulerName": VOLCANO.schedulers[0], "priorityClassName": None}
"""Fields that a pod takes from its job if its template does not have them, and the value if the job has none either."""


def volcano_templates(job: Object) -> Iterator[PodTemplate]:
    """The pod template of each task of a Volcano Job, with the scheduler and priority class of the job.

    Source: volcano pkg/controllers/job/job_controller_util.go, and pkg/webhooks/admission/jobs/mutate, which sets the
    scheduler of a job without one.
    """
    for index in range(len(items_at(job, ("spec", "tasks")))):
        task = FieldPath(["spec", "tasks", index])
        template = lookup(job, task / "template")
        if isinstance(template, dict):
            yield _with_inherited(
                job, pod_template(job, task / "template", template, pod_count(job, task / "replicas"))
            )


def _with_inherited(job: Object, found: PodTemplate) -> PodTemplate:
    spec = found.template.get("spec")
    if not isinstance(spec, dict):
        return found
    inherited = {
        field: value
        for field, default in _INHERITED.items()
        if not spec.get(field) and (value := lookup(job, ("spec", field)) or default)
    }
    homes = tuple((("spec", field), FieldPath(["spec", field])) for field in inherited)
    template = {**found.template, "spec": {**spec, **inherited}}
    return replace(found, template=template, homes=(*homes, *found.homes), is_composed=bool(inherited))


_COMPONENTS = (("predictor",), ("predictor", "workerSpec"), ("transformer",), ("explainer",))
MODELS = (
    *("model", "huggingface", "triton", "pytorch", "tensorflow", "onnx"),
    *("sklearn", "xgboost", "pmml", "lightgbm", "paddle"),
)
"""Fields of a predictor that hold a container."""
_CONTAINER = "kserve-container"


def service_templates(service: Object) -> Iterator[PodTemplate]:
    """The pod template of each component of a KServe InferenceService.

    A component holds the fields of a pod spec. `model`, or the name of a framework, holds the fields of a container that KServe merges with a container of a
    ServingRuntime. A model without resources has no template, because its ServingRuntime sets the resources.

    Source: kserve pkg/apis/serving/v1beta1/predictor.go, component.go and podspec.go.
    """
    for component in _COMPONENTS:
        path = FieldPath(("spec", *component))
        value = lookup(service, path)
        if not isinstance(value, dict):
            continue
        count = _component_count(service, path)
        model = next((name for name in MODELS if isinstance(lookup(value, (name, "resources")), dict)), None)
        if model is not None:
            yield _with_model(path, value, model, count)
        elif isinstance(value.get("containers"), list) and value["containers"]:
            yield pod_template(service, path, value, count, labels_above=0)


def _component_count(service: Object, component: FieldPath) -> PodCount:
    """The replicas that a component always has; one is the head of the workers that share a model."""
    replicas = pod_count(service, FieldPath((*component[:2], "minReplicas")))
    if component[-1] != "workerSpec":
        return replicas
    parallel = pod_count(service, component / "pipelineParallelSize", 2)
    return PodCount(replicas.pods * max(parallel.pods - 1, 0), parallel.path)


def _with_model(path: FieldPath, component: Object, model: str, count: PodCount) -> PodTemplate:
    others = items_at(component, ("containers",))
    container = {**component[model], "name": component[model].get("name") or _CONTAINER}
    spec = {**component, "containers": [container, *others]}
    homes = (
        (("spec", "containers", 0), path / model),
        *((("spec", "containers", 1 + index), path / "containers" / index) for index in range(len(others))),
        (("spec",), path),
        (("metadata",), path),
    )
    marks = {mark: component[mark] for mark in ("labels", "annotations") if mark in component}
    return PodTemplate(path, {"metadata": marks, "spec": spec}, homes, count, is_composed=True)


LLM_SERVICE = ("serving.kserve.io", "LLMInferenceService")


def llm_service_templates(service: Object) -> Iterator[PodTemplate]:
    """The pod templates of the servers of an LLMInferenceService, and of their workers.

    A server has workers if it spans nodes. KServe merges both with LLMInferenceServiceConfigs. A pod spec without containers has those of a config, and no
    template here.

    Source: kserve pkg/apis/serving/v1alpha2/llm_inference_service_types.go WorkloadSpec and
    llm_inference_service_types_func.go ParallelismSpec.GetSize;
    pkg/controller/v1alpha2/llmisvc/workload_multi_node.go expectedMainMultiNodeLWS.
    """
    for base in (FieldPath(["spec"]), FieldPath(["spec", "prefill"])):
        servers = None if lookup(service, base / "scaling") else pod_count(service, base / "replicas")
        workers = _llm_workers(service, base / "parallelism")
        counts = {"template": servers, "worker": servers and servers._replace(pods=servers.pods * workers)}
        for field, count in counts.items():
            value = lookup(service, base / field)
            if isinstance(value, dict) and items_at(value, ("containers",)):
                yield pod_template(service, base / field, value, count, labels_above=1)


def _llm_workers(service: Object, parallelism: FieldPath) -> int:
    """The workers beside the first pod of each server."""
    data, local, pipeline = (
        number if is_count(number := lookup(service, parallelism / field)) else 0
        for field in ("data", "dataLocal", "pipeline")
    )
    size = max(data, 1) // max(local, 1) if data or local else pipeline
    return max(size, 1) - 1


_EACH = "*"
"""A step to every item of a list, or to every value of a mapping."""
_STEP = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*)(\[\*\])?")


@dataclass(frozen=True, slots=True)
class WorkloadKind:
    """A kind of objects that make pods.

    Paths are written `spec.workers[*].template`; `[*]` is every item of a list, or every value of a mapping.
    """

    group: str
    kind: str
    templates: tuple[str, ...]
    """Paths of pod templates (`metadata` and `spec`) or pod specs (`containers`)."""
    counts: tuple[str, ...] = ()
    """Paths of numbers. Each multiplies the pods of every template beside or below it; a missing one counts as 1. Empty if
    the number of pods is not in the object."""
    count: Callable[[Object, FieldPath], PodCount | None] | None = None
    """Counts instead of `counts` where fields do more than multiply."""
    find: Callable[[Object], Iterator[PodTemplate]] | None = None
    """Finds the templates, at `templates` if that is not empty, where pods are composed of several fields."""
    labels_above: int | None = None
    """Steps from a pod spec up to the mapping with the pod's `labels` and `annotations`; None if there is none."""

    def pod_templates(self, workload: Object) -> Iterator[PodTemplate]:
        """The pod templates of an object of this kind, each with its number of pods."""
        if self.find is not None:
            yield from self.find(workload)
            return
        for text in self.templates:
            for path, value in _at(workload, path_steps(text), FieldPath()):
                found = pod_template(workload, path, value, self._count(workload, path), self.labels_above)
                is_of_job = self.count in (job_count, jobset_count)
                yield replace(found, shared_claims=shared_claims(workload, path)) if is_of_job else found

    def _count(self, workload: Object, template: FieldPath) -> PodCount | None:
        if self.count is not None:
            return self.count(workload, template)
        if not self.counts:
            return None
        fields = [field for text in self.counts if (field := _beside(path_steps(text), template))]
        if not fields:
            return PodCount(1, template)
        numbers = [lookup(workload, field) for field in fields]
        return PodCount(prod(number for number in numbers if is_count(number)), fields[-1])


@cache
def path_steps(text: str) -> tuple[str, ...]:
    """The steps of a path such as `spec.workers[*].template`.

    Raises:
        ValueError: It is not such a path.
    """
    steps: list[str] = []
    for part in text.split("."):
        match = _STEP.fullmatch(part)
        if match is None:
            raise ValueError(f"not a path such as spec.template or spec.workers[*].template: {text!r}")
        steps += [match[1], _EACH] if match[2] else [match[1]]
    return tuple(steps)


def _beside(count: tuple[str, ...], template: FieldPath) -> FieldPath | None:
    """The field with the count of a template's pods; its parent holds the template, directly or below."""
    parent = count[:-1]
    if len(parent) >= len(template) or any(
        step not in (_EACH, own) for step, own in zip(parent, template, strict=False)
    ):
        return None
    return FieldPath((*template[: len(parent)], count[-1]))


_REPLICAS = ("spec.replicas",)
_RAY = ("headGroupSpec.template", "workerGroupSpecs[*].template")
_SPARK = ("driver.template", "executor.template")
_SPARK_COUNTS = ("executor.instances",)


def _below(prefix: str, paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{prefix}.{path}" for path in paths)


_ALL = (
    WorkloadKind("", "PodTemplate", ("template",)),
    WorkloadKind("", "ReplicationController", ("spec.template",), _REPLICAS),
    WorkloadKind("apps", "DaemonSet", ("spec.template",)),
    WorkloadKind("apps", "Deployment", ("spec.template",), _REPLICAS),
    WorkloadKind("apps", "ReplicaSet", ("spec.template",), _REPLICAS),
    WorkloadKind("apps", "StatefulSet", ("spec.template",), _REPLICAS),
    WorkloadKind("argoproj.io", "Rollout", ("spec.template",), _REPLICAS),
    WorkloadKind("batch", "CronJob", ("spec.jobTemplate.spec.template",), count=job_count),
    WorkloadKind("batch", "Job", ("spec.template",), count=job_count),
    WorkloadKind("batch.volcano.sh", "Job", ("spec.tasks[*].template",), find=volcano_templates),
    WorkloadKind(
        "grove.io", "PodCliqueSet", ("spec.template.cliques[*].spec.podSpec",), count=clique_count, labels_above=2
    ),
    WorkloadKind("jobset.x-k8s.io", "JobSet", ("spec.replicatedJobs[*].template.spec.template",), count=jobset_count),
    *(
        WorkloadKind("kubeflow.org", kind, (f"spec.{field}[*].template",), (f"spec.{field}[*].replicas",))
        for kind, field in (
            ("JAXJob", "jaxReplicaSpecs"),
            ("MPIJob", "mpiReplicaSpecs"),
            ("PaddleJob", "paddleReplicaSpecs"),
            ("PyTorchJob", "pytorchReplicaSpecs"),
            ("TFJob", "tfReplicaSpecs"),
            ("XGBoostJob", "xgbReplicaSpecs"),
        )
    ),
    WorkloadKind("kubeflow.org", "Notebook", ("spec.template",)),
    WorkloadKind(
        "leaderworkerset.x-k8s.io",
        "LeaderWorkerSet",
        _below("spec.leaderWorkerTemplate", ("leaderTemplate", "workerTemplate")),
        count=lws_count,
    ),
    WorkloadKind("ray.io", "RayCluster", _below("spec", _RAY), count=ray_count),
    WorkloadKind(
        "ray.io", "RayJob", (*_below("spec.rayClusterSpec", _RAY), "spec.submitterPodTemplate"), count=ray_count
    ),
    WorkloadKind("ray.io", "RayService", _below("spec.rayClusterConfig", _RAY), count=ray_count),
    WorkloadKind("serving.kserve.io", "InferenceService", (), find=service_templates),
    WorkloadKind(*LLM_SERVICE, (), find=llm_service_templates),
    WorkloadKind(
        "sparkoperator.k8s.io",
        "ScheduledSparkApplication",
        _below("spec.template", _SPARK),
        _below("spec.template", _SPARK_COUNTS),
    ),
    WorkloadKind("sparkoperator.k8s.io", "SparkApplication", _below("spec", _SPARK), _below("spec", _SPARK_COUNTS)),
    # Its templates are those of its runtime: `policies.admission.workload_templates`.
    WorkloadKind("trainer.kubeflow.org", "TrainJob", ()),
)

WORKLOADS: Mapping[tuple[str, str], WorkloadKind] = MappingProxyType({(each.group, each.kind): each for each in _ALL})
"""By API group and kind, because `Job` is also a kind of batch.volcano.sh.

Sources, each the Go types of the API: k8s.io/api apps/v1, batch/v1 and core/v1; argo-rollouts
pkg/apis/rollouts/v1alpha1/types.go; volcano-sh/apis pkg/apis/batch/v1alpha1/job.go; grove
operator/api/core/v1alpha1/podcliqueset.go and podclique.go; sigs.k8s.io/jobset and lws api/; kubeflow training-operator,
mpi-operator and components/notebook-controller/api/v1; kuberay ray-operator/apis/ray/v1; kserve pkg/apis/serving/v1beta1/predictor.go and v1alpha2/llm_inference_service_types.go; spark-operator
api/v1beta2/sparkapplication_types.go; kubeflow trainer pkg/apis/trainer/v1alpha1/trainjob_types.go."""

WORKLOAD_KINDS = tuple(WORKLOADS)
"""Group and kind of every object that makes pods."""


def group_of(document: Any) -> str:
    """The API group of an object; empty for the core group, and if there is no `apiVersion`."""
    version = lookup(document, ("apiVersion",))
    return version.rpartition("/")[0] if isinstance(version, str) else ""


def pod_templates(document: Any, kinds: Mapping[tuple[str, str], WorkloadKind] = WORKLOADS) -> tuple[PodTemplate, ...]:
    """The pod templates that an object itself holds; none for objects of other kinds.

    A template that is not a mapping is skipped, because the API server cannot read such an object.
    """
    kind = lookup(document, ("kind",))
    known = kinds.get((group_of(document), kind)) if isinstance(kind, str) else None
    return tuple(known.pod_templates(document)) if known is not None else ()


def _at(value: Any, pattern: tuple[str, ...], path: FieldPath) -> Iterator[tuple[FieldPath, Object]]:
    if not pattern:
        if isinstance(value, dict):
            yield path, value
        return
    first, *rest = pattern
    steps: list[str | int] = [first]
    if first == _EACH:
        steps = [*range(len(value))] if isinstance(value, list) else [*value] if isinstance(value, dict) else []
    for step in steps:
        yield from _at(lookup(value, (step,)), tuple(rest), path / step)


def has_finished(workload: Object) -> bool:
    """True if a workload creates no more pods: it is being deleted, or is a Job that has finished."""
    if lookup(workload, ("metadata", "deletionTimestamp")) is not None:
        return True
    conditions = lookup(workload, ("status", "conditions")) if workload.get("kind") == "Job" else None
    return isinstance(conditions, list) and any(
        lookup(each, ("type",)) in ("Complete", "Failed") and lookup(each, ("status",)) == "True" for each in conditions
    )


_COUNTED_KINDS = frozenset(
    {
        ("apps", "Deployment"),
        ("apps", "ReplicaSet"),
        ("apps", "StatefulSet"),
        ("batch", "Job"),
        ("", "ReplicationController"),
    }
)
"""Kinds that run exactly as many pods as they say, until they end."""
_SUSPENSIONS = (("spec", "suspend"), ("spec", "runPolicy", "suspend"))


def is_suspended(workload: Object) -> bool:
    """True if a workload shall have no pods for now."""
    return any(lookup(workload, path) is True for path in _SUSPENSIONS)


def existing_pods(workload: Object, seen: int = 0) -> int:
    """The number of pods of a workload: those that are seen, or those of its status if they are more."""
    counted = (lookup(workload, ("status", field)) for field in ("replicas", "active"))
    return max(seen, *(count if isinstance(count, int) else 0 for count in counted))


def missing_pods(workload: Object, wanted: int | None, seen: int = 0) -> int:
    """The number of pods that a workload should have and does not; 0 if that is unknown.

    Args:
        workload: The workload. Without a status it was never given to a controller, and misses none.
        wanted: The number of pods that it runs at once; None if it does not say so.
        seen: The number of its pods that are known; its status may know more.
    """
    is_counted = is_suspended(workload) or (group_of(workload), workload.get("kind")) in _COUNTED_KINDS
    status = lookup(workload, ("status",))
    if wanted is None or not is_counted or not status or not isinstance(status, dict):
        return 0
    completions, succeeded = lookup(workload, ("spec", "completions")), lookup(workload, ("status", "succeeded"))
    if isinstance(completions, int) and isinstance(succeeded, int):
        wanted = min(wanted, completions - succeeded)
    return max(wanted - existing_pods(workload, seen), 0)
