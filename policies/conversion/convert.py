"""Converts one pod, and finds pods that are not converted when they are stored.

Conversion reads what a pod requests, and applies the strategy of its namespace. The check runs after all mutating webhooks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from policies.conversion.constraints import ConstraintError, NodeConstraints
from policies.conversion.converted_pods import conversion_record, remove_readded, remove_resources
from policies.conversion.device_layout import ContainerRequest, TooManyDevicesError
from policies.conversion.device_parts import offered_shares, offered_wish_for_shares, resource_parts
from policies.conversion.exemptions import exemptions, existing_strategy, foreign_memory, strategy_of
from policies.conversion.gpu_amounts import gpu_resources, limit_path, read_amounts, requests_gpus, reviewable_size
from policies.conversion.gpu_semantics import GPUSemantics, gpu_semantics, is_shared_mig, translated_gke_labels
from policies.conversion.gpu_slices import wished_slices
from policies.conversion.record import Conversion, ConversionCandidate, ConversionRecord
from policies.conversion.strategies import STRATEGIES, claimable_nic, classes_of, existing_classes
from policies.conversion.surroundings import own_template
from policies.conversion.templates import is_our_name
from policies.kubernetes.neighbours import HAMI_MEMORY
from policies.kubernetes.pod_templates import container_defaults
from policies.kubernetes.pods import SPEC
from policies.kubernetes.resourceslices import LONGEST_SELECTOR
from policies.kubernetes.view import UNKNOWN, ClusterView
from policies.nvidia.identifiers import GPU_RESOURCE
from policies.rules.checks import PODS, Problem
from policies.rules.decision import Severity
from policies.rules.patch import Editor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from policies.conversion.gpu_amounts import Amounts
    from policies.conversion.record import RecordedClaim
    from policies.kubernetes.objects import FieldPath
    from policies.kubernetes.pods import Pod
    from policies.nvidia.wishes import Wish
    from policies.rules.decision import Finding
    from policies.rules.settings import GPUAdmissionPolicy


def convert(
    pod: Pod, namespace: str, view: ClusterView, settings: GPUAdmissionPolicy, wish: Wish, own: Pod
) -> Conversion:
    """Convert a pod that is being created in a namespace that opted in.

    A pod that was converted before stays as it is, with the wish of its record; only resources that were added again are
    removed.

    Args:
        pod: The pod to convert.
        namespace: The namespace of the pod.
        view: The cluster.
        settings: The administrator's settings.
        wish: The wish of the pod.
        own: The pod before its placement; `pod` itself if it was not placed. Placement writes conditions on nodes into
            a pod, and these may exclude the nodes for which the pod is not converted. So `own` decides whether it is
            converted.
    """
    if own is not pod:
        left = _convert(own, namespace, view, settings, wish)
        if left.edits is None:
            return left
    return _convert(pod, namespace, view, settings, wish)


def _convert(pod: Pod, namespace: str, view: ClusterView, settings: GPUAdmissionPolicy, wish: Wish) -> Conversion:
    if pod.is_past_scheduling:
        return Conversion()
    earlier = conversion_record(pod)
    if earlier is not None:
        return _convert_again(pod, earlier, namespace, view, settings)
    if not requests_gpus(pod):
        return Conversion()
    strategy = strategy_of(namespace, view)
    makes_claims = strategy in ("template", "auto")
    foreign: dict[str, int] = {}
    if makes_claims and (memory := foreign_memory(pod, wish, settings)) is not None:
        wish, foreign = replace(wish, gpu_memory=memory), {HAMI_MEMORY: memory}
    gke = translated_gke_labels(pod, view) if makes_claims and wish.gpu_memory is None else ()
    if exempt := (*exemptions(pod, settings, (*foreign, *gke)), *existing_strategy(namespace, view)):
        return Conversion(obstacles=exempt)
    if too_large := tuple(reviewable_size(pod)):
        return Conversion(obstacles=too_large)
    amounts = read_amounts(pod)
    if amounts.findings:
        return Conversion(obstacles=amounts.findings)
    places = _places(pod, amounts)
    if not places:
        edits = Editor(pod.document)
        if strategy != "leave" and not _has_gpu_default(pod, namespace, view):
            for container in pod.all_containers:
                remove_resources(container, gpu_resources(container), edits)
        return Conversion(edits=edits)
    constraints = NodeConstraints.of(pod.spec, gke if GPU_RESOURCE in places else ())
    record, obstacles = _build_record(pod, amounts, places, view, settings, wish, constraints)
    record = replace(record, foreign=foreign) if foreign else record
    return STRATEGIES[strategy](ConversionCandidate(pod, namespace, view, settings, record, places, obstacles))


def _convert_again(
    pod: Pod, record: ConversionRecord, namespace: str, view: ClusterView, settings: GPUAdmissionPolicy
) -> Conversion:
    """Keep a converted pod converted, and check its template, network devices and DeviceClasses."""
    edits, findings = remove_readded(pod, record)
    if record.classes:
        places = dict.fromkeys(record.classes, SPEC / "containers")
        obstacles = (*findings, *existing_classes(classes_of(record, places), places, view))
        return Conversion(obstacles, edits=edits, record=record, repeated=True)
    template = record.template(namespace)
    claims = dict.fromkeys(record.claim.predicates, SPEC / "resourceClaims")
    obstacles = (
        *findings,
        *existing_classes(classes_of(record, claims), claims, view),
        *own_template(template, view),
        *claimable_nic(record, view, settings, "converted"),
    )
    return Conversion(obstacles, edits=edits, template=template, record=record, repeated=True)


def _places(pod: Pod, amounts: Amounts) -> dict[str, FieldPath]:
    """The path at which each resource is first requested, without resources that are requested zero times."""
    places: dict[str, FieldPath] = {}
    for container in pod.all_containers:
        for resource, count in amounts.of.get(container.name, {}).items():
            if count:
                places.setdefault(resource, limit_path(container, resource))
    return dict(sorted(places.items()))


def _build_record(
    pod: Pod,
    amounts: Amounts,
    places: dict[str, FieldPath],
    view: ClusterView,
    settings: GPUAdmissionPolicy,
    wish: Wish,
    constraints: NodeConstraints,
) -> tuple[ConversionRecord, tuple[Finding, ...]]:
    """The record of everything that the pod requests, and why a claim cannot express it."""
    meaning = (
        gpu_semantics(pod.spec, constraints, wish, view, places[GPU_RESOURCE])
        if GPU_RESOURCE in places and wish.gpu_memory is None  # else a part of a GPU, whatever nodes hand out
        else GPUSemantics()
    )
    containers = tuple(
        ContainerRequest(container.name, container.kind, amounts.of[container.name])
        for container in pod.all_containers
        if container.name in amounts.of
    )
    record = ConversionRecord(containers, constraints, meaning.kind, meaning.profile, wish=wish)
    if meaning.findings:
        return record, _obstacles(record, meaning.findings, view)
    if wish.gpu_memory is not None:
        record = replace(record, slices=wished_slices(wish, constraints, view))
    whole = {resource: path for resource, path in places.items() if not record.slices_of(resource)}
    shared = {
        resource
        for resource in whole
        if (meaning.shared if resource == GPU_RESOURCE else is_shared_mig(resource, pod.spec, wish, view))
    }
    parts, apart, unoffered = resource_parts(record, pod.spec, whole, view, shared=shared)
    if parts or apart:
        record = record.with_parts(parts, apart)
    found = (*offered_shares(record, unoffered, view), *offered_wish_for_shares(record, unoffered))
    if wish.nic is not None:
        found = (*found, *claimable_nic(record, view, settings))
        if not found:
            record = replace(record, nic=settings.conversion.nic)
    return record, _obstacles(record, (*found, *_claim_findings(record, places, view)), view)


def _obstacles(record: ConversionRecord, findings: tuple[Finding, ...], view: ClusterView) -> tuple[Finding, ...]:
    """The findings; only the one about shared GPUs if the pod gets shared GPUs.

    Such a pod stays with the device plugin, where the other findings do not apply. Placement then adds conditions for
    the pod's wish that a claim may not be able to express. A second review must leave the pod unconverted too, rather
    than refuse it for these conditions.
    """
    if not findings:
        return ()
    shared = tuple(finding for finding in findings if finding.rule is offered_shares.rule)
    if not shared and (error := record.shared_condition()) is not None:
        shared = tuple(offered_shares(record, (), view, error))
    return shared or findings


def _claim_findings(record: ConversionRecord, places: dict[str, FieldPath], view: ClusterView) -> Iterator[Finding]:
    try:
        claim = record.claim
    except ConstraintError as error:
        if error.shared:
            yield from offered_shares(record, (), view, error)
        yield from agreeing_terms(error)
        yield from exact_labels(error)
    except TooManyDevicesError as error:
        yield from few_devices(error, places)
    else:
        yield from short_selectors(claim, places)


_OTHER_LABELS = "or select by nvidia.com/gpu.product, .memory or .family"


@PODS.rule(
    "GA307",
    "A node label that selects GPUs must have an exact equivalent on a device",
    remedy=f"remove the condition, {_OTHER_LABELS}",
    source="github.com/NVIDIA/k8s-device-plugin internal/lm/labeler.go NewLabelers, internal/lm/resource.go newResourceLabeler; "
    "dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/deviceinfo.go Attributes, GetDevice",
)
def exact_labels(error: ConstraintError) -> Iterator[Problem]:
    """Where GPUs are handed out by DRA, nodes lose the labels of GPU Feature Discovery.

    A pod that selects on them stays Pending for ever. Conversion turns such conditions into selectors on devices,
    but only exact ones: a pod must not land on another GPU than it requested. Some labels describe the node, or
    count things, and no device attribute says the same.
    """
    if not (error.shared or error.mixed):
        *_, field, key = error.path
        condition = f"{key} from nodeSelector" if field == "nodeSelector" else "the expression"
        yield Problem(error.path, str(error), f"remove {condition}, {_OTHER_LABELS}")


@PODS.rule(
    "GA308",
    "OR-ed affinity terms must agree on the node part or on the GPU part",
    remedy="let the terms differ in the node part only or in the GPU part only, or make two workloads",
    source="k8s.io/component-helpers/scheduling/corev1/nodeaffinity",
)
def agreeing_terms(error: ConstraintError) -> Iterator[Problem]:
    """Node selector terms are alternatives.

    "Zone a with an A100, or zone b with an H100" cannot be split into one condition on nodes and one on devices:
    each alone would also allow zone a with an H100. Terms that differ in only one of the two parts can be split.
    """
    if error.mixed and not error.shared:
        yield Problem(error.path, str(error))


@PODS.rule(
    "GA304",
    "A pod must not request more than 32 devices",
    remedy="spread the work over several pods",
    source="k8s.io/api/resource/v1 types.go AllocationResultsMaxSize",
)
def few_devices(error: TooManyDevicesError, places: Mapping[str, FieldPath]) -> Iterator[Problem]:
    """A ResourceClaim can hold 32 devices over all its requests.

    No node has more than 16 whole GPUs; a pod that requests more than 32 MIG devices or shares has to be split.
    """
    yield Problem(next(iter(places.values())), str(error))


@PODS.rule(
    "GA311",
    "The conditions on a device must fit into CEL expressions of 10 KiB",
    remedy="name fewer values, or select by family or memory instead of a list of products",
    source="k8s.io/api/resource/v1 types.go CELSelectorExpressionMaxLength",
)
def short_selectors(claim: RecordedClaim, places: Mapping[str, FieldPath]) -> Iterator[Problem]:
    """The API server refuses a device selector longer than 10,240 bytes.

    It then refuses the claim of every pod made from the template. What a pod demands by node labels and what it
    wishes both become such selectors; only very long lists of products reach the limit.
    """
    for resource, expressions in claim.expressions.items():
        for expression in expressions:
            size = len(expression.encode())
            if size > LONGEST_SELECTOR:
                text = f"its node labels and wishes become a CEL expression of {size} bytes, and {LONGEST_SELECTOR} are allowed"
                yield Problem(places[resource], text)


def _has_gpu_default(pod: Pod, namespace: str, view: ClusterView) -> bool:
    """True if a LimitRange would add a GPU to the pod once its explicit zeros are removed."""
    ranges = view.list("LimitRange", namespace)
    if ranges is UNKNOWN:
        return False
    _, requests = container_defaults(ranges)  # default limits are default requests too
    named = {name for container in pod.all_containers for name in gpu_resources(container)}
    return not named.isdisjoint(requests)


@PODS.rule(
    "GA320",
    "A converted pod must not request GPUs from the device plugin as well",
    remedy="find the webhook that changes pods after convert-pods.gpu-admission.io and let it run before",
    source="docs/conversion.md",
)
def no_second_devices(pod: Pod, record: ConversionRecord | None) -> Iterator[Problem]:
    """The pod refers to the claim that conversion made and requests the extended resource as well.

    It would get a second set of devices from the device plugin, or stay Pending if there are none.
    """
    other = "uses the new names" if record is not None and record.classes else "holds a converted claim"
    for path in _requested_paths(pod):
        yield Problem(path, f"is requested from the device plugin, and the pod {other} as well")


@PODS.rule(
    "GA321",
    "A pod in a namespace that converts must be converted",
    remedy="create the pod again; if it happens again, find the webhook that adds the resource",
    source="docs/conversion.md",
)
def converted_pod(pod: Pod) -> Iterator[Problem]:
    """The pod would have been converted, but is not.

    A later webhook added the GPU resource, or the conversion webhook was not called. Where GPUs are handed out by
    DRA it would stay Pending.
    """
    for path in _requested_paths(pod):
        yield Problem(path, "is still requested from the device plugin; the pod has not been converted")


def _requested_paths(pod: Pod) -> Iterator[FieldPath]:
    """The paths of GPU resources, without those that are requested zero times."""
    amounts = read_amounts(pod).of
    for container in pod.all_containers:
        for resource in gpu_resources(container):
            if amounts.get(container.name, {}).get(resource) != 0:
                yield limit_path(container, resource)


@PODS.rule(
    "GA325",
    "A converted pod must not select nodes by GPU labels",
    default=Severity.WARN,
    remedy="let the webhook that adds the condition run before convert-pods.gpu-admission.io",
    source="docs/conversion.md",
)
def no_gpu_labels(pod: Pod) -> Iterator[Problem]:
    """Conversion moved such conditions to the claim.

    One that was added later, by another webhook, holds for nodes only: where GPUs are handed out by DRA the labels
    go stale or vanish, and the pod stays Pending.
    """
    for place, key in NodeConstraints.of(pod.spec).places():
        yield Problem(place, f"{key} selects nodes by their GPUs, and this pod has been converted")


def check_conversion(
    pod: Pod, settings: GPUAdmissionPolicy, convert_now: Callable[[], Conversion]
) -> Iterator[Finding]:
    """Findings about a pod that still requests GPUs from the device plugin in a namespace that converts.

    A pod that conversion leaves alone may request them; one that holds a claim of ours, or that conversion would change,
    may not.

    Args:
        pod: The pod as it will be stored.
        settings: The administrator's settings.
        convert_now: Returns the conversion of the pod. Called only if that decides: most pods are converted.
    """
    if pod.is_past_scheduling:
        return
    earlier = conversion_record(pod)
    if not settings.conversion.keep_translated_labels and earlier is not None:
        yield from no_gpu_labels(pod)
    if not requests_gpus(pod):
        return
    used = pod.used_claims
    uses_ours = earlier is not None or any(
        claim.get("name") in used and is_our_name(claim.get("resourceClaimTemplateName"))
        for claim in pod.resource_claims
    )
    if uses_ours:
        yield from no_second_devices(pod, earlier)
        return
    converted = convert_now()
    if not converted.obstacles and converted.record is not None:
        yield from converted_pod(pod)
