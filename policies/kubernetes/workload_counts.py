"""How many pods run at once, for kinds whose fields do more than multiply."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.kubernetes.paths import FieldPath, lookup
from policies.kubernetes.pod_templates import PodCount, is_count, pod_count

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object

__all__ = ["clique_count", "job_count", "jobset_count", "lws_count", "ray_count"]


def job_count(workload: Object, template: FieldPath) -> PodCount:
    """Pods of the Job whose spec holds the template: `parallelism`, but at most `completions`. Source: batch/v1."""
    spec = _up(template, 1)
    parallel = pod_count(workload, spec / "parallelism")
    completions = lookup(workload, spec / "completions")
    return parallel._replace(pods=min(parallel.pods, completions)) if is_count(completions) else parallel


def jobset_count(workload: Object, template: FieldPath) -> PodCount:
    """Replicas of a Job, times its pods. Source: sigs.k8s.io/jobset."""
    jobs = pod_count(workload, _up(template, 3) / "replicas")
    return PodCount(jobs.pods * job_count(workload, template).pods, jobs.path)


def lws_count(workload: Object, template: FieldPath) -> PodCount:
    """One leader in each group; a group without a leader template has a worker as its leader. Source: lws api/."""
    groups = pod_count(workload, FieldPath(["spec", "replicas"]))
    if template[-1] == "leaderTemplate":
        return groups
    together = _up(template, 1)
    has_leader = isinstance(lookup(workload, together / "leaderTemplate"), dict)
    size = pod_count(workload, together / "size")
    return PodCount(groups.pods * max(size.pods - has_leader, 0), groups.path)


def ray_count(workload: Object, template: FieldPath) -> PodCount:
    """Workers of a group; the head and the submitter are one each, and no field says so. Source: kuberay."""
    if "workerGroupSpecs" not in template:
        return PodCount(1, template)
    group = _up(template, 1)
    hosts = pod_count(workload, group / "numOfHosts")
    replicas = pod_count(workload, group / "replicas", pod_count(workload, group / "minReplicas", 0).pods)
    return PodCount(replicas.pods * hosts.pods, replicas.path)


def clique_count(workload: Object, template: FieldPath) -> PodCount:
    """Replicas of the set, times those of the clique, times those of the scaling group that the clique is in.

    Source: grove operator/api/core/v1alpha1: the replicas of a set are 0 by default, all others 1.
    """
    clique = _up(template, 2)
    own = pod_count(workload, _up(template, 1) / "replicas")
    sets = pod_count(workload, FieldPath(["spec", "replicas"]), 0)
    name, places = lookup(workload, clique / "name"), FieldPath(["spec", "template", "podCliqueScalingGroups"])
    groups = lookup(workload, places)
    scaled = 1
    for index, group in enumerate(groups if isinstance(groups, list) else ()):
        names = lookup(group, ("cliqueNames",))
        if isinstance(names, list) and name in names:
            scaled = pod_count(workload, places / index / "replicas").pods
    return PodCount(sets.pods * scaled * own.pods, own.path)


def _up(path: FieldPath, steps: int) -> FieldPath:
    return FieldPath(path[:-steps])
