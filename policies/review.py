"""The one decision function.

Importing it imports no room whose subject is not always asked about: the rules on configuration alone take longer to
import than an offline review of a pod takes. `load_rooms` imports all of them, for who cannot wait later.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from policies.conversion.opt_in import Mode, mode_of
from policies.conversion.rules import MALFORMED, NAMESPACE_UNKNOWN
from policies.decision import Decision, Severity
from policies.entries import CLAIM_KINDS, ENTRIES, NEVER_MATCHED, Entry
from policies.kubernetes.paths import FieldPath
from policies.kubernetes.pods import MalformedPodError, Pod
from policies.patch import Editor
from policies.placement import gets_gpu, tolerate_gpu_nodes
from policies.rules import rules_on_demand

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from policies.decision import Finding
    from policies.request import Request
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["entries_called", "load_rooms", "review"]


def review(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """Decide on a request: whether it may pass, as what, and what there is to say.

    With `request.entry`, answers as that webhook entry; the API server has decided by namespace and kind that it is
    the one to ask. Without, answers as all of them together: each entry that the API server would call, in its order,
    sees the object as the ones before left it.
    """
    if request.entry:
        return _REVIEWS[request.entry](request, view, settings)
    decision = Decision(object=request.object)
    for entry in entries_called(request, view):
        answer = _REVIEWS[entry.name](request.of(decision.object), view, settings)
        decision = _joined(decision, answer)
        if not decision.allowed:
            break
    else:
        findings = settings.judge(_unknown_namespace(request, view), request.namespace)
        decision = _joined(decision, Decision(findings=findings, object=decision.object))
    return decision if decision.allowed else replace(decision, patch=(), object=request.object, templates=())


def entries_called(request: Request, view: ClusterView) -> tuple[Entry, ...]:
    """The entries that the API server would call, in its order, by the rules and selectors of their webhooks."""
    if request.namespace in NEVER_MATCHED:
        return ()
    if (request.group, request.kind) == ("", "Node"):
        return (ENTRIES["nodes"],)
    if (request.group, request.kind) in CLAIM_KINDS:
        return (ENTRIES["claims"],) if request.operation != "DELETE" else ()
    if not _creates_pod(request):
        return (ENTRIES["configuration"],)
    mode = mode_of(request.namespace, view)
    names = {
        Mode.ENABLED: ("conversion", "placement", "conversion-check"),
        Mode.PREVIEW: ("preview", "placement"),
    }.get(mode, ("placement",))
    return tuple(entry for entry in ENTRIES.values() if entry.name in names)


@rules_on_demand
def load_rooms() -> None:
    """Import every room now, rather than with the first request that needs it."""
    import policies.configuration  # noqa: PLC0415 - see the module
    import policies.conversion.check  # noqa: PLC0415 - see the module
    import policies.dra.claims  # noqa: F401, PLC0415 - see the module


def _creates_pod(request: Request) -> bool:
    return (request.operation, request.group, request.kind, request.subresource) == ("CREATE", "", "Pod", "")


def _unknown_namespace(request: Request, view: ClusterView) -> Iterable[Finding]:
    if not _creates_pod(request) or mode_of(request.namespace, view) is not Mode.UNKNOWN:
        return
    try:
        pod = Pod.read(request.object)
    except MalformedPodError:
        return
    if gets_gpu(pod, request.namespace, view):
        yield NAMESPACE_UNKNOWN.finding(
            FieldPath(["metadata", "namespace"]),
            f'namespace "{request.namespace}" is in none of the files, so the pod is taken as not converted',
        )


def _for_pods(
    entry: Callable[[Pod, Request, ClusterView, GPUAdmissionPolicy], Decision],
) -> Callable[[Request, ClusterView, GPUAdmissionPolicy], Decision]:
    """An entry that reviews pods being created, and lets everything else pass."""

    def answer(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
        if not _creates_pod(request):
            return Decision(object=request.object)
        try:
            pod = Pod.read(request.object)
        except MalformedPodError as error:
            findings = [MALFORMED.finding(path, sentence) for path, sentence in error.problems]
            return Decision(findings=settings.judge(findings, request.namespace), object=request.object)
        return entry(pod, request, view, settings)

    return answer


def _conversion(pod: Pod, request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    from policies.conversion.convert import convert  # noqa: PLC0415 - see the module

    conversion = convert(pod, request.namespace, view, settings)
    if conversion.obstacles:
        findings = settings.judge(conversion.obstacles, request.namespace)
        told = findings if conversion.repeated else tuple(map(_left_alone, findings))
        return Decision(findings=told, object=request.object)
    decision = Decision(findings=settings.judge(conversion.notices, request.namespace), object=request.object)
    if conversion.edits is None or not decision.allowed:
        return decision
    edits = conversion.edits
    if conversion.template is not None:
        tolerate_gpu_nodes(pod, edits)
    templates = (conversion.template,) if conversion.template else ()
    annotations = {"template": conversion.template.name} if conversion.template else {}
    return replace(
        decision,
        patch=tuple(edits.operations),
        object=edits.document,
        templates=templates,
        annotations=annotations,
    )


def _left_alone(obstacle: Finding) -> Finding:
    """What stands in the way of a conversion and refuses nothing leaves the pod as it is, and says so."""
    if obstacle.severity is Severity.DENY:
        return obstacle
    return replace(obstacle, message=f"{obstacle.message}, so the pod is not converted")


def _preview(pod: Pod, request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """What conversion would do, as warnings; nothing is changed and nothing refused."""
    would = _conversion(pod, request, view, settings)
    said = [
        replace(finding, severity=Severity.WARN, message=f"would be refused: {finding.message}")
        if finding.severity is Severity.DENY
        else finding
        for finding in would.findings
    ]
    remarks = [
        f"would be converted to ResourceClaimTemplate {template.name}: "
        + ", ".join(
            f"{request['exactly']['count']} x {request['exactly']['deviceClassName']} ({request['name']})"
            for request in template.spec["spec"]["devices"]["requests"]
        )
        for template in would.templates
        if would.patch
    ]
    return Decision(findings=tuple(said), object=request.object, remarks=tuple(remarks))


def _placement(pod: Pod, request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    edits = Editor(request.object)
    if not pod.past_scheduling and gets_gpu(pod, request.namespace, view):
        tolerate_gpu_nodes(pod, edits)
    return Decision(patch=tuple(edits.operations), object=edits.document)


def _conversion_check(pod: Pod, request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    from policies.conversion.check import check  # noqa: PLC0415 - see the module

    findings = settings.judge(check(pod, request.namespace, view, settings), request.namespace)
    return Decision(findings=findings, object=request.object)


def _configuration(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """Configuration of GPU clusters: findings only; nothing of it is ever changed."""
    from policies.configuration import lenient, validate  # noqa: PLC0415 - see the module

    if request.subresource:
        return Decision(object=request.object)
    findings = settings.judge(validate(request, view, settings), request.namespace)
    return Decision(findings=tuple(lenient(finding, request, view) for finding in findings), object=request.object)


def _claims(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """Claims, templates, DeviceClasses and ComputeDomains: findings only."""
    from policies.dra.claims import validate  # noqa: PLC0415 - see the module

    if request.subresource or request.operation == "DELETE":
        return Decision(object=request.object)
    return Decision(
        findings=settings.judge(validate(request, view, settings), request.namespace), object=request.object
    )


_REVIEWS = {
    "conversion": _for_pods(_conversion),
    "preview": _for_pods(_preview),
    "placement": _for_pods(_placement),
    "conversion-check": _for_pods(_conversion_check),
    "claims": _claims,
    "configuration": _configuration,
    "nodes": _configuration,
}


def _joined(first: Decision, then: Decision) -> Decision:
    """The decision of two entries asked one after the other."""
    return Decision(
        findings=tuple(dict.fromkeys((*first.findings, *then.findings))),
        patch=(*first.patch, *then.patch),
        object=then.object,
        remarks=tuple(dict.fromkeys((*first.remarks, *then.remarks))),
        templates=(*first.templates, *then.templates),
        annotations={**first.annotations, **then.annotations},
    )
