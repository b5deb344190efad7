"""Workloads: the objects that carry a pod template, and where they carry it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.kubernetes.paths import FieldPath, lookup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.kubernetes.objects import Object

__all__ = ["WORKLOAD_KINDS", "group_of", "pod_templates"]

_EACH = "*"
"""A step to every item of a list, or to every value of a mapping."""

_TEMPLATE = ("spec", "template")
_RAY_CLUSTER = (("headGroupSpec", "template"), ("workerGroupSpecs", _EACH, "template"))

_TEMPLATES: dict[tuple[str, str], tuple[tuple[str, ...], ...]] = {
    ("", "PodTemplate"): (("template",),),
    ("", "ReplicationController"): (_TEMPLATE,),
    ("apps", "DaemonSet"): (_TEMPLATE,),
    ("apps", "Deployment"): (_TEMPLATE,),
    ("apps", "ReplicaSet"): (_TEMPLATE,),
    ("apps", "StatefulSet"): (_TEMPLATE,),
    ("batch", "CronJob"): (("spec", "jobTemplate", "spec", "template"),),
    ("batch", "Job"): (_TEMPLATE,),
    ("jobset.x-k8s.io", "JobSet"): (("spec", "replicatedJobs", _EACH, "template", "spec", "template"),),
    ("kubeflow.org", "MPIJob"): (("spec", "mpiReplicaSpecs", _EACH, "template"),),
    ("kubeflow.org", "PyTorchJob"): (("spec", "pytorchReplicaSpecs", _EACH, "template"),),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): (
        ("spec", "leaderWorkerTemplate", "leaderTemplate"),
        ("spec", "leaderWorkerTemplate", "workerTemplate"),
    ),
    ("ray.io", "RayCluster"): tuple(("spec", *path) for path in _RAY_CLUSTER),
    ("ray.io", "RayJob"): (
        *(("spec", "rayClusterSpec", *path) for path in _RAY_CLUSTER),
        ("spec", "submitterPodTemplate"),
    ),
    ("ray.io", "RayService"): tuple(("spec", "rayClusterConfig", *path) for path in _RAY_CLUSTER),
}
"""By API group and kind, because `Job` is also a kind of batch.volcano.sh. Sources: k8s.io/api apps, batch and core;
sigs.k8s.io/jobset and lws api/; kuberay ray-operator/apis/ray/v1; kubeflow training-operator and mpi-operator."""

WORKLOAD_KINDS = tuple(_TEMPLATES)
"""Group and kind of every object that carries pod templates."""


def group_of(document: Any) -> str:
    """The API group of an object; empty for the core group, and where there is no `apiVersion`."""
    version = lookup(document, ("apiVersion",))
    return version.rpartition("/")[0] if isinstance(version, str) else ""


def pod_templates(document: Any) -> list[tuple[FieldPath, Object]]:
    """The pod templates of an object, each with its place; none for objects of other kinds.

    What stands at the place of a template and is no mapping is left out: the API server cannot read such an object.
    """
    kind = lookup(document, ("kind",))
    patterns = _TEMPLATES.get((group_of(document), kind), ()) if isinstance(kind, str) else ()
    return [found for pattern in patterns for found in _at(document, pattern, FieldPath())]


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
