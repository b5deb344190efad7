"""The survey: what an audit looks at that no view keeps, read page by page and kept as little as can be.

Of thousands of pods of one template one is kept, and of that what decides. How pods get at GPUs behind the scheduler's
back is judged while their page is at hand, for it takes what is dropped afterwards: environment, mounts and images.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from policies.audit.forms import as_created, form_of, shown_controller, slim
from policies.dra.keeping_on import for_ever
from policies.fleet import may_request_gpu
from policies.kubernetes.defaults import with_defaults
from policies.kubernetes.objects import controller_of, has_ended, name_of, namespace_of
from policies.kubernetes.paths import lookup
from policies.kubernetes.workload_pods import pod_of
from policies.kubernetes.workloads import group_of
from policies.request import Request
from policies.review import review
from policies.settings.workload_kinds import workload_kinds
from policies.workload_templates import templates_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.decision import Finding
    from policies.dra.keeping_on import KeepOn
    from policies.kubernetes.objects import Object
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["PodForm", "Survey", "Workload", "surveyed"]

_POD = ("", "Pod")
_KARPENTER = ("karpenter.sh", "NodePool")


_PARTLY_READ = frozenset(
    {
        ("serving.kserve.io", "InferenceService"),
        ("sparkoperator.k8s.io", "ScheduledSparkApplication"),
        ("sparkoperator.k8s.io", "SparkApplication"),
        ("trainer.kubeflow.org", "TrainJob"),
    }
)
"""Kinds whose pods cannot always be found in them; the JobSets, Deployments and pods that they make count instead."""


def surveyed(settings: GPUAdmissionPolicy) -> tuple[tuple[str, str], ...]:
    """Group and kind of everything that a survey has to be told of."""
    return (_POD, *(kind for kind in workload_kinds(settings) if kind not in _PARTLY_READ), _KARPENTER)


@dataclass(slots=True)
class PodForm:
    """Pods of one namespace that are alike in everything that decides."""

    namespace: str
    form: bytes
    pod: Object | None
    """One of them as it was created, with what conversion reads; None where it asks for nothing that could be a GPU."""
    access: tuple[Finding, ...]
    """How they get at GPUs behind the scheduler's back."""
    is_made: bool
    """Whether a workload made them that the survey is told of."""
    name: str
    """The first of their names."""
    count: int = 0
    waiting: int = 0
    """How many have no node yet."""
    waits: str = ""
    """The first name of those."""
    owners: set[str] = field(default_factory=set)
    """The controllers that made them: `ReplicaSet train-5d8f`."""


@dataclass(frozen=True, slots=True)
class Workload:
    """An object with pod templates, those among them that may ask for GPUs."""

    namespace: str
    kind: str
    name: str
    forms: tuple[tuple[bytes, Object], ...]
    """Pods as they would be created, with what conversion reads, each with its form."""


class Survey:
    """Takes in pods, workloads and Karpenter's pools in any order; the order changes nothing."""

    def __init__(self, view: ClusterView, settings: GPUAdmissionPolicy, namespace: str = "") -> None:
        """Args: the cluster; the administrator's choices; the only namespace to look into, empty for all."""
        self._view = view
        self.settings = settings
        self.namespace = namespace
        self.kinds = surveyed(settings)
        self._makers = frozenset(self.kinds) - {_POD, _KARPENTER}
        self.pods: dict[tuple[str, bytes], PodForm] = {}
        self.workloads: list[Workload] = []
        self.node_pools: list[Object] = []
        self.missing: dict[str, str] = {}
        """Kinds that nothing is known of, and why."""

    def add(self, objects: Iterable[Object], keep_on: KeepOn = for_ever) -> None:
        """Take in objects; those of other kinds are left out.

        Args:
            objects: They name their `apiVersion` and `kind`.
            keep_on: Called between them.
        """
        for document in objects:
            keep_on()
            if self.namespace not in ("", namespace_of(document)) and document.get("kind") != _KARPENTER[1]:
                continue
            match group_of(document), document.get("kind"):
                case "", "Pod":
                    self._add_pod(document)
                case kind if kind == _KARPENTER:
                    self.node_pools.append(document)
                case kind if kind in self._makers:
                    self._add_workload(document)

    def miss(self, kind: str, reason: str = "") -> None:
        """Note that nothing is known of a kind; `reason` without a full stop."""
        self.missing[kind] = reason

    def _add_pod(self, pod: Object) -> None:
        if has_ended(pod) or lookup(pod, ("metadata", "deletionTimestamp")) is not None:
            return
        namespace, name = namespace_of(pod), name_of(pod)
        form = form_of(pod)
        known = self.pods.get((namespace, form))
        if known is None:
            known = self.pods[namespace, form] = self._first(pod, form)
        known.count += 1
        known.name = min(known.name, name)
        if not lookup(pod, ("spec", "nodeName")):
            known.waits = min(known.waits or name, name)
            known.waiting += 1
        if owner := shown_controller(pod):
            known.owners.add(owner)

    def _first(self, pod: Object, form: bytes) -> PodForm:
        # Of a file that somebody wrote by hand; the API server has filled this in.
        namespace, created = namespace_of(pod), with_defaults(as_created(pod))
        request = Request(created, namespace=namespace, entry="access")
        access = review(request, self._view, self.settings).findings
        kept = slim(created) if may_request_gpu(created) else None
        return PodForm(namespace, form, kept, access, self._is_made(pod), name_of(pod))

    def _add_workload(self, workload: Object) -> None:
        if self._is_made(workload) or _has_finished(workload):
            return
        namespace = namespace_of(workload)
        found = templates_of(workload, self._view, self.settings)
        pods = [pod_of(with_defaults(each.template), workload, namespace) for each in found]
        forms = {form_of(pod): pod for pod in map(slim, pods) if may_request_gpu(pod)}
        if forms:
            kept = tuple(forms.items())
            self.workloads.append(Workload(namespace, workload["kind"], name_of(workload), kept))

    def _is_made(self, document: Object) -> bool:
        """Whether a workload of a kind that the survey knows made an object, which speaks for it."""
        owner = controller_of(document)
        kind = owner.get("kind") if owner is not None else None
        return isinstance(kind, str) and (group_of(owner), kind) in self._makers


def _has_finished(workload: Object) -> bool:
    """Whether a workload makes no pods any more: it is going away, or is a Job that has come to its end."""
    if lookup(workload, ("metadata", "deletionTimestamp")) is not None:
        return True
    conditions = lookup(workload, ("status", "conditions")) if workload.get("kind") == "Job" else None
    return isinstance(conditions, list) and any(
        lookup(each, ("type",)) in ("Complete", "Failed") and lookup(each, ("status",)) == "True" for each in conditions
    )
