"""Pods under review: the kind of request, and the checks at the beginning of every review of a pod."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING

from policies.conversion.exemptions import NAMESPACE, Mode, mode_of
from policies.conversion.gpu_amounts import equal_amounts, read_amounts, whole_amounts
from policies.fleet import may_request_gpu, probably_gets_gpu
from policies.kubernetes.names import MANAGED, RECORD
from policies.kubernetes.objects import lookup
from policies.kubernetes.pod_templates import with_defaults
from policies.kubernetes.pods import MalformedPodError, Pod
from policies.nvidia.pod_conditions import REQUESTS_NVIDIA_DEVICES
from policies.rules.checks import PODS, Problem
from policies.rules.decision import Decision, Severity
from policies.rules.settings.exemptions import NEVER_MATCHED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from policies.kubernetes.pod_validation import FieldProblem
    from policies.kubernetes.view import ClusterView
    from policies.rules.decision import Finding
    from policies.rules.request import Request
    from policies.rules.settings import GPUAdmissionPolicy


def creates_pod(request: Request) -> bool:
    """True if a pod is created."""
    return (request.operation, request.group, request.kind, request.subresource) == ("CREATE", "", "Pod", "")


def updates_pod(request: Request) -> bool:
    """True if a pod is updated, other than by a subresource such as its status."""
    return (request.operation, request.group, request.kind, request.subresource) == ("UPDATE", "", "Pod", "")


def reapplies_pod(request: Request) -> bool:
    """True if the spec of a pod with our mark changes, unless the pod is being deleted.

    The selectors and conditions of the webhook are the same. The label may be in either form of the pod, because any user
    can remove it.
    """
    forms = (request.object, request.old_object)
    return (
        updates_pod(request)
        and any(lookup(form, ("metadata", "labels", MANAGED)) == "true" for form in forms)
        and lookup(request.old_object, ("spec",)) != lookup(request.object, ("spec",))
        and lookup(request.object, ("metadata", "deletionTimestamp")) is None
    )


def is_being_converted(request: Request, view: ClusterView) -> bool:
    """True if a pod with a record of conversion is being created in a namespace that converts."""
    record = lookup(request.object, ("metadata", "annotations", RECORD))
    return record is not None and creates_pod(request) and mode_of(request.namespace, view) is Mode.ENABLED


def is_of_mode(request: Request, mode: Mode, view: ClusterView) -> bool:
    """True if the pod is one that conversion reviews, in a namespace of this mode.

    The API server calls `enforce-converted-pods` only in namespaces that convert, and sees their labels before a cache does.
    """
    if not REQUESTS_NVIDIA_DEVICES.holds(request.object):
        return False
    is_certain = mode is Mode.ENABLED and request.entry == "enforce-converted-pods"
    return is_certain or mode_of(request.namespace, view) is mode


@PODS.rule(
    "GA324",
    "The namespace of a pod must be known",
    default=Severity.WARN,
    remedy="add the Namespace to the files, or give the cluster's with --cluster",
    source="docs/conversion.md",
    shared_cause=True,
)
def known_namespace(request: Request, view: ClusterView) -> Iterator[Problem]:
    """Conversion is chosen by a label on the namespace.

    Offline, the namespace may be in none of the files; the pod is then reviewed as if it did not convert, which may
    not be what the cluster will do.
    """
    if not creates_pod(request) or mode_of(request.namespace, view) is not Mode.UNKNOWN:
        return
    try:
        pod = request.pod
    except MalformedPodError:
        return
    if probably_gets_gpu(pod.document, request.namespace, view):
        text = f'namespace "{request.namespace}" is in none of the files, so the pod is reviewed as not converted'
        yield Problem(NAMESPACE, text)


def refused_amounts(request: Request, view: ClusterView) -> Iterable[Finding]:
    """Amounts of GPUs that the API server would refuse, of pods in namespaces that do not convert.

    For reviews of files and of workloads. The API server itself checks the amounts after it calls webhooks.
    """
    if not creates_pod(request) or request.namespace in NEVER_MATCHED:
        return
    if mode_of(request.namespace, view) not in (Mode.OFF, Mode.UNKNOWN):
        return
    if request.object is None or not may_request_gpu(request.object):
        return
    try:
        pod = Pod.read(with_defaults(request.object))
    except MalformedPodError:
        return
    yield from (
        finding for finding in read_amounts(pod).findings if finding.rule in (whole_amounts.rule, equal_amounts.rule)
    )


@PODS.rule(
    "GA301",
    "A pod must have the shape that Kubernetes defines",
    remedy="correct the manifest",
    source="k8s.io/api/core/v1/types.go",
)
def well_formed_pod(error: MalformedPodError) -> Iterator[Problem]:
    """The API server checks the shape of a pod before it calls a webhook.

    A manifest on disk is not checked. A malformed pod cannot be converted, and `kubectl apply` would be refused anyway.
    """
    for path, message, remedy in error.problems:
        yield Problem(path, message, remedy)


@PODS.rule(
    "GA711",
    "Fields of a pod around its devices must be ones that the API server accepts",
    remedy="correct the field",
    source="k8s.io/kubernetes pkg/apis/core/validation/validation.go validatePodResourceClaims, validateResourceRequirements,"
    " ValidateTolerations, ValidateNodeSelectorRequirement; pkg/apis/apps/validation and pkg/apis/batch/validation",
)
def accepted_fields(found: Iterable[FieldProblem]) -> Iterator[Problem]:
    """Kubectl refuses a field that does not exist, and the API server a claim that is declared nowhere.

    A review of files is often made where no API server answers, and a GPU that is requested at the wrong place is no
    request at all: other clients than kubectl drop the field, and the pod runs without a GPU. Only fields around devices
    are checked: resources, claims, tolerations, node selectors, node affinity, and the selector and restart policy of a
    workload that requests GPUs. For all others use a validator of whole schemas, such as kubeconform.
    """
    for each in found:
        yield Problem(each.path, each.message, each.remedy)


def review_created_pod(
    judge: Callable[[Pod, Request, ClusterView, GPUAdmissionPolicy], Decision],
) -> Callable[[Request, ClusterView, GPUAdmissionPolicy], Decision]:
    """Decorate the rules of a concern that reviews new pods; all other requests pass."""

    @wraps(judge)
    def answer(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
        if not creates_pod(request):
            return Decision(object=request.object)
        try:
            pod = request.pod
        except MalformedPodError as error:
            return Decision(findings=tuple(well_formed_pod(error)), object=request.object)
        return judge(pod, request, view, settings)

    return answer
