"""The survey: objects that an audit needs and no view keeps, read page by page.

It keeps one pod of thousands with the same template, and of that pod only the fields that decide. The access rules run
while a page is at hand, because they need environment, mounts and images, which are dropped afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from policies.admission import (
    as_created,
    as_running,
    common_part,
    controller_label,
    expected_conversion,
    form_of,
    review_concern,
    slim_pod,
    templates_of,
)
from policies.fleet import may_request_gpu
from policies.kubernetes.bounds import check_cancelled
from policies.kubernetes.objects import controller_of, has_ended, lookup, name_of, namespace_of, uid_of
from policies.kubernetes.pod_templates import pod_of, with_defaults
from policies.kubernetes.workloads import group_of, has_finished, missing_pods
from policies.rules.request import Request
from policies.rules.settings.choices import workload_kinds
from policies.rules.settings.exemptions import exemption_in_cluster

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.admission import ExpectedConversion
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.rules.decision import Finding
    from policies.rules.settings import GPUAdmissionPolicy


_POD = ("", "Pod")
_KARPENTER = ("karpenter.sh", "NodePool")
_MOST_SHORT, _MOST_SHORT_OF_NAMESPACE = 200, 20
"""Workloads that lack pods which are kept, so that one user can neither fill the memory nor keep the others out."""
_LONGEST_SHORT = 32 * 1024
"""Characters of one of them."""
_NAMING = frozenset({"name", "namespace", "uid", "labels", "creationTimestamp", "ownerReferences"})
_COUNTING = frozenset({"active", "conditions", "replicas", "succeeded"})
_PARTLY_READ = frozenset(
    {
        ("serving.kserve.io", "InferenceService"),
        ("serving.kserve.io", "LLMInferenceService"),
        ("sparkoperator.k8s.io", "ScheduledSparkApplication"),
        ("sparkoperator.k8s.io", "SparkApplication"),
        ("trainer.kubeflow.org", "TrainJob"),
    }
)
"""Kinds that do not always show their pods; the JobSets, Deployments and pods that they create count instead."""


def surveyed_kinds(settings: GPUAdmissionPolicy) -> tuple[tuple[str, str], ...]:
    """Group and kind of all objects that a survey takes in."""
    return (_POD, *(kind for kind in workload_kinds(settings) if kind not in _PARTLY_READ), _KARPENTER)


class PodName(NamedTuple):
    """The name of a pod, and its UID, which is empty in files of manifests."""

    name: str
    uid: str


@dataclass(slots=True)
class PodForm:
    """Pods of one namespace that get the same decisions."""

    namespace: str
    form: bytes
    pod: Object | None
    """One of the pods as it was created, with the fields that conversion reads; None if it cannot request GPUs, or is being
    deleted."""
    access: tuple[Finding, ...]
    """Findings of the access rules: GPUs that the pods use without a request."""
    has_workload: bool
    """True if the controller of the pods is of a kind that the survey takes in."""
    first: PodName
    """The first of them by name."""
    count: int = 0
    waiting: int = 0
    """The number of pods without a node."""
    first_waiting: PodName | None = None
    """The first of these; None if all have a node."""
    owners: dict[str, list[str]] = field(default_factory=dict)
    """The controllers of the pods, such as `ReplicaSet train-5d8f`, each with the names of its pods, if they can request
    GPUs; pods without a controller have an empty one."""


@dataclass(frozen=True, slots=True)
class Workload:
    """An object with pod templates that may request GPUs."""

    namespace: str
    kind: str
    name: str
    forms: tuple[tuple[bytes, Object, int], ...]
    """The pods of these templates, with the fields that conversion reads, each with its form and the number of its pods."""


class Survey:
    """Takes in pods, workloads and Karpenter's pools, in any order."""

    def __init__(self, view: ClusterView, settings: GPUAdmissionPolicy, namespace: str = "") -> None:
        """Survey one namespace, or all of them if `namespace` is empty."""
        self._view = view
        self.settings = settings
        self.namespace = namespace
        self.kinds = surveyed_kinds(settings)
        self._workload_kinds = frozenset(self.kinds) - {_POD, _KARPENTER}
        self.pods: dict[tuple[str, bytes], PodForm] = {}
        self.workloads: list[Workload] = []
        self.parents: dict[tuple[str, str], str] = {}
        """The controllers of workloads: by namespace and label, `ReplicaSet train-5d8f` is of `Deployment train`."""
        self.short_workloads: list[Object] = []
        """Workloads that lack pods, at most 200, and 20 of a namespace; each of at most 32 KiB."""
        self.node_pools: list[Object] = []
        self.missing: dict[str, str] = {}
        """Kinds that cannot be read, each with the reason."""

    def add(self, objects: Iterable[Object]) -> None:
        """Add objects with `apiVersion` and `kind`; objects of other kinds are ignored."""
        for document in objects:
            check_cancelled()
            if self.namespace not in ("", namespace_of(document)) and document.get("kind") != _KARPENTER[1]:
                continue
            match group_of(document), document.get("kind"):
                case "", "Pod":
                    self._add_pod(document)
                case kind if kind == _KARPENTER:
                    self.node_pools.append(document)
                case kind if kind in self._workload_kinds:
                    self._add_workload(document)

    def miss(self, kind: str, reason: str = "") -> None:
        """Note that a kind cannot be read; `reason` without a full stop."""
        self.missing[kind] = reason

    def _add_pod(self, pod: Object) -> None:
        # A finalizer or a long grace period lets a pod run on after its deletion, so what it uses counts until it ends.
        is_going = lookup(pod, ("metadata", "deletionTimestamp")) is not None
        if has_ended(pod) or (is_going and not lookup(pod, ("spec", "nodeName"))):
            return
        namespace, name = namespace_of(pod), PodName(name_of(pod), uid_of(pod))
        # Hand-written manifests lack the defaults that the API server fills in.
        common = common_part(with_defaults(as_running(pod, self._view, self.settings)))
        if not may_request_gpu(common) and isinstance(spec := common.get("spec"), dict):
            # The node affinity of a DaemonSet's pod names its node. Only conversion reads it.
            common["spec"] = {field: value for field, value in spec.items() if field != "affinity"}
        key = (namespace, form_of(common) + (b"-" if is_going else b""))
        if key not in self.pods:
            access = review_concern("access", Request(common, namespace=key[0]), self._view, self.settings).findings
            kept = slim_pod(as_created(common)) if may_request_gpu(common) and not is_going else None
            self.pods[key] = PodForm(*key, kept, access, self._has_workload(pod), PodName(name_of(pod), uid_of(pod)))
        form = self.pods[key]
        form.count += 1
        form.first = min(form.first, name)
        if not lookup(pod, ("spec", "nodeName")):
            form.first_waiting = min(form.first_waiting or name, name)
            form.waiting += 1
        names = form.owners.setdefault(controller_label(pod), [])
        if form.pod is not None:
            names.append(name.name)

    def _add_workload(self, workload: Object) -> None:
        namespace = namespace_of(workload)
        if self._has_workload(workload):
            self.parents[namespace, f"{workload['kind']} {name_of(workload)}"] = controller_label(workload)
            return
        if has_finished(workload):
            return
        forms: dict[bytes, tuple[bytes, Object, int]] = {}
        for each in templates_of(workload, self._view, self.settings):
            pod = slim_pod(pod_of(with_defaults(each.template), workload, namespace))
            if may_request_gpu(pod):
                form, wanted = form_of(common_part(pod)), 1 if each.count is None else each.count.pods
                forms[form] = form, pod, wanted + (forms[form][2] if form in forms else 0)
        if forms:
            self.workloads.append(Workload(namespace, workload["kind"], name_of(workload), tuple(forms.values())))
            if missing_pods(workload, sum(count for *_, count in forms.values())):
                kept = {part: workload[part] for part in ("apiVersion", "kind", "spec")} | {
                    "metadata": {name: value for name, value in workload["metadata"].items() if name in _NAMING},
                    "status": {name: value for name, value in workload["status"].items() if name in _COUNTING},
                }
                neighbours = sum(namespace_of(each) == namespace_of(workload) for each in self.short_workloads)
                has_room = len(self.short_workloads) < _MOST_SHORT and neighbours < _MOST_SHORT_OF_NAMESPACE
                if has_room and len(repr(kept)) <= _LONGEST_SHORT:
                    self.short_workloads.append(kept)

    def _has_workload(self, document: Object) -> bool:
        """True if the controller of an object is a workload of a kind that the survey takes in."""
        owner = controller_of(document)
        kind = owner.get("kind") if owner is not None else None
        return isinstance(kind, str) and (group_of(owner), kind) in self._workload_kinds


class Conversions:
    """Converts pods as at their creation, whatever the labels of their namespaces."""

    def __init__(self, view: ClusterView, settings: GPUAdmissionPolicy) -> None:
        self._view = view
        self._settings = settings
        self._by_form: dict[tuple[str, bytes], ExpectedConversion] = {}

    def never_converts(self, namespace: str) -> bool:
        """True if a namespace is exempt from conversion, whatever its label says."""
        return bool(exemption_in_cluster("conversion", namespace, self._settings))

    def of(self, namespace: str, form: bytes, pod: Object) -> ExpectedConversion:
        """The conversion of a pod as it is created; the same for all pods of this form."""
        key = (namespace, form)
        if key not in self._by_form:
            self._by_form[key] = expected_conversion(pod, namespace, self._view, self._settings)
        return self._by_form[key]
