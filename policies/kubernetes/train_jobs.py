"""The pods of a Kubeflow TrainJob: the templates of its runtime, with what the job says of its trainer.

Source: kubeflow trainer pkg/apis/trainer/v1alpha1/trainjob_types.go and trainingruntime_types.go; how they are joined,
pkg/runtime/framework/plugins/jobset/builder.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.kubernetes.paths import FieldPath, lookup
from policies.kubernetes.pod_templates import PodTemplate, pod_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.kubernetes.objects import Object
    from policies.kubernetes.pod_templates import PodCount

__all__ = ["CLUSTER_RUNTIME", "RUNTIME", "TRAIN_JOB", "train_job_templates"]

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
    """The pod templates of the JobSet that a TrainJob and its runtime come to.

    What the runtime says is at `spec.runtimeRef` of the job.
    """
    listed = lookup(runtime, _JOBS)
    for each in listed if isinstance(listed, list) else ():
        template = lookup(each, ("template", "spec", "template"))
        if isinstance(template, dict):
            count = _trainer_count(job, runtime) if _is_trainer(each) else _job_count(each)
            yield _template(template, lookup(job, _TRAINER), count)


def _template(template: Object, trainer: Any, count: PodCount) -> PodTemplate:
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
    inherited, own = container.get("env"), trainer.get("env")
    if not isinstance(own, list):
        return {}
    named = {lookup(each, ("name",)) for each in own}
    kept = [each for each in inherited if lookup(each, ("name",)) not in named] if isinstance(inherited, list) else []
    return {"env": [*kept, *own]}
