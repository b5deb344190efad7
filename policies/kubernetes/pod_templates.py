"""Pod templates of workloads, how many pods run at once, and the defaults that a new pod gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

from policies.kubernetes.objects import FieldPath, generate_name_of, items_at, lookup, mappings_at, name_of
from policies.kubernetes.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView, Unknown


_MARKS = ("labels", "annotations")


class PodCount(NamedTuple):
    """The pods of one template that run side by side."""

    pods: int
    path: FieldPath
    """The field that says so, or would if it were there."""
    groups: int = 1
    """The number of Jobs that these pods are in; the pods of each share its claims."""


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """One pod template of a workload."""

    path: FieldPath
    """Where the workload has it; of a template that is composed of several fields, the field that stands for it."""
    template: Object
    """With `metadata` and `spec`, whatever the workload calls them."""
    homes: tuple[tuple[tuple[str | int, ...], FieldPath], ...]
    """Pairs of a place in the template and its place in the workload; the first pair that matches counts."""
    count: PodCount | None = None
    """The number of pods that run at once; None if that is not in the object. Surplus pods of rolling updates, and what an
    autoscaler adds later, are left out. A number that the API server would refuse counts as missing."""
    is_composed: bool = False
    """True if fields of the template come from several places, so that a changed template cannot be written back."""
    shared_claims: tuple[Object, ...] = ()
    """Entries like those of `spec.resourceClaims` of a pod: claims that all pods of a Job share by its PodGroup, since
    Kubernetes 1.37."""

    def home(self, path: FieldPath) -> FieldPath:
        """Where in the workload a field of its pod comes from: the namespace is the workload's own."""
        if path[:2] == ("metadata", "namespace"):
            return path
        for inside, outside in self.homes:
            if path[: len(inside)] == inside:
                return FieldPath((*outside, *path[len(inside) :]))
        return self.path

    def edits(self, template: Object) -> Iterator[tuple[FieldPath, Any]]:
        """The fields of the workload that another template changes, with their values; none if composed."""
        if not self.is_composed:
            for inside, outside in self.homes:
                if (value := lookup(template, inside)) is not None:
                    yield outside, value


def pod_template(
    workload: Object, path: FieldPath, value: Object, count: PodCount | None, labels_above: int | None = None
) -> PodTemplate:
    """The pod template at a path, or the template that a pod spec at that path comes to.

    Args:
        workload: The object that has it.
        path: Where.
        value: What is there.
        count: The number of its pods.
        labels_above: For a pod spec, how many steps above it the pod's labels and annotations are; None if nowhere.
    """
    if "spec" in value or "containers" not in value:
        return PodTemplate(path, value, (((), path),), count)
    if labels_above is None:
        return PodTemplate(path, {"spec": value}, ((("spec",), path),), count)
    above = FieldPath(path[: len(path) - labels_above])
    found = {mark: marks for mark in _MARKS if (marks := lookup(workload, above / mark)) is not None}
    homes = ((("spec",), path), *((("metadata", mark), above / mark) for mark in _MARKS))
    return PodTemplate(path, {"metadata": found, "spec": value}, homes, count)


def pod_count(workload: Object, path: FieldPath, default: int = 1) -> PodCount:
    """The number at a path; `default` if there is none."""
    found = lookup(workload, path)
    return PodCount(found if is_count(found) else default, path)


def is_count(found: Any) -> TypeGuard[int]:
    """True if a value is a number of pods that the API server accepts."""
    return isinstance(found, int) and not isinstance(found, bool) and found >= 0


def job_count(workload: Object, template: FieldPath) -> PodCount:
    """Pods of the Job that holds the template: `parallelism`, at most `completions`. Source: batch/v1."""
    spec = _up(template, 1)
    parallel = pod_count(workload, spec / "parallelism")
    completions = lookup(workload, spec / "completions")
    return parallel._replace(pods=min(parallel.pods, completions)) if is_count(completions) else parallel


def jobset_count(workload: Object, template: FieldPath) -> PodCount:
    """Replicas of a Job, times its pods. Source: sigs.k8s.io/jobset."""
    jobs = pod_count(workload, _up(template, 3) / "replicas")
    return PodCount(jobs.pods * job_count(workload, template).pods, jobs.path, jobs.pods)


def shared_claims(workload: Object, template: FieldPath) -> tuple[Object, ...]:
    """The claims that the pods of the Job which holds the template share.

    Source: k8s.io/api batch/v1 JobSchedulingConfiguration of Kubernetes 1.37; KEP-6089.
    """
    return tuple(mappings_at(workload, _up(template, 1) / "scheduling" / "resourceClaims"))


def lws_count(workload: Object, template: FieldPath) -> PodCount:
    """One leader per group, which is a worker if the group has no leader template. Source: lws api/."""
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
    """Replicas of the set, times those of the clique, times those of the clique's scaling group.

    Source: grove operator/api/core/v1alpha1: the replicas of a set are 0 by default, all others 1.
    """
    clique = _up(template, 2)
    own = pod_count(workload, _up(template, 1) / "replicas")
    sets = pod_count(workload, FieldPath(["spec", "replicas"]), 0)
    name, places = lookup(workload, clique / "name"), FieldPath(["spec", "template", "podCliqueScalingGroups"])
    scaled = 1
    for index, group in enumerate(items_at(workload, places)):
        if name in items_at(group, ("cliqueNames",)):
            scaled = pod_count(workload, places / index / "replicas").pods
    return PodCount(sets.pods * scaled * own.pods, own.path)


def _up(path: FieldPath, steps: int) -> FieldPath:
    return FieldPath(path[:-steps])


_COPIED = ("labels", "annotations", "finalizers")
"""The fields that pods take from their template's metadata."""


def pod_of(template: Object, workload: Object, namespace: str) -> Object:
    """A pod as the workload's controller creates it.

    Its direct owner may be another object in between (the ReplicaSet of a Deployment, the Job of a CronJob); what
    decisions read is that a controller owns it. Source: GetPodFromTemplate in k8s.io/kubernetes
    pkg/controller/controller_utils.go.
    """
    owner = name_of(workload) or generate_name_of(workload).rstrip("-")
    metadata = template.get("metadata")
    if isinstance(metadata, dict | None):
        copied = {key: value for key, value in (metadata or {}).items() if key in _COPIED}
        metadata = {
            **copied,
            "generateName": f"{owner}-",
            "namespace": namespace,
            "ownerReferences": [
                {
                    "apiVersion": workload.get("apiVersion"),
                    "kind": workload["kind"],
                    "name": owner,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template.get("spec")}


def template_of(pod: Object, template: Object) -> Object:
    """The template whose pods would look like this one."""
    marks = {key: value for key, value in pod["metadata"].items() if key in _COPIED}
    metadata = {**(template.get("metadata") or {}), **marks}
    return {**template, "metadata": metadata, "spec": pod["spec"]} if metadata else {**template, "spec": pod["spec"]}


def with_defaults(pod: Object) -> Object:
    """The pod or pod template with each limit without a request copied to the requests.

    The API server does this to pods before admission, and not to the pod templates of workloads; a file on disk has it
    in neither. The given object is not changed, and returned itself if nothing is missing.

    Source: SetDefaults_Pod in k8s.io/kubernetes pkg/apis/core/v1/defaults.go.
    """
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        return pod
    changed = {
        field: filled
        for field in ("initContainers", "containers")
        if isinstance(spec.get(field), list)
        and (filled := [_with_requests(container) for container in spec[field]]) != spec[field]
    }
    return {**pod, "spec": {**spec, **changed}} if changed else pod


def _with_requests(container: Any) -> Any:
    resources = lookup(container, ("resources",))
    limits, requests = lookup(resources, ("limits",)), lookup(resources, ("requests",))
    if not isinstance(limits, dict) or not isinstance(requests, dict | None):
        return container
    missing = {name: amount for name, amount in limits.items() if name not in (requests or {})}
    if not missing:
        return container
    return {**container, "resources": {**resources, "requests": {**(requests or {}), **missing}}}


def with_limit_ranges(pod: Object, limit_ranges: Iterable[Object]) -> tuple[Object, tuple[str, ...]]:
    """The pod with the defaults of the LimitRanges, and notes on them in the words of the API server.

    The given object is not changed. An explicit 0 prevents a default.

    Source: k8s.io/kubernetes plugin/pkg/admission/limitranger mergePodResourceRequirements.
    """
    limits, requests = container_defaults(limit_ranges)
    spec = pod.get("spec")
    if not isinstance(spec, dict) or not (limits or requests):
        return pod, ()
    notes: list[str] = []
    filled = dict(spec)
    for field, what in (("containers", "container"), ("initContainers", "init container")):
        if isinstance(spec.get(field), list):
            filled[field] = [_with_amounts(container, what, limits, requests, notes) for container in spec[field]]
    return ({**pod, "spec": filled}, tuple(notes)) if notes else (pod, ())


def container_defaults(limit_ranges: Iterable[Object]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The default limits and requests of containers; if several LimitRanges have one, the first counts.

    A missing default limit is the maximum, and a missing default request the limit. Source: SetDefaults_LimitRangeItem in
    k8s.io/kubernetes pkg/apis/core/v1/defaults.go.
    """
    limits: dict[str, Any] = {}
    requests: dict[str, Any] = {}
    for limit_range in limit_ranges:
        for item in items_at(limit_range, ("spec", "limits")):
            if lookup(item, ("type",)) == "Container":
                default = {**_amounts(item, "max"), **_amounts(item, "default")}
                limits = {**default, **limits}
                requests = {**_amounts(item, "min"), **default, **_amounts(item, "defaultRequest"), **requests}
    return limits, requests


def _amounts(item: Object, field: str) -> dict[str, Any]:
    amounts = item.get(field)
    return amounts if isinstance(amounts, dict) else {}


def _with_amounts(container: Any, what: str, limits: dict[str, Any], requests: dict[str, Any], notes: list[str]) -> Any:
    """The container with default limits and requests added; a malformed container is returned as it is."""
    resources = lookup(container, ("resources",)) or {}
    sections = [resources.get(field) or {} for field in ("requests", "limits")] if isinstance(resources, dict) else []
    if not isinstance(container, dict) or not sections or not all(isinstance(each, dict) for each in sections):
        return container
    filled = dict(resources)
    for field, word, given, defaults in zip(
        ("requests", "limits"), ("request", "limit"), sections, (requests, limits), strict=True
    ):
        missing = {name: amount for name, amount in defaults.items() if name not in given}
        if missing:
            filled[field] = {**given, **missing}
            notes.append(f"{', '.join(sorted(missing))} {word} for {what} {container.get('name', '')}")
    return {**container, "resources": filled}


_NEVER = "Never"
_BUILT_IN = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""The classes that every cluster has. Source: k8s.io/kubernetes pkg/apis/scheduling/helpers.go."""


def pod_priority(spec: Any, view: ClusterView) -> int | Unknown:
    """The priority of a pod; if it is not filled in yet, that of its class or of the default class."""
    priority = lookup(spec, ("priority",))
    if isinstance(priority, int):
        return priority
    name = _class_of(spec, view)
    if name is UNKNOWN:
        return UNKNOWN
    if name in _BUILT_IN:
        return _BUILT_IN[name]
    return _value(view.get("PriorityClass", name)) if name else 0


def lowest_priority(view: ClusterView) -> int | Unknown:
    """The lowest priority that a pod can get now; 0 is that of pods without a class."""
    classes = view.list("PriorityClass")
    return UNKNOWN if classes is UNKNOWN else min([0, *map(_number, classes)])


def preempts(spec: Any, view: ClusterView) -> bool:
    """False if the `preemptionPolicy` of a pod with this spec, or of its class, is `Never`."""
    policy = lookup(spec, ("preemptionPolicy",))
    if not policy:
        name = _class_of(spec, view)
        policy = lookup(view.get("PriorityClass", name), ("preemptionPolicy",)) if isinstance(name, str) else None
    return bool(policy != _NEVER)


def default_class(view: ClusterView) -> str | Unknown:
    """The name of the default PriorityClass; the one with the lowest value if there are several.

    Empty if no class is the default.

    Source: k8s.io/kubernetes plugin/pkg/admission/priority getDefaultPriorityClass.
    """
    classes = view.list("PriorityClass")
    if classes is UNKNOWN:
        return UNKNOWN
    marked = [each for each in classes if each.get("globalDefault") is True]
    return name_of(min(marked, key=_number)) if marked else ""


def _class_of(spec: Any, view: ClusterView) -> str | Unknown:
    name = lookup(spec, ("priorityClassName",))
    return name if isinstance(name, str) and name else default_class(view)


def _value(priority_class: Object | Unknown | None) -> int | Unknown:
    return _number(priority_class) if isinstance(priority_class, dict) else UNKNOWN


def _number(priority_class: Object) -> int:
    value = priority_class.get("value")
    return value if isinstance(value, int) else 0


def created_pod(pod: Object, namespace: str, view: ClusterView) -> Object:
    """The pod with missing requests, the defaults of LimitRanges and the default PriorityClass.

    LimitRanges and PriorityClasses that the view does not know are left out. `priority` itself is not filled in: a
    manifest that is kept with it would be refused once the value of its class changes.

    Source: k8s.io/kubernetes pkg/kubeapiserver/options/plugins.go: LimitRanger and Priority come before webhooks.
    """
    filled, _ = with_limit_ranges(with_defaults(pod), view.known_objects("LimitRange", namespace))
    spec = filled.get("spec")
    default = default_class(view)
    if not default or default is UNKNOWN or not isinstance(spec, dict) or spec.get("priorityClassName"):
        return filled
    return {**filled, "spec": {**spec, "priorityClassName": default}}
