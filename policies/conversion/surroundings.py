"""Versions: whether API server and kubelets support extended resources that DRA hands out.

Both do with the feature gate DRAExtendedResource, on by default since Kubernetes 1.36. The API server shows the gate or
proves it by a stored class; whether it is on in an older kubelet cannot be seen. An older kubelet would start a pod without
the devices that its claim has.

Source: KEP-5004; k8s.io/kubernetes pkg/features/kube_features.go, pkg/kubelet/lifecycle/predicate.go.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from policies.conversion.gpu_slices import amount_as_sold, has_slice
from policies.conversion.templates import without_nulls
from policies.devices.deviceclasses import GPU_CLASS, extended_resource_name
from policies.devices.native_quotas import DEVICES_OF_CLASS, QuotaUse, counts_as_resource, counts_pod, refused_claims
from policies.devices.published_devices import DeviceGroup, gpu_groups, largest_node, published_devices
from policies.devices.resource_claims import Claim
from policies.fleet.device_plugin import enough_on_a_node, nodes_with_both, old_kubelets
from policies.fleet.gpu_nodes import gpu_nodes
from policies.fleet.known_classes import known_classes
from policies.kubernetes.names import format_count, printable
from policies.kubernetes.objects import FieldPath, lookup, name_of
from policies.kubernetes.pods import SPEC
from policies.kubernetes.versions import Feature, version_text
from policies.kubernetes.view import UNKNOWN, ClusterView, Unknown
from policies.nvidia.labels import Subject, device_predicate
from policies.nvidia.mig import parse_resource
from policies.nvidia.predicates import TRUE
from policies.rules.checks import PODS, Problem
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from policies.conversion.record import ConversionCandidate, ConversionRecord, RecordedClaim
    from policies.kubernetes.objects import Object
    from policies.rules.decision import Finding, Template
    from policies.rules.settings import GPUAdmissionPolicy


def server_problem(view: ClusterView) -> str | None:
    """The reason why the API server does not support them; None if it does."""
    version, gate = view.server_version(), Feature.DRAExtendedResource
    if version is UNKNOWN:
        return "the version of the API server is not known"
    if gate.is_complete(view):
        return None
    return f"the API server {f'has {gate.name} off' if gate.default_in(version) else f'is {version_text(version)}'}"


def kubelet_problem(view: ClusterView, *, of_dra_only: bool = False) -> str | None:
    """The reason why kubelets of GPU nodes do not support them; None if they do, or if no GPU node exists.

    `of_dra_only` limits this to nodes whose GPUs are in ResourceSlices.
    """
    kubelets = view.derive(_old_kubelets)
    if kubelets is UNKNOWN:
        return "the Nodes are not known"
    old = [each for each in kubelets if each.by_dra or (each.by_plugin and not of_dra_only)]
    if old:
        version = printable(old[0].version) or "a version that is not known"
        since = Feature.DRAExtendedResource.on_since
        more = f" and that of {len(old) - 1} more older than {since}" if len(old) > 1 else ""
        return f'the kubelet of GPU node "{printable(old[0].node)}" is {version}{more}'
    if kubelets and view.derive(published_devices) is UNKNOWN:
        return f'whether node "{printable(kubelets[0].node)}", whose kubelet is older, has GPUs is not known (ResourceSlices)'
    return None


class _Kubelet(NamedTuple):
    """A kubelet that does not have DRAExtendedResource on by default, or of unknown version."""

    node: str
    version: str
    by_plugin: bool
    """True if the node has GPUs by its labels, or hands them out by a device plugin."""
    by_dra: bool


def _old_kubelets(view: ClusterView) -> tuple[_Kubelet, ...] | Unknown:
    nodes, devices = gpu_nodes(view), view.derive(published_devices)
    if nodes is UNKNOWN:
        return UNKNOWN
    old = nodes.nodes_with(lambda traits: Feature.DRAExtendedResource.default_in(traits.kubelet_version) is not True)
    with_devices = {} if devices is UNKNOWN or not old else devices.types_by_node
    return tuple(
        _Kubelet(
            node.name,
            node.traits.kubelet,
            node.traits.has_device_plugin or node.traits.has_gpu_labels,
            node.name in with_devices,
        )
        for node in old
    )


def device_findings(
    record: ConversionRecord, view: ClusterView, places: dict[str, FieldPath], settings: GPUAdmissionPolicy
) -> Iterator[Finding]:
    """Findings about resources that no device of the cluster matches now, or that no node has enough of."""
    groups = gpu_groups(view)
    if groups is UNKNOWN:
        return
    for resource, path in places.items():
        if parts := record.slices_of(resource):
            if not has_slice(parts, record.wish, record.constraints, groups):
                text = f"no device offers a part of {record.wish.gpu_memory}Mi that the pod can get; {_existing_devices(groups, '')}"
                yield from existing_device(
                    resource, path, record, settings, text, _remedy_without_slices(record, groups)
                )
            continue
        wanted_type = known_classes(view).device_type(record.device_class(resource))
        if wanted_type is None:
            continue
        candidates = [group for group in groups if group.type == wanted_type]
        predicate, part = record.claim.predicates[resource], record.part(resource)
        matching = [group for group in candidates if predicate.matches(group.first)]
        if not any(part.fits(group.first) for group in matching):
            conditions = f" matches {predicate.words()}" if predicate != TRUE else ""
            if matching:
                mismatch = f"no device that{conditions or ' there is'} is offered in shares; "
            else:
                mismatch = f"no device{conditions}; " if conditions else ""
            text, remedy = mismatch + _existing_devices(candidates, wanted_type), None if candidates else _NO_DEVICE
            yield from existing_device(resource, path, record, settings, text, remedy)
        elif not (part.shares or part.is_shareable):
            yield from _too_few(resource, path, record.claim, matching)


_NO_DEVICE = "wait for a node with such a device and its driver"


@PODS.rule(
    "GA313",
    "A device of the cluster must match the request",
    default=Severity.WARN,
    setting="conversion.unsatisfiable",
    remedy="request a device that exists, or wait for such a node",
    source="ResourceSlices of the cluster",
)
def existing_device(
    resource: str,
    path: FieldPath,
    record: ConversionRecord,
    settings: GPUAdmissionPolicy,
    text: str,
    remedy: str | None,
) -> Iterator[Problem]:
    """No ResourceSlice holds a device like this now, so the pod will be Pending.

    That may pass: an autoscaled cluster has no GPU node until the first pod requests one, and a driver upgrade
    empties the slices. It may also be a misspelt product.
    """
    # The setting of placement is about wishes only.
    is_wished = device_predicate(record.wish, record.subject(resource)) != TRUE
    denied = is_wished and settings.placement.unsatisfiable == "deny"
    severity = Severity.DENY if denied else Severity(settings.conversion.unsatisfiable)
    yield Problem(path, text, remedy, severity=severity)


def _too_few(resource: str, path: FieldPath, claim: RecordedClaim, matching: list[DeviceGroup]) -> Iterator[Finding]:
    """Warn if no node has as many devices as the pod requests of a resource in all."""
    wanted = sum(piece.count for piece in claim.pieces if piece.resource == resource)
    if any(group.is_shareable or group.most_on_a_node >= wanted for group in matching):
        return
    largest = largest_node(group.by_node for group in matching)
    if wanted > largest[1]:
        predicate = claim.predicates[resource]
        conditions = f" that match {predicate.words()}" if predicate != TRUE else ""
        described = f"{format_count(largest[1], _kind(matching[0].type))}{conditions}"
        yield from enough_on_a_node(path, f"the pod requests {wanted:,}", largest, described)


def _kind(wanted_type: str) -> str:
    return "whole GPU" if wanted_type == "gpu" else "MIG device"


def _remedy_without_slices(record: ConversionRecord, groups: Sequence[DeviceGroup]) -> str | None:
    """The remedy if no device has the part of a GPU that a pod wishes; None for that of the rule."""
    if record.foreign:
        return None  # The annotation would contradict the resource.
    if (sold := amount_as_sold(record.wish, record.constraints, groups)) is not None:
        return f'write gpu-admission.io/gpu-memory: "{sold}"'
    whole = replace(record.wish, gpu_memory=None, min_memory=record.wish.gpu_memory)
    predicate = device_predicate(whole, Subject("gpu"))
    if any(each.type == "gpu" and not each.is_shareable and predicate.matches(each.first) for each in groups):
        return "replace gpu-admission.io/gpu-memory by min-memory to get a whole GPU"
    return None


def _existing_devices(groups: Iterable[DeviceGroup], wanted_type: str) -> str:
    """The products of devices of a type, or of GPUs of every type if it is empty."""
    nodes: defaultdict[str, set[str]] = defaultdict(set)
    for group in groups:
        nodes[group.product].update(group.by_node)
    if not nodes:
        return f"no ResourceSlice holds a {_kind(wanted_type) if wanted_type else 'GPU'}"
    products = [f"{product} on {len(names)} node{'s' * (len(names) > 1)}" for product, names in sorted(nodes.items())]
    rest = f" and {format_count(len(products) - 5, 'more product')}" if len(products) > 5 else ""
    return f"the cluster has {', '.join(products[:5])}{rest}"


@PODS.rule(
    "GA322",
    "A template that is named by its content must have that content",
    remedy="delete the ResourceClaimTemplate; it is made again when a pod needs it",
    source="docs/conversion.md",
)
def own_template(template: Template, view: ClusterView) -> Iterator[Problem]:
    """Templates are named by a hash of their spec.

    One of this name with another spec was not written by gpu-admission, or was changed since; the pod would get
    devices that it did not request.
    """
    existing = view.get("ResourceClaimTemplate", template.name, template.namespace)
    spec = existing.get("spec") if isinstance(existing, dict) else template.spec
    if spec != template.spec and without_nulls(spec) != template.spec:
        yield Problem(
            SPEC / "resourceClaims",
            "the ResourceClaimTemplate of that name has another spec than the pod needs",
            f"run kubectl -n {template.namespace} delete resourceclaimtemplate {template.name}; "
            "it is made again when a pod needs it",
        )


_MOST_NAMED = 3


def node_problems(view: ClusterView, path: FieldPath) -> Iterator[Finding]:
    """Findings about nodes that hand out GPUs both ways, or whose kubelet cannot read claims."""
    yield from one_way_per_node(view, path)
    yield from kubelets_read_claims(view, path)


@PODS.rule(
    "GA314",
    "A node must hand out its GPUs by the device plugin or by DRA, not both",
    default=Severity.WARN,
    remedy="ask your administrator to turn the device plugin off on these nodes",
    administrator="turn the device plugin off there (label nvidia.com/gpu.deploy.device-plugin=false)",
    source="github.com/NVIDIA/aicr issue 332; github.com/NVIDIA/gpu-operator controllers/gpucluster_controller.go "
    "validatePrerequisites, controllers/clusterpolicy_controller.go Reconcile",
    shared_cause=True,
)
def one_way_per_node(view: ClusterView, path: FieldPath) -> Iterator[Problem]:
    """Device plugin and DRA driver know nothing of each other.

    Where both run on a node, one GPU can be given to two pods at once.
    """
    if nodes := nodes_with_both(view):
        verb = "hands" if len(nodes) == 1 else "hand"
        text = f"{_node_names(nodes)} {verb} out the same GPUs by device plugin and by DRA; two pods could get one GPU"
        yield Problem(path, text)


@PODS.rule(
    "GA336",
    "The kubelets of nodes with devices must read the claims that the API server serves",
    default=Severity.WARN,
    remedy="ask your administrator to upgrade these kubelets",
    administrator="upgrade the kubelets, or let kube-apiserver serve resource.k8s.io/v1beta1 and v1beta2 too (--runtime-config)",
    source="k8s.io/kubernetes pkg/kubelet/cm/dra/manager.go prepareResources; "
    "github.com/kubernetes-sigs/dra-driver-nvidia-gpu issue 766",
    shared_cause=True,
)
def kubelets_read_claims(view: ClusterView, path: FieldPath) -> Iterator[Problem]:
    """Kubernetes 1.34 and later serve claims as resource.k8s.io/v1.

    They serve older versions of them only if the administrator enables these. A kubelet before 1.34 reads the older
    versions only. The scheduler does not know: the pod is bound, and its containers never start.
    """
    if kubelets := old_kubelets(view):
        nodes = tuple(each.node for each in kubelets)
        have = "has" if len(nodes) == 1 else "have"
        text = (
            f"{_node_names(nodes)} {have} kubelet {printable(kubelets[0].version)} or older, which does not read claims of "
            "resource.k8s.io/v1; a pod with a claim would not start there"
        )
        text = text.replace(" or older", "") if len(nodes) == 1 else text
        yield Problem(path, text)


def _node_names(nodes: tuple[str, ...]) -> str:
    more = f" and {len(nodes) - _MOST_NAMED} more" if len(nodes) > _MOST_NAMED else ""
    return ", ".join(nodes[:_MOST_NAMED]) + more


@PODS.rule(
    "GA312",
    "Conversion must not switch a ResourceQuota off",
    setting="conversion.nativeQuota",
    remedy="ask your administrator to limit claims too",
    administrator="limit the namespace by a GPUQuota and remove the ResourceQuota, or set extendedResourceName on the DeviceClass",
    source="k8s.io/kubernetes pkg/quota/v1/evaluator/core/resource_claims.go",
)
def effective_quotas(
    record: ConversionRecord,
    view: ClusterView,
    namespace: str,
    places: dict[str, FieldPath],
    settings: GPUAdmissionPolicy,
    pod: Object | None = None,
) -> Iterator[Problem]:
    """A ResourceQuota on requests.nvidia.com/gpu counts what pods request by that name.

    A converted pod requests by a claim, which the quota counts only if the DeviceClass carries the name
    (spec.extendedResourceName) and the feature gate DRAExtendedResource is on, and never for quotas with scopes. Otherwise the
    namespace could take every GPU, unless a quota without scopes limits <class>.deviceclass.resource.k8s.io/devices.
    """
    # Without `pod`, all quotas count, whatever their scopes.
    quotas = [
        each for each in view.known_or_reviewed("ResourceQuota", namespace) if pod is None or counts_pod(each, pod)
    ]
    severity = Severity(settings.conversion.native_quota)
    limits = [
        (quota, hard, bool(lookup(quota, ("spec", "scopes")) or lookup(quota, ("spec", "scopeSelector"))))
        for quota in quotas
        if isinstance(hard := lookup(quota, ("spec", "hard")), dict)
    ]
    for resource, path in places.items():
        unlimited = [
            name
            for name in record.device_classes(resource)
            if not any(f"{name}{DEVICES_OF_CLASS}" in hard for _, hard, scoped in limits if not scoped)
        ]
        for quota, hard, scoped in limits:
            limited = next((each for each in (resource, *record.foreign) if f"requests.{each}" in hard), None)
            if limited is None:
                continue
            # A quota counts the devices of a claim, never the amounts of another system.
            is_foreign = limited in record.foreign
            uncounted = (
                each for each in unlimited if scoped or is_foreign or not counts_as_resource(each, limited, view)
            )
            if (name := next(uncounted, None)) is None:
                continue
            key = f"requests.{limited}"
            yield Problem(
                path,
                f'is limited by ResourceQuota "{name_of(quota)}" ({key}: {hard[key]}), which does not count claims of '
                f'DeviceClass "{name}"',
                administrator=_quota_remedy(name, resource, view, scoped=scoped),
                severity=severity,
            )


def _quota_remedy(device_class: str, resource: str, view: ClusterView, *, scoped: bool) -> str:
    remedy = "limit the namespace by a GPUQuota and remove the limit from the ResourceQuota"
    parsed = parse_resource(resource)
    if scoped or parsed is None or parsed.mig or parsed.shared or device_class != GPU_CLASS:
        return remedy
    existing, counts = view.get("DeviceClass", device_class), f"Kubernetes {Feature.DRAExtendedResource.on_since}"
    if isinstance(existing, dict) and extended_resource_name(existing) == resource:
        return f"{remedy}, or upgrade the API server to {counts}, which counts them"
    return f"{remedy}, or set spec.extendedResourceName: {resource} on the DeviceClass {device_class} ({counts})"


@PODS.rule(
    "GA338",
    "ResourceQuotas must admit the claims of a converted pod",
    default=Severity.WARN,
    remedy="raise the limit of the ResourceQuota, or request fewer GPUs",
    source="k8s.io/kubernetes pkg/quota/v1/evaluator/core/resource_claims.go claimEvaluator.Usage; kubernetes/kubernetes issue 134210",
)
def admitted_claims(
    templates: Iterable[Template], candidate: ConversionCandidate, converted: Object
) -> Iterator[Problem]:
    """The claim of a converted pod is created after the pod.

    ResourceQuotas count it: by <class>.deviceclass.resource.k8s.io/devices, by
    count/resourceclaims.resource.k8s.io, and with the feature gate DRAExtendedResource by requests.nvidia.com/gpu if the
    DeviceClass carries that name. A quota that refuses the claim refuses no pod: the pod is admitted, and waits until there is
    room. Among files, the status of a quota says how much it counts already; in a cluster, the rule warns if the
    limit alone refuses the claim.
    """
    # The scheduler makes one more claim, for extended resources.
    claims = (Claim(each.manifest(), "ResourceClaimTemplate") for each in templates)
    path = next(iter(candidate.places.values()))
    for each in refused_claims(claims, converted, candidate.namespace, candidate.view, QuotaUse.SHOWN):
        text = f"becomes a claim that a ResourceQuota refuses, so the pod would be admitted and wait: {each.text}"
        yield Problem(path, text)
