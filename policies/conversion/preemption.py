"""Preemption: pods that could preempt others before their conversion, and not after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from policies.conversion.record import ConversionRecord
from policies.kubernetes.bounds import remember, text_length
from policies.kubernetes.names import RECORD, format_count, format_list
from policies.kubernetes.objects import has_ended, items_at, lookup
from policies.kubernetes.pod_templates import lowest_priority, pod_priority, preempts
from policies.kubernetes.pods import SPEC
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.identifiers import VENDOR_PREFIX
from policies.nvidia.mig import parse_resource
from policies.rules.checks import PODS, Problem
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.conversion.record import ConversionCandidate
    from policies.kubernetes.objects import Object


_MOST_RECORDS = 1024 * 1024
"""Characters of records whose resources are remembered."""


class Holding(NamedTuple):
    """The facts that decide whether a pod can be preempted; equal for most pods of a cluster."""

    priority: int | None
    """None if it is not filled in, in a manifest."""
    priority_class: str
    resources: tuple[str, ...]
    """The GPU resources that it requests of the device plugin, or did before it was converted."""
    by_claim: bool
    """True for a converted pod."""


_REMEDY = "if the pod stays Pending, end pods of lower priority yourself (gpu-admission explain names them)"


@PODS.rule(
    "GA335",
    "A converted pod must not rely on preemption",
    default=Severity.WARN,
    remedy=_REMEDY,
    source="k8s.io/kubernetes pkg/scheduler/framework/plugins/dynamicresources: no PreFilterExtensions; enhancements #5690",
)
def no_lost_preemption(candidate: ConversionCandidate) -> Iterator[Problem]:
    """For resources of the device plugin, Kubernetes' scheduler ends pods of lower priority to make room.

    For devices of claims it does not, in any version (KEP-5690): the pod stays Pending until other pods end by themselves,
    whatever its PriorityClass. The rule looks at pods that have a node, and whose GPU resources are those that the
    pod requests or requested before they were converted.
    """
    # Pods with claims of their own do not count, because each claim would have to be read to know what they hold.
    priority, lower = _preemptible(candidate)
    if not lower:
        return
    count = sum(lower.values())
    names = {name for each in lower for name in each.resources} & candidate.places.keys()
    text = (
        f"priority {priority} is above that of {format_count(count, 'pod')} that {'holds' if count == 1 else 'hold'} "
        f"{format_list(sorted(names))}; once converted, the pod does not preempt {'it' if count == 1 else 'them'}, because the "
        "scheduler ends no pod to free devices of claims"
    )
    remedy = None
    if candidate.settings.conversion.allow_pod_opt_out and not all(each.by_claim for each in lower):
        remedy = (
            f"{_REMEDY}, or add the label gpu-admission.io/dra: disabled to the pod, which then preempts under "
            "the device plugin"
        )
    yield Problem(SPEC / "priorityClassName", text, remedy)


def _preemptible(candidate: ConversionCandidate) -> tuple[int, dict[Holding, int]]:
    """The priority of a pod, and how many pods of lower priority hold what it requests.

    No pods are returned while either is unknown.
    """
    spec, view = candidate.pod.spec, candidate.view
    priority = pod_priority(spec, view)
    if priority is UNKNOWN or not preempts(spec, view):
        return 0, {}
    lowest = lowest_priority(view)
    if lowest is not UNKNOWN and priority <= lowest:
        # Most pods have no class, and all pods of a cluster need not be read for them.
        return priority, {}
    holdings = view.count_each("Pod", gpu_holding, _Preemptible(priority, frozenset(candidate.places)))
    lower = {}
    for each, count in ({} if holdings is UNKNOWN else holdings).items():
        own = pod_priority({"priority": each.priority, "priorityClassName": each.priority_class}, view)
        if own is not UNKNOWN and own < priority:
            lower[each] = count
    return priority, lower


@dataclass(frozen=True, slots=True)
class _Preemptible:
    """Says whether a pod of some priority could preempt one that holds GPUs."""

    priority: int
    resources: frozenset[str]
    """The resources that the pod requests."""

    def __call__(self, holding: Holding) -> bool:
        is_higher = holding.priority is not None and holding.priority >= self.priority
        return not is_higher and not self.resources.isdisjoint(holding.resources)


def gpu_holding(pod: Object) -> Holding | None:
    """The GPUs that a pod holds; None if it has no node, has ended, or requests none by resource name."""
    spec = pod.get("spec")
    if not lookup(spec, ("nodeName",)) or has_ended(pod):
        return None
    requested = {
        name
        for listed_in in ("initContainers", "containers")
        for container in items_at(spec, (listed_in,))
        for section in ("limits", "requests")
        if isinstance(amounts := lookup(container, ("resources", section)), dict)
        for name, amount in amounts.items()
        if name.startswith(VENDOR_PREFIX) and amount not in (0, "0") and parse_resource(name) is not None
    }
    record = lookup(pod, ("metadata", "annotations", RECORD))
    resources = tuple(sorted(requested)) or (_recorded_resources(record) if isinstance(record, str) else ())
    if not resources:
        return None
    priority, name = lookup(spec, ("priority",)), lookup(spec, ("priorityClassName",))
    return Holding(
        priority if isinstance(priority, int) else None,
        name if isinstance(name, str) and priority is None else "",
        resources,
        by_claim=not requested,
    )


@remember(_MOST_RECORDS, text_length)
def _recorded_resources(text: str) -> tuple[str, ...]:
    """The resources that a converted pod requested, by its record, which is not verified here."""
    record = ConversionRecord.parse(text)
    return () if record is None else tuple(sorted(record.requested))
