"""Opting in: the labels by which a namespace chooses a strategy, and pods that are left alone."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

from policies.kubernetes.names import DRA_LABEL, STRATEGY_LABEL, printable, shown
from policies.kubernetes.neighbours import HAMI, HAMI_MEMORY, foreign_requests, kueue_mark, neighbour_of_scheduler
from policies.kubernetes.objects import FieldPath, lookup
from policies.kubernetes.pods import SPEC
from policies.kubernetes.quantities import quantity_or_none
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.identifiers import GPU_RESOURCE
from policies.nvidia.mig import MIGProfile
from policies.rules.checks import PODS, Problem
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping
    from fractions import Fraction

    from policies.kubernetes.neighbours import ForeignRequest
    from policies.kubernetes.pods import Pod
    from policies.kubernetes.view import ClusterView
    from policies.nvidia.wishes import Wish
    from policies.rules.decision import Finding
    from policies.rules.settings import GPUAdmissionPolicy


NAMESPACE = FieldPath(["metadata", "namespace"])
"""The path in a pod of findings that its namespace causes."""

STRATEGIES = ("template", "rename", "leave", "auto")


class Mode(Enum):
    """The conversion of GPU pods in a namespace: on, preview, off or unknown."""

    ENABLED = "enabled"
    PREVIEW = "preview"
    OFF = "off"
    UNKNOWN = "unknown"


def mode_of(namespace: str, view: ClusterView) -> Mode:
    """The mode that a namespace's label sets; off for every value but `enabled` and `preview`."""
    found = view.get("Namespace", namespace)
    if found is UNKNOWN:
        return Mode.UNKNOWN
    label = lookup(found, ("metadata", "labels", DRA_LABEL))
    return Mode(label) if label in ("enabled", "preview") else Mode.OFF


def strategy_of(namespace: str, view: ClusterView) -> str:
    """The value of the strategy label, by default `template`; may name a strategy that does not exist.

    `template` also while the namespace is unknown, because it works in every cluster that has DRA.
    """
    label = lookup(view.get("Namespace", namespace), ("metadata", "labels", STRATEGY_LABEL))
    return "template" if label is None else str(label)


@PODS.rule(
    "GA323",
    "The conversion strategy of a namespace must exist",
    remedy=f"set {STRATEGY_LABEL} on the namespace to {', '.join(STRATEGIES[:-1])} or {STRATEGIES[-1]}, or remove the label",
    source="docs/conversion.md",
)
def existing_strategy(namespace: str, view: ClusterView) -> Iterator[Problem]:
    """The label gpu-admission.io/dra-strategy chooses how pods come to their GPUs by DRA.

    There are template (the default), rename, leave and auto. A pod is not converted by another strategy than the
    one that was chosen.
    """
    strategy = strategy_of(namespace, view)
    if strategy not in STRATEGIES:
        text = f'namespace "{namespace}" has the unknown strategy "{printable(strategy)}"'
        yield Problem(NAMESPACE, text)


_LABELS = FieldPath(["metadata", "labels"])


def exemptions(pod: Pod, settings: GPUAdmissionPolicy, read: Container[str] = ()) -> Iterator[Finding]:
    """One finding per reason to leave the pod as it is; none if it is to be converted.

    `read` are resources and labels of other systems that conversion reads.
    """
    yield from (replace(found, exempt=True) for found in exempt_user(settings))
    foreign: dict[str, ForeignRequest] = {}
    if any(GPU_RESOURCE in amounts for each in pod.all_containers for amounts in (each.limits, each.requests)):
        for each in foreign_requests(pod):
            if each.path[-1] in read:
                continue
            foreign.setdefault(each.neighbour.name, each)
    yield from allocating_scheduler(pod, settings, foreign)
    yield from not_counted_by_kueue(pod)
    yield from foreign_gpus(pod, foreign.values())
    yield from opted_out(pod, settings)


@PODS.rule(
    "GA334",
    "Pods of exempt users must be left alone",
    default=Severity.AUDIT,
    remedy="let a user who is not exempt create the pod, or change exemptions in the GPUAdmissionPolicy",
    source="docs/settings.md",
)
def exempt_user(settings: GPUAdmissionPolicy) -> Iterator[Problem]:
    """The administrator exempts the creator of the pod from conversion.

    So the pod keeps its resource names. Pods of workloads are created by Kubernetes' controllers, not by the user who applied the workload.
    """
    if settings.exempts_from_conversion:
        yield Problem(FieldPath(["metadata"]), "the user who creates the pod is exempt from conversion")


@PODS.rule(
    "GA315",
    "Pods must be converted only for schedulers that allocate claims",
    default=Severity.WARN,
    setting="conversion.schedulers",
    remedy="list the scheduler in conversion.schedulers if it allocates ResourceClaims",
    source="KEP-4381",
)
def allocating_scheduler(
    pod: Pod, settings: GPUAdmissionPolicy, foreign: Mapping[str, ForeignRequest]
) -> Iterator[Problem]:
    """Claims are allocated by the scheduler.

    A scheduler without DRA would leave the pod Pending, or count its GPUs as none. Pods of schedulers that are not
    listed in the settings are left alone.
    """
    scheduler = pod.spec.get("schedulerName") or "default-scheduler"
    neighbour = neighbour_of_scheduler(scheduler)
    if scheduler not in settings.conversion.schedulers and (neighbour is None or neighbour.name not in foreign):
        text = (
            f"{shown(scheduler)} is not known to allocate claims (known: {', '.join(settings.conversion.schedulers)})"
        )
        remedy = None
        if neighbour is not None and neighbour.allocates_claims:
            text = f"{shown(scheduler)} is not in conversion.schedulers"
            remedy = f"list it there, because {neighbour.name} allocates ResourceClaims"
        yield Problem(SPEC / "schedulerName", text, remedy)


@PODS.rule(
    "GA316",
    "A pod that Kueue counts by itself must keep its resource names",
    default=Severity.WARN,
    remedy="queue a Job instead of a bare pod",
    source="github.com/kubernetes-sigs/kueue pkg/controller/jobs/pod/pod_webhook.go Default; KEP-2941; docs/neighbours.md",
)
def not_counted_by_kueue(pod: Pod) -> Iterator[Problem]:
    """Kueue counts a bare pod by the resources in its spec when the pod is created.

    It holds the pod by a gate. Converted, it would not be counted. Kueue copies the queue of a Deployment, StatefulSet or LeaderWorkerSet to
    its pods and treats them in the same way. Pods of queued Jobs are converted: Kueue counted the Job.
    """
    if (mark := kueue_mark(pod)) is not None and pod.controller_kind:
        text = "Kueue counts each of these pods by the resources that it requests now"
        remedy = "for DRA, let the pod template name a ResourceClaimTemplate, and map its DeviceClass in Kueue's deviceClassMappings"
        yield Problem(mark, text, remedy)
    elif mark is not None:
        yield Problem(mark, "Kueue counts this pod by the resources that it requests now")


@PODS.rule(
    "GA337",
    "A pod whose GPUs another system interprets must keep its resource names",
    default=Severity.WARN,
    remedy="remove the field if the pod needs whole GPUs",
    source="github.com/Project-HAMi/HAMi pkg/device/nvidia/device.go GenerateResourceRequests; "
    "cloud.google.com/kubernetes-engine/docs/concepts/timesharing-gpus; docs/neighbours.md",
)
def foreign_gpus(pod: Pod, requests: Iterable[ForeignRequest]) -> Iterator[Problem]:
    """Some systems hand out something other than whole GPUs as nvidia.com/gpu.

    HAMi gives a part of a GPU if the container also requests nvidia.com/gpumem or gpucores, and GKE gives MIG
    devices or shares on nodes that pods select by its labels. A claim for a whole GPU would not mean the same, so
    the pod is left to that system.
    """
    for request in requests:
        text = (
            f"with it, {request.neighbour.name} hands out {request.meaning} as {GPU_RESOURCE}, and a claim would request "
            "any whole GPU"
        )
        remedy = "remove it if the pod needs whole GPUs"
        if (profile := MIGProfile.parse(str(lookup(pod.document, request.path)))) is not None:
            remedy = f"for a claim of such a device, request nvidia.com/mig-{profile.label} and remove the label"
        administrator = "list HAMi in conversion.readWishesOf" if request.path[-1] == HAMI_MEMORY else None
        yield Problem(request.path, text, remedy, administrator=administrator)


def foreign_memory(pod: Pod, wish: Wish, settings: GPUAdmissionPolicy) -> int | None:
    """The memory in MiB that HAMi gives each GPU of a pod, if the settings let it be read as a wish.

    None if containers differ, if the pod says something else to HAMi that no claim expresses, such as a part of the compute,
    or if the pod's own wishes contradict it.
    """
    if HAMI.name not in settings.conversion.read_wishes_of:
        return None
    amounts: set[Fraction | None] = set()
    for container in pod.all_containers:
        named = {**container.requests, **container.limits}
        if GPU_RESOURCE in named or HAMI_MEMORY in named:
            amounts.add(quantity_or_none(named.get(HAMI_MEMORY)) if quantity_or_none(named.get(GPU_RESOURCE)) else None)
    memory = amounts.pop() if len(amounts) == 1 else None
    others = any(each.path[-1] != HAMI_MEMORY for each in foreign_requests(pod))
    if memory is None or others or memory.denominator != 1 or memory <= 0:
        return None
    wished = replace(wish, gpu_memory=int(memory))
    return None if wish.gpu_memory not in (None, wished.gpu_memory) or wished.contradictions() else int(memory)


@PODS.rule(
    "GA317",
    "A pod that opts out must not be converted",
    default=Severity.WARN,
    setting="conversion.allowPodOptOut",
    remedy="remove the label to have the pod converted",
    source="docs/conversion.md",
)
def opted_out(pod: Pod, settings: GPUAdmissionPolicy) -> Iterator[Problem]:
    """The label gpu-admission.io/dra: disabled on a pod keeps it with the device plugin.

    It does so although the namespace converts, if the administrator allows it. It then runs only where the device
    plugin hands out GPUs.
    """
    if pod.labels.get(DRA_LABEL) == "disabled" and settings.conversion.allow_pod_opt_out:
        yield Problem(_LABELS / DRA_LABEL, 'is "disabled"')


@PODS.rule(
    "GA318",
    "Pods must opt out only where the administrator allows it",
    default=Severity.WARN,
    setting="conversion.allowPodOptOut",
    remedy="remove the label, or ask the administrator to allow it",
    source="docs/conversion.md",
)
def allowed_opt_out(pod: Pod, settings: GPUAdmissionPolicy) -> Iterator[Problem]:
    """The administrator has turned conversion.allowPodOptOut off.

    So the label on the pod has no effect and the pod is converted like every other.
    """
    if pod.labels.get(DRA_LABEL) == "disabled" and not settings.conversion.allow_pod_opt_out:
        yield Problem(_LABELS / DRA_LABEL, 'is "disabled", but pods may not opt out of conversion in this cluster')
