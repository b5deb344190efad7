"""Pod templates of TrainJobs, Volcano Jobs and InferenceServices, composed of several fields."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from policies.kubernetes.neighbours import VOLCANO
from policies.kubernetes.objects import FieldPath, items_at, lookup
from policies.kubernetes.pod_templates import PodCount, PodTemplate, pod_count, pod_template

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.kubernetes.objects import Object


__all__ = [
    "CLUSTER_RUNTIME",
    "MODELS",
    "RUNTIME",
    "TRAIN_JOB",
    "service_templates",
    "train_job_templates",
    "volcano_templates",
]

_GROUP = "trainer.kubeflow.org"
TRAIN_JOB = (_GROUP, "TrainJob")
CLUSTER_RUNTIME = (_GROUP, "ClusterTrainingRuntime")
RUNTIME = (_GROUP, "TrainingRuntime")

_STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
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
        if isinstance(template, dict):
            count = _trainer_count(job, runtime) if _is_trainer(each) else _job_count(each)
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


def _is_trainer(replicated_job: Any) -> bool:
    return bool(lookup(replicated_job, ("template", "metadata", "labels", _STEP)) == "trainer")


def _trainer_count(job: Object, runtime: Object) -> PodCount:
    nodes = pod_count(runtime, FieldPath(["spec", "mlPolicy", "numNodes"]))
    return pod_count(job, _TRAINER / "numNodes", nodes.pods)


def _job_count(replicated_job: Any) -> PodCount:
    return pod_count(replicated_job, FieldPath(["replicas"]))._replace(path=_RUNTIME_REF)


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
