"""Sharing: nodes that hand out their GPUs in shares, and conditions that keep other pods off them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from policies.fleet.gpu_nodes import gpu_nodes
from policies.fleet.offers.shown import sharing_strategy
from policies.kubernetes.nodes import required_terms
from policies.kubernetes.objects import lookup
from policies.kubernetes.phrases import format_count, format_list
from policies.kubernetes.selectors import ALWAYS, Alternatives, NodeRequirement
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.resources import parse_resource
from policies.placement.resource_names import resource_requests
from policies.rules.decision import Severity
from policies.rules.registry import rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from policies.fleet.gpu_nodes import GPUNode
    from policies.kubernetes.pods import Pod
    from policies.kubernetes.view import ClusterView
    from policies.nvidia.resources import GPUResource
    from policies.nvidia.wishes import Wish
    from policies.rules.decision import Finding
    from policies.rules.settings import GPUAdmissionPolicy

__all__ = ["unshared_conditions", "unshared_nodes", "ways_of_sharing"]

_STRATEGIES = {"mps": "MPS", "time-slicing": "time-slicing"}
_PREFERRED = ("affinity", "nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution")


ONLY_SHARES = rule(
    "GA411",
    "A pod that avoids shared GPUs must find a GPU of its own",
    default=Severity.WARN,
    needs=("placement.avoidSharedGPUs", True),
    why="""
    With spec.placement.avoidSharedGPUs, pods that request nvidia.com/gpu and do not choose about sharing are kept off
    nodes that hand out their GPUs in shares. Where every node that offers the GPU does so, that would keep the pod
    Pending for ever. So it may run there and gets a share: other pods use the memory and the time of the GPU too.""",
    remedy="add the annotation gpu-admission.io/sharing: shared if a share will do, or exclusive to wait for a whole one",
    source="github.com/NVIDIA/k8s-device-plugin README, Shared Access to GPUs; docs/placement.md",
)


def unshared_nodes(
    pod: Pod, wish: Wish, view: ClusterView, settings: GPUAdmissionPolicy, wanted: Alternatives = ALWAYS
) -> tuple[Alternatives, tuple[Finding, ...]]:
    """Conditions that keep a pod without a choice about sharing off nodes that share GPUs, and findings.

    If the settings do not require it, there are no conditions. If all known nodes with the GPU that the pod wishes share
    it, there is a finding instead of a condition. The wish for sharing is not rendered here.

    Args:
        pod: The pod, with its own conditions on nodes only.
        wish: The wish of the pod.
        view: The cluster.
        settings: With `placement.avoidSharedGPUs`.
        wanted: The conditions on nodes of the rest of the wish.
    """
    requirements, findings = [], []
    conditions = {
        resource: condition
        for resource, condition in unshared_conditions(pod, wish, settings).items()
        if not _speaks_of_sharing(pod.spec, resource.name)
    }
    nodes = gpu_nodes(view) if conditions else UNKNOWN
    for resource, condition in conditions.items():
        offering = [] if nodes is UNKNOWN else _nodes_with(resource.name, nodes.select(pod.spec), wanted)
        if offering and all(sharing_strategy(node.labels, resource.name) for node in offering):
            text = (
                f"is a share of a {'MIG device' if resource.mig else 'GPU'} on every node that offers it to this pod, "
                f"{ways_of_sharing(offering, resource.name)}; the pod gets a share, though "
                "spec.placement.avoidSharedGPUs keeps pods off shared GPUs where there are others"
            )
            findings.append(
                ONLY_SHARES.finding(
                    next(each.path for each in resource_requests(pod) if each.resource == resource.name), text
                )
            )
        else:
            requirements.append(condition)
    return (tuple(requirements),), tuple(findings)


def unshared_conditions(pod: Pod, wish: Wish, settings: GPUAdmissionPolicy) -> dict[GPUResource, NodeRequirement]:
    """By resource, the condition that keeps a pod off nodes that share it; empty if not required."""
    if not settings.placement.avoid_shared_gpus or wish.sharing is not None:
        return {}
    resources = map(parse_resource, sorted({each.resource for each in resource_requests(pod)}))
    return {
        resource: NodeRequirement(f"{resource.name}.sharing-strategy", "NotIn", tuple(_STRATEGIES))
        for resource in resources
        if resource is not None and not resource.shared
    }


def _nodes_with(resource: str, nodes: Iterable[GPUNode], wanted: Alternatives) -> list[GPUNode]:
    """The nodes that offer a resource and meet an alternative; nodes with equal labels are compared once."""
    keys = {item.key for branch in wanted for item in branch}
    met: dict[tuple[str | None, ...], bool] = {}
    offering = []
    for node in nodes:
        if resource not in node.offers:
            continue
        values = tuple(map(node.labels.get, keys))
        if values not in met:
            met[values] = any(all(item.holds(node.labels) for item in branch) for branch in wanted)
        if met[values]:
            offering.append(node)
    return offering


def ways_of_sharing(nodes: Iterable[GPUNode], resource: str) -> str:
    """`by MPS on 1 node and by time-slicing on 2 nodes`."""
    counts = Counter(strategy for node in nodes if (strategy := sharing_strategy(node.labels, resource)))
    return format_list(
        [f"by {_STRATEGIES[strategy]} on {format_count(counts[strategy], 'node')}" for strategy in sorted(counts)]
    )


def _speaks_of_sharing(spec: Mapping[str, Any], resource: str) -> bool:
    """True if the pod's own node selector or affinity chooses between shared and whole GPUs of a resource."""
    for key, values in _conditions(spec):
        if key in (f"{resource}.sharing-strategy", f"{resource}.replicas"):
            return True
        if key == f"{resource}.product" and any(str(value).endswith("-SHARED") for value in values):
            return True
    return False


def _conditions(spec: Mapping[str, Any]) -> Iterator[tuple[Any, list[Any]]]:
    """The labels in a pod's node selector and affinity, required and preferred, each with its values."""
    yield from ((key, [value]) for key, value in (spec.get("nodeSelector") or {}).items())
    preferred = [lookup(each, ("preference",)) for each in _items(lookup(spec, _PREFERRED))]
    for term in (*_items(required_terms(spec)), *preferred):
        for expression in _items(lookup(term, ("matchExpressions",))):
            yield lookup(expression, ("key",)), _items(lookup(expression, ("values",)))


def _items(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else []
