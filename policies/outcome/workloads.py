"""Subjects of a comparison: the pods of each template once, and the claims that no pod uses."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from policies.admission import as_created, common_part, controller_label, form_of, templates_of
from policies.devices.resource_claims import Claim
from policies.fleet import may_request_gpu
from policies.kubernetes.objects import (
    DEFAULT_NAMESPACE,
    controller_of,
    has_ended,
    items_at,
    lookup,
    name_of,
    namespace_of,
)
from policies.kubernetes.pod_templates import pod_of
from policies.kubernetes.quantities import taken_by
from policies.kubernetes.workloads import group_of, has_finished
from policies.rules.decision import TEMPLATE
from policies.rules.settings.choices import workload_kinds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from policies.kubernetes.objects import Object
    from policies.kubernetes.pod_templates import PodTemplate
    from policies.kubernetes.quantities import Amounts
    from policies.kubernetes.view import ClusterView
    from policies.rules.settings import GPUAdmissionPolicy


_CLAIM = "ResourceClaim"
_MOST_OWNERS = 5
"""Controllers above a pod that are followed: CronJob, Job, pod are two."""


@dataclass(frozen=True)
class Subject:
    """Pods of one template, or a claim that no pod uses."""

    label: str
    """For people: `Deployment team-a/web`, `ReplicaSet team-a/web-5d8f`, `pod team-a/train`, `ResourceClaim team-a/gpu`."""
    namespace: str
    document: Object
    """One of the pods as its controller would create it, before admission; or the claim or claim template."""
    pods: tuple[Object, ...] = field(default=(), repr=False)
    """The stored pods."""
    count: int = 1
    """The number of such pods, or, if there are none, of those that the workload would have."""
    workload: Object | None = field(default=None, repr=False)
    """The workload above the pods; None if there is none, or the view does not have it."""
    wanted: int | None = None
    """The number of pods that the workload runs at once; None if it does not say so."""

    @property
    def is_pod(self) -> bool:
        """False for a claim or claim template."""
        return self.document.get("kind") == "Pod"

    @cached_property
    def taken(self) -> tuple[tuple[str, Amounts] | None, ...]:
        """For each of its pods, the node and what it takes of it; None without a node or after its end."""
        return tuple(map(taken_by, self.pods))

    @property
    def pod_names(self) -> tuple[str, ...]:
        """The stored pods as `namespace/name`, in the order of their names."""
        return tuple(sorted(f"{self.namespace}/{name_of(pod)}" for pod in self.pods))


def subjects_of(view: ClusterView, settings: GPUAdmissionPolicy) -> tuple[Subject, ...]:
    """All pods, workloads and claims of a view that may request GPUs, each template once.

    Pods belong to the workload above them if the view has it and it has one template. Other pods with a controller are
    compared as they are stored, those of one form together. Pods and workloads that have ended are left out.
    """
    pods = _gpu_pods(view)
    of_workloads, others = _by_workload(pods, view, settings)
    by_form: defaultdict[tuple[str, str, bytes], list[Object]] = defaultdict(list)
    for pod in others:
        by_form[_form_key(pod)].append(pod)
    templates = [pod for each in of_workloads for _, pod in each.templates]
    return (
        *(subject for each in of_workloads for subject in each.subjects()),
        *(_pods_subject(found) for found in by_form.values()),
        *_claim_subjects(view, [*pods, *templates]),
    )


def workload_subjects(
    view: ClusterView, settings: GPUAdmissionPolicy, more: Iterable[Object] = ()
) -> tuple[Subject, ...]:
    """The subjects of `subjects_of` that are workloads of the view, or `more` workloads that it lacks."""
    of_workloads, _ = _by_workload(_gpu_pods(view), view, settings, more)
    return tuple(subject for each in of_workloads for subject in each.subjects())


def _gpu_pods(view: ClusterView) -> list[Object]:
    return [
        pod
        for pod in view.known_objects("Pod")
        if not has_ended(pod) and lookup(pod, ("metadata", "deletionTimestamp")) is None and may_request_gpu(pod)
    ]


_Key = tuple[str, str, str]
"""Kind, namespace and name of a workload."""
_Template = tuple["PodTemplate", "Object"]


def _workloads(view: ClusterView, settings: GPUAdmissionPolicy, more: Iterable[Object]) -> dict[_Key, Object]:
    kinds = workload_kinds(settings)
    found = {(str(each["kind"]), _home(each), name_of(each)): each for each in more}
    for kind in dict.fromkeys(kind for _, kind in kinds):
        for document in view.known_objects(kind):
            if (group_of(document), kind) in kinds and not has_finished(document):
                found[kind, _home(document), name_of(document)] = document
    return found


def _gpu_templates(workload: Object, view: ClusterView, settings: GPUAdmissionPolicy) -> Sequence[_Template]:
    home = _home(workload)
    found = ((each, pod_of(each.template, workload, home)) for each in templates_of(workload, view, settings))
    return [(each, pod) for each, pod in found if may_request_gpu(pod)]


def _top(document: Object, workloads: Mapping[_Key, Object]) -> _Key | None:
    """The highest known workload above an object; None if its controller is unknown."""
    top = None
    for _ in range(_MOST_OWNERS):
        parent = _parent(document, workloads)
        if parent is None:
            break
        top, document = parent, workloads[parent]
    return top


def _parent(document: Object, workloads: Mapping[_Key, Object]) -> _Key | None:
    owner = controller_of(document)
    if owner is None:
        return None
    key = str(owner.get("kind")), _home(document), str(owner.get("name"))
    hashed = lookup(document, ("metadata", "labels", "pod-template-hash"))
    if key not in workloads and key[0] == "ReplicaSet" and isinstance(hashed, str):
        # A Deployment names its ReplicaSets by this hash, so the ReplicaSet need not be known.
        key = "Deployment", key[1], key[2].removesuffix(f"-{hashed}")
    return key if key in workloads and group_of(workloads[key]) == group_of(owner) else None


def _form_key(pod: Object) -> tuple[str, str, bytes]:
    """A key, equal for pods that are compared together.

    The node affinity of a DaemonSet's pod names its node, so these pods are compared one by one.
    """
    return _home(pod), controller_label(pod), form_of(common_part(as_created(pod)))


@dataclass(slots=True)
class _WorkloadPods:
    """A workload with its templates that request GPUs, and its pods if there is one template."""

    workload: Object
    templates: Sequence[_Template]
    is_controlled: bool
    """True if the view has a workload above it."""
    pods: list[Object] = field(default_factory=list)
    has_pods: bool = False

    def subjects(self) -> Iterator[Subject]:
        """One subject for each template; none if a workload above it or stored pods stand for them."""
        if self.is_controlled or (self.has_pods and not self.pods):
            return
        home = _home(self.workload)
        label = f"{self.workload['kind']} {home}/{name_of(self.workload)}"
        for template, pod in self.templates:
            wanted = None if template.count is None else template.count.pods
            named = label if len(self.templates) == 1 else f"{label}, {template.path}"
            count = len(self.pods) or max(1, wanted or 1)
            yield Subject(named, home, pod, tuple(self.pods), count, self.workload, wanted)


def _by_workload(
    pods: Iterable[Object], view: ClusterView, settings: GPUAdmissionPolicy, more: Iterable[Object] = ()
) -> tuple[list[_WorkloadPods], list[Object]]:
    """The workloads with their pods, and the pods that belong to none with one template."""
    workloads = _workloads(view, settings, more)
    found = {
        key: _WorkloadPods(each, _gpu_templates(each, view, settings), _parent(each, workloads) is not None)
        for key, each in workloads.items()
    }
    others: list[Object] = []
    for pod in pods:
        top = _top(pod, workloads)
        if top is not None:
            found[top].has_pods = True
        (found[top].pods if top is not None and len(found[top].templates) == 1 else others).append(pod)
    return [*found.values()], others


def _pods_subject(pods: Sequence[Object]) -> Subject:
    first = min(pods, key=name_of)
    home, owner = _home(first), controller_label(first)
    kind, _, name = owner.partition(" ")
    others = f" ({len(pods)} alike)" if len(pods) > 1 else ""
    label = f"{kind} {home}/{name}" if owner else f"pod {home}/{name_of(first)}{others}"
    return Subject(label, home, as_created(first), tuple(pods), len(pods))


def _claim_subjects(view: ClusterView, pods: Sequence[Object]) -> Iterator[Subject]:
    """The claims and claim templates that no pod and no template of a workload uses."""
    used = {reference for pod in pods for reference in _references(pod)}
    for kind in (_CLAIM, TEMPLATE):
        for document in view.known_objects(kind):
            home, owner = _home(document), controller_of(document)
            is_made = owner is not None and owner.get("kind") == "Pod"
            if (kind, home, name_of(document)) in used or is_made or Claim(document).consumers:
                continue
            yield Subject(f"{kind} {home}/{name_of(document)}", home, document)


def _references(pod: Any) -> Iterator[_Key]:
    for entry in items_at(pod, ("spec", "resourceClaims")):
        for kind, name in ((_CLAIM, "resourceClaimName"), (TEMPLATE, "resourceClaimTemplateName")):
            found = lookup(entry, (name,))
            if isinstance(found, str):
                yield kind, _home(pod), found


def _home(document: Object) -> str:
    return namespace_of(document) or DEFAULT_NAMESPACE
