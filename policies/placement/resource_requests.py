"""Requests of extended resources that nodes share, or that no node can serve as a whole."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from policies.fleet import RequestKind, gpu_requests
from policies.fleet.device_plugin import SingleShares, enough_on_a_node, largest_below, largest_of_class
from policies.fleet.gpu_nodes import gpu_nodes
from policies.fleet.offers.shown import sharing_strategy
from policies.fleet.pod_claims import domain_template, missing_remedy, pod_claims
from policies.kubernetes.names import closest, format_count, format_list, is_dns_label, printable, shown
from policies.kubernetes.nodes import required_terms
from policies.kubernetes.objects import lookup
from policies.kubernetes.pods import SPEC
from policies.kubernetes.quantities import ONE, pod_amounts
from policies.kubernetes.selectors import ALWAYS, Alternatives, NodeRequirement
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.mig import IMPLICIT_PREFIX, parse_resource
from policies.placement.advertised_resources import advertised_resources, first_requests, resource_requests
from policies.rules.checks import PODS, Problem
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence

    from policies.devices.resource_claims import DeviceRequest
    from policies.fleet.gpu_nodes import GPUNode
    from policies.fleet.pod_claims import PodClaim
    from policies.kubernetes.pods import Pod
    from policies.kubernetes.view import ClusterView
    from policies.nvidia.mig import GPUResource
    from policies.nvidia.wishes import Wish
    from policies.placement.advertised_resources import ResourceRequest
    from policies.rules.decision import Finding
    from policies.rules.settings import GPUAdmissionPolicy


_STRATEGIES = {"mps": "MPS", "time-slicing": "time-slicing"}
_PREFERRED = ("affinity", "nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution")


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
    requirements: list[NodeRequirement] = []
    findings: list[Finding] = []
    conditions = {
        resource: condition
        for resource, condition in unshared_conditions(pod, wish, settings).items()
        if not _speaks_of_sharing(pod.spec, resource.name)
    }
    nodes = gpu_nodes(view) if conditions else UNKNOWN
    for resource, condition in conditions.items():
        offering = [] if nodes is UNKNOWN else _nodes_with(resource.name, nodes.select(pod.spec), wanted)
        found = tuple(unshared_gpu(pod, resource, offering))
        findings += found
        requirements += [] if found else [condition]
    return (tuple(requirements),), tuple(findings)


@PODS.rule(
    "GA411",
    "A pod that avoids shared GPUs must find a GPU of its own",
    default=Severity.WARN,
    remedy="add the annotation gpu-admission.io/sharing: shared if a share will do, or exclusive to wait for a whole one",
    source="github.com/NVIDIA/k8s-device-plugin internal/rm/device_map.go updateDeviceMapWithReplicas; docs/placement.md",
)
def unshared_gpu(pod: Pod, resource: GPUResource, offering: Sequence[GPUNode]) -> Iterator[Problem]:
    """With spec.placement.avoidSharedGPUs, pods are kept off nodes that hand out their GPUs in shares.

    These are pods that request nvidia.com/gpu and do not choose about sharing. Where every node that offers the GPU
    does so, that would keep the pod Pending for ever. So it may run there and gets a share: other pods use the
    memory and the time of the GPU too.
    """
    if offering and all(sharing_strategy(node.labels, resource.name) for node in offering):
        path = next(each.path for each in resource_requests(pod) if each.resource == resource.name)
        text = (
            f"is a share of a {'MIG device' if resource.mig else 'GPU'} on every node that offers it to this pod, "
            f"{ways_of_sharing(offering, resource.name)}; the pod gets a share, though "
            "spec.placement.avoidSharedGPUs keeps pods off shared GPUs where there are others"
        )
        yield Problem(path, text)


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


_MOST_CLAIMS = 32
"""The number of a pod's claims that are added up; more could only increase the sum."""


def oversized_requests(
    pod: Pod, requests: Collection[ResourceRequest], view: ClusterView, left_out: Container[str]
) -> Iterator[Finding]:
    """Warn if a pod requests more of a GPU resource than the largest node has.

    Args:
        pod: in the form in which it is scheduled.
        requests: its first request of each resource.
        view: the cluster.
        left_out: resources that another finding reports already.
    """
    amounts = pod_amounts(pod.spec) if requests else {}
    for request in requests:
        resource = request.resource
        if resource in left_out or (parse_resource(resource) is None and not resource.startswith(IMPLICIT_PREFIX)):
            continue
        wanted = amounts.get(resource, 0) // ONE
        largest = largest_below(resource, wanted, view)
        if largest is not None:
            yield from enough_on_a_node(request.path, f"the pod requests {wanted:,}", largest)


def oversized_claims(pod: Pod, namespace: str, view: ClusterView) -> Iterator[Finding]:
    """Warn if the claims of a pod together request more devices of a class than any node has.

    A single claim that is too large is reported at the claim. Prioritized lists, requests for all devices of a node,
    admin access, and unknown claims count as zero.
    """
    claims = pod_claims(pod.document, namespace, view)
    if len(claims) < 2:
        return
    by_object: dict[tuple[str, str], Counter[str]] = {}
    in_all: Counter[str] = Counter()
    for claim in claims[:_MOST_CLAIMS]:
        key = str(claim.kind), claim.object_name
        if claim.kind == "ResourceClaim" and key in by_object:
            continue  # the pod refers to one claim by two names
        if key not in by_object:
            by_object[key] = _counts(claim.requests or ())
        in_all.update(by_object[key])
    for name, wanted in in_all.items():
        largest = largest_of_class(name, view)
        if largest is not None and max(counts[name] for counts in by_object.values()) <= largest[1] < wanted:
            text = f'the claims request {wanted:,} devices of class "{printable(name)}"'
            yield from enough_on_a_node(SPEC / "resourceClaims", text, largest)


def _counts(requests: Iterable[DeviceRequest]) -> Counter[str]:
    """The number of devices of each class that the requests certainly take."""
    counts: Counter[str] = Counter()
    for request in requests:
        for subrequest in () if request.is_prioritized else request.subrequests:
            if subrequest.allocation_mode == "ExactCount" and not subrequest.has_admin_access:
                counts[subrequest.device_class] += subrequest.count
    return counts


@PODS.rule(
    "GA412",
    "A container must request one share where a node gives no more",
    default=Severity.WARN,
    remedy="request 1",
    source="github.com/NVIDIA/k8s-device-plugin internal/rm/rm.go ValidateRequest, api/config/v1/config.go NewConfig",
)
def one_share(
    pod: Pod, requests: Iterable[ResourceRequest], view: ClusterView, settings: GPUAdmissionPolicy
) -> Iterator[Problem]:
    """A device plugin may refuse a request for more than one share.

    It does so under MPS, and under time-slicing with failRequestsGreaterThanOne: two shares may be of the same GPU
    and give no more of it than one. The scheduler does not know this limit. It binds the pod, the kubelet fails it,
    and a controller creates the next pod, which fails too.
    """
    large_requests = [
        request for request in requests if request.amount > 1 and parse_resource(request.resource) is not None
    ]
    nodes = gpu_nodes(view) if large_requests else UNKNOWN
    if nodes is UNKNOWN:
        return
    selected, shares = nodes.select(pod.spec), SingleShares(view, settings)
    refusing: dict[str, tuple[str, int]] = {}
    for resource in {request.resource for request in large_requests if request.resource in nodes.offers}:
        offering = [node for node in selected if resource in node.offers]
        if offering and all(shares.is_single(node.labels, resource) for node in offering):
            unshared = (node for node in nodes.nodes if resource in node.offers)
            others = sum(sharing_strategy(node.labels, resource) is None for node in unshared)
            refusing[resource] = ways_of_sharing(offering, resource), others
    for request in large_requests:
        if request.resource in refusing:
            yield _refusal(request, *refusing[request.resource])


def _refusal(request: ResourceRequest, ways: str, others: int) -> Problem:
    parsed = parse_resource(request.resource)
    things = "MIG devices" if parsed and parsed.mig else "GPUs"
    text = (
        f"is {request.amount}, and every node that offers it to this pod shares its {things}, "
        f"{ways}, and gives a container 1 share; the pod would fail with "
        "UnexpectedAdmissionError: invalid request: maximum request size for shared resources is 1; "
        f"found {request.amount}"
    )
    if not others:
        return Problem(request.path, text)
    there_are = (
        "1 node that does not share them" if others == 1 else f"one of the {others} nodes that do not share them"
    )
    return Problem(request.path, text, f"request 1, or let the pod run on {there_are}")


@PODS.rule(
    "GA415",
    "A container must refer to each claim for GPUs of its pod",
    default=Severity.WARN,
    remedy="name the claim in resources.claims of the container that uses the GPU",
    source="k8s.io/kubernetes pkg/kubelet/cm/dra/manager.go GetResources",
)
def used_claims(pod: Pod, namespace: str, view: ClusterView) -> Iterator[Problem]:
    """A claim in spec.resourceClaims gets its devices for the pod.

    Only containers that name the claim in resources.claims are given them. If no container does, the GPU is
    allocated, and the pod runs without it. A container that names an undeclared claim may mean this one, and the API
    server refuses the pod.
    """
    declared = [claim.get("name") for claim in pod.resource_claims]
    used = pod.used_claims
    if used.issuperset(declared) or not used.issubset(declared):
        return
    for request in gpu_requests(pod.document, namespace, view):
        if request.kind is RequestKind.CLAIM and request.name not in used and request.is_probable:
            message = f"no container refers to claim {shown(request.name)}: the pod holds its devices, and no container gets them"
            remedy = f"write resources: {{claims: [{{name: {request.name}}}]}} in the container that uses the GPU"
            yield Problem(request.path, message, remedy)


@PODS.rule(
    "GA416",
    "A container must name a request that its claim has",
    default=Severity.WARN,
    remedy="write the name of a request of the claim, or leave request out to get all of its devices",
    source="k8s.io/kubernetes pkg/kubelet/cm/dra/manager.go GetResources, claiminfo.go cdiDevicesAsList",
)
def existing_requests(pod: Pod, claims: Iterable[PodClaim]) -> Iterator[Problem]:
    """The API server does not compare the request with the claim.

    The kubelet gives the container the devices of the request that it names. If the claim has no such request, the
    container gets none: the pod runs without its GPU, and nothing fails.
    """
    known = {claim.name: [each.name for each in claim.requests] for claim in claims if claim.requests}
    for container in pod.all_containers:
        for index, item in enumerate(container.claims):
            names, request = known.get(item.get("name", "")), item.get("request")
            # The API server refuses a request that is no DNS label.
            if names is None or not is_dns_label(request) or request in names:
                continue
            path = container.path / "resources" / "claims" / index / "request"
            message = (
                f"claim {shown(item['name'])} has no request {shown(request)}, so the container gets no device of it"
            )
            guess = closest(request, names)
            others = f"write one of {format_list(names)}"
            yield Problem(path, message, f'write "{guess}"' if guess else others)


@PODS.rule(
    "GA417",
    "The claims of a pod must exist",
    default=Severity.WARN,
    remedy="create the claim or template",
    source="k8s.io/kubernetes pkg/controller/resourceclaim/controller.go handleClaim, pkg/scheduler/framework/plugins/dynamicresources",
)
def existing_claims(claims: Iterable[PodClaim], view: ClusterView) -> Iterator[Problem]:
    """A pod whose claim, or the template of a claim, does not exist waits until it is created."""
    for claim in claims:
        if claim.kind is not None and claim.object_name and claim.document is None:
            if domain_template(claim.object_name, claim.namespace, view) is not None:
                continue
            message = (
                f"{claim.kind} {shown(claim.object_name)} does not exist in {claim.namespace}, so the pod waits for it"
            )
            yield Problem(claim.path, message, missing_remedy(claim.kind, claim.object_name, claim.namespace, view))


def node_findings(pod: Pod, namespace: str, view: ClusterView, settings: GPUAdmissionPolicy) -> Iterator[Finding]:
    """The findings of rules GA412 to GA417 for a pod in the form in which it is scheduled."""
    requests = tuple(resource_requests(pod))
    first = first_requests(requests).values()
    shared = tuple(one_share(pod, requests, view, settings))
    yield from shared
    yield from advertised_resources(pod, first, namespace, view)
    # If a container gets one share at most, the number of shares on a node does not matter.
    yield from oversized_requests(pod, first, view, left_out={str(finding.path[-1]) for finding in shared})
    yield from oversized_claims(pod, namespace, view)
    if pod.resource_claims:
        yield from used_claims(pod, namespace, view)
        claims = pod_claims(pod.document, namespace, view)
        yield from existing_requests(pod, claims)
        yield from existing_claims(claims, view)
