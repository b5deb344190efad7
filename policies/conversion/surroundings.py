"""The objects on which a converted pod depends: DeviceClasses, its template, ResourceQuotas, nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.decision import Severity
from policies.dra.deviceclasses import GPU_CLASS, extended_resource_name
from policies.dra.native_quotas import QuotaUse, counts_as_resource, counts_pod, native_quotas, refused_claims
from policies.dra.resource_claims import Claim
from policies.dra.templates import without_nulls
from policies.fleet.dra_nodes import nodes_with_both, old_kubelets
from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import FieldPath, lookup
from policies.kubernetes.pods import SPEC
from policies.kubernetes.printable import printable
from policies.nvidia.resources import parse_resource
from policies.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.conversion.conversion import ConversionCandidate
    from policies.conversion.record import ConversionRecord
    from policies.decision import Finding, Template
    from policies.kubernetes.objects import Object
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView, Unknown

__all__ = ["REFUSED_CLAIM", "claim_refusals", "class_problems", "node_problems", "quota_problems", "template_problems"]

NO_CLASS = rule(
    "GA310",
    "The DeviceClass of a converted request must exist",
    default=Severity.DENY,
    why="""
    A claim of a class that does not exist keeps its pod Pending ("device class does not exist"). NVIDIA's DRA driver
    brings the classes gpu.nvidia.com and mig.nvidia.com; where they are missing, it is not installed.""",
    remedy="install NVIDIA's DRA driver, or remove the label gpu-admission.io/dra from the namespace",
    source="k8s.io/kubernetes pkg/scheduler/framework/plugins/dynamicresources PreFilter",
)


def class_problems(record: ConversionRecord, view: ClusterView, places: dict[str, FieldPath]) -> Iterator[Finding]:
    """Findings about missing DeviceClasses of the claim; `places` has the path of each resource."""
    for resource, path in places.items():
        name = record.device_class(resource)
        if view.get("DeviceClass", name) is None:
            yield NO_CLASS.finding(path, f'becomes a claim of DeviceClass "{name}", which does not exist')


FOREIGN_TEMPLATE = rule(
    "GA322",
    "A template that is named by its content must have that content",
    default=Severity.DENY,
    why="""
    Templates are named by a hash of their spec. One of this name with another spec was not written by gpu-admission, or
    was changed since; the pod would get devices that it did not request.""",
    remedy="delete the ResourceClaimTemplate; it is made again when a pod needs it",
    source="docs/conversion.md",
)


def template_problems(template: Template, view: ClusterView) -> Iterator[Finding]:
    """A finding if a template of this name has another spec."""
    existing = view.get("ResourceClaimTemplate", template.name, template.namespace)
    spec = existing.get("spec") if isinstance(existing, dict) else template.spec
    if spec != template.spec and without_nulls(spec) != template.spec:
        yield FOREIGN_TEMPLATE.finding(
            SPEC / "resourceClaims",
            f'needs the ResourceClaimTemplate "{template.name}", and the one that exists has another spec',
            f"delete it (kubectl -n {template.namespace} delete resourceclaimtemplate {template.name}); "
            "it is made again when a pod needs it",
        )


_MOST_NAMED = 3


OLD_KUBELET = rule(
    "GA336",
    "The kubelets of nodes with devices must read the claims that the API server serves",
    default=Severity.WARN,
    why="""
    Kubernetes 1.34 and later serve claims as resource.k8s.io/v1, and older versions of them only if the administrator
    enables these. A kubelet before 1.34 reads the older versions only. The scheduler does not know: the pod is bound, and
    its containers never start.""",
    remedy="upgrade the kubelets, or let kube-apiserver serve resource.k8s.io/v1beta1 and v1beta2 too (--runtime-config)",
    source="k8s.io/kubernetes pkg/kubelet/cm/dra; github.com/kubernetes-sigs/dra-driver-nvidia-gpu issue 766",
    shared_cause=True,
)

TWICE = rule(
    "GA314",
    "A node must hand out its GPUs by the device plugin or by DRA, not both",
    default=Severity.WARN,
    why="""
    Device plugin and DRA driver know nothing of each other. Where both run on a node, one GPU can be given to two pods
    at once.""",
    remedy="turn the device plugin off on these nodes (label nvidia.com/gpu.deploy.device-plugin=false)",
    source="github.com/NVIDIA/aicr issue 332; gpu-operator validation of ClusterPolicy and GPUCluster",
    shared_cause=True,
)


def node_problems(view: ClusterView, path: FieldPath) -> Iterator[Finding]:
    """Findings about nodes that hand out GPUs both ways, or whose kubelet cannot read claims."""
    if nodes := nodes_with_both(view):
        verb = "hands" if len(nodes) == 1 else "hand"
        text = f"{_node_names(nodes)} {verb} out the same GPUs by device plugin and by DRA; two pods could get one GPU"
        yield TWICE.finding(path, text)
    if kubelets := old_kubelets(view):
        nodes = tuple(each.node for each in kubelets)
        have = "has" if len(nodes) == 1 else "have"
        text = (
            f"{_node_names(nodes)} {have} kubelet {printable(kubelets[0].version)} or older, which does not read claims of "
            "resource.k8s.io/v1; a pod with a claim would not start there"
        )
        text = text.replace(" or older", "") if len(nodes) == 1 else text
        yield OLD_KUBELET.finding(path, text)


def _node_names(nodes: tuple[str, ...]) -> str:
    more = f" and {len(nodes) - _MOST_NAMED} more" if len(nodes) > _MOST_NAMED else ""
    return ", ".join(nodes[:_MOST_NAMED]) + more


NATIVE_QUOTA = rule(
    "GA312",
    "Conversion must not switch a ResourceQuota off",
    default=Severity.DENY,
    setting="conversion.nativeQuota",
    why="""
    A ResourceQuota on requests.nvidia.com/gpu counts what pods request by that name. A converted pod requests by a
    claim, which the quota counts only if the DeviceClass carries the name (spec.extendedResourceName) and the API server
    is 1.36 or newer, and never for quotas with scopes. Otherwise the namespace could take every GPU.""",
    remedy="limit the namespace by a GPUQuota and remove the ResourceQuota, or set extendedResourceName on the DeviceClass",
    source="k8s.io/kubernetes pkg/quota/v1/evaluator/core/resource_claims.go",
)


def quota_problems(
    record: ConversionRecord,
    view: ClusterView,
    namespace: str,
    places: dict[str, FieldPath],
    settings: GPUAdmissionPolicy,
    pod: Object | None = None,
) -> Iterator[Finding]:
    """Findings about ResourceQuotas that count a resource by name and would no longer count the pod.

    Quotas with scopes that the pod is not in are left out; without `pod`, all quotas count.
    """
    quotas = [each for each in native_quotas(namespace, view) if pod is None or counts_pod(each, pod)]
    severity = Severity(settings.conversion.native_quota)
    for resource, path in places.items():
        for quota in quotas:
            hard = lookup(quota, ("spec", "hard"))
            key = f"requests.{resource}"
            if not isinstance(hard, dict) or key not in hard:
                continue
            scoped = bool(lookup(quota, ("spec", "scopes")) or lookup(quota, ("spec", "scopeSelector")))
            if not scoped and counts_as_resource(record.device_class(resource), resource, view):
                continue
            name = record.device_class(resource)
            yield NATIVE_QUOTA.finding(
                path,
                f'is limited by ResourceQuota "{name_of(quota)}" ({key}: {hard[key]}), which does not count claims of '
                f'DeviceClass "{name}"',
                _quota_remedy(name, resource, view, scoped=scoped),
                severity=severity,
            )


def _quota_remedy(device_class: str, resource: str, view: ClusterView, *, scoped: bool) -> str:
    remedy = "limit the namespace by a GPUQuota and remove the limit from the ResourceQuota"
    parsed = parse_resource(resource)
    if scoped or parsed is None or parsed.mig or parsed.shared or device_class != GPU_CLASS:
        return remedy
    if _carries(view.get("DeviceClass", device_class), resource):
        return f"{remedy}, or upgrade the API server to Kubernetes 1.36, which counts them"
    return f"{remedy}, or set spec.extendedResourceName: {resource} on the DeviceClass {device_class} (Kubernetes 1.36)"


def _carries(device_class: Object | Unknown | None, resource: str) -> bool:
    return isinstance(device_class, dict) and extended_resource_name(device_class) == resource


REFUSED_CLAIM = rule(
    "GA338",
    "ResourceQuotas must admit the claims of a converted pod",
    default=Severity.WARN,
    why="""
    The claim of a converted pod is created after the pod. ResourceQuotas count it: by <class>.deviceclass.resource.k8s.io/devices,
    by count/resourceclaims.resource.k8s.io, and since Kubernetes 1.36 by requests.nvidia.com/gpu if the DeviceClass carries that
    name. A quota that refuses the claim refuses no pod: the pod is admitted, and waits until there is room. Among files,
    the status of a quota says how much it counts already; in a cluster, the rule warns if the limit alone refuses the
    claim.""",
    remedy="raise the limit of the ResourceQuota, or request fewer GPUs",
    source="k8s.io/kubernetes pkg/quota/v1/evaluator/core/resource_claims.go claimEvaluator.Usage; kubernetes/kubernetes issue 134210",
)


def claim_refusals(
    templates: Iterable[Template], candidate: ConversionCandidate, converted: Object
) -> Iterator[Finding]:
    """Findings about ResourceQuotas that refuse the claims of a converted pod.

    The claims are those from templates, and the one of the scheduler.
    """
    claims = (Claim(each.manifest(), "ResourceClaimTemplate") for each in templates)
    path = next(iter(candidate.places.values()))
    for each in refused_claims(claims, converted, candidate.namespace, candidate.view, QuotaUse.SHOWN):
        text = f"becomes a claim that a ResourceQuota refuses, so the pod would be admitted and wait: {each.text}"
        yield REFUSED_CLAIM.finding(path, text)
