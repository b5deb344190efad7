"""How many pods a workload runs at the same time, template by template."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from policies.kubernetes.paths import FieldPath, lookup
from policies.kubernetes.workloads import group_of

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object

__all__ = ["PodCount", "pods_at_once"]


class PodCount(NamedTuple):
    """The pods of one template that run side by side."""

    pods: int
    path: FieldPath
    """The field that says so, or would if it were there."""


def pods_at_once(workload: Object, template: FieldPath) -> PodCount | None:
    """How many pods a workload runs at once from one of its templates; None where nodes, or nobody, decide.

    What a rolling update adds for a while is left out, and so is what an autoscaler adds later. A number that the API
    server would not take counts as if it were not there.

    Args:
        workload: An object with pod templates.
        template: Where one of them is, as `pod_templates` tells it.

    Source: the defaults of k8s.io/api apps/v1 and batch/v1, sigs.k8s.io/jobset and lws, kuberay, training-operator.
    """
    match group_of(workload), workload.get("kind"):
        case ("" | "apps", "Deployment" | "ReplicaSet" | "ReplicationController" | "StatefulSet"):
            return _counted(workload, FieldPath(["spec", "replicas"]))
        case ("batch", "Job" | "CronJob"):
            return _of_job(workload, _up(template, 1))
        case ("jobset.x-k8s.io", "JobSet"):
            job = _up(template, 1)
            jobs, each = _counted(workload, _up(job, 2) / "replicas"), _of_job(workload, job)
            return PodCount(jobs.pods * each.pods, jobs.path)
        case ("kubeflow.org", "MPIJob" | "PyTorchJob"):
            return _counted(workload, _up(template, 1) / "replicas")
        case ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"):
            return _of_leader_worker_set(workload, template)
        case ("ray.io", "RayCluster" | "RayJob" | "RayService"):
            return _of_ray(workload, template)
    return None


def _of_job(workload: Object, spec: FieldPath) -> PodCount:
    parallel = _counted(workload, spec / "parallelism")
    completions = lookup(workload, spec / "completions")
    return parallel._replace(pods=min(parallel.pods, completions)) if _is_count(completions) else parallel


def _of_leader_worker_set(workload: Object, template: FieldPath) -> PodCount:
    """Of each group one pod is the leader; workers have its template as well where it has none of its own."""
    groups = _counted(workload, FieldPath(["spec", "replicas"]))
    if template[-1] == "leaderTemplate":
        return groups
    together = _up(template, 1)
    has_leader = isinstance(lookup(workload, together / "leaderTemplate"), dict)
    size = _counted(workload, together / "size")
    return PodCount(groups.pods * max(size.pods - has_leader, 0), groups.path)


def _of_ray(workload: Object, template: FieldPath) -> PodCount | None:
    """Workers of a group; the head and the submitter are one each, and no field says so."""
    if "workerGroupSpecs" not in template:
        return PodCount(1, template)
    group = _up(template, 1)
    hosts = _counted(workload, group / "numOfHosts")
    replicas = _counted(workload, group / "replicas", _counted(workload, group / "minReplicas", 0).pods)
    return PodCount(replicas.pods * hosts.pods, replicas.path)


def _counted(workload: Object, path: FieldPath, default: int = 1) -> PodCount:
    found = lookup(workload, path)
    return PodCount(found if _is_count(found) else default, path)


def _is_count(found: object) -> bool:
    return isinstance(found, int) and not isinstance(found, bool) and found >= 0


def _up(path: FieldPath, steps: int) -> FieldPath:
    return FieldPath(path[:-steps])
