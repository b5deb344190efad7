"""Entries for pods: what converts, places and checks them."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from policies.causes import without_repeats
from policies.conversion.gpu_amounts import AMOUNT, UNEQUAL, read_amounts
from policies.conversion.opt_in import NAMESPACE_UNKNOWN, Mode, mode_of
from policies.decision import Decision, Severity
from policies.fleet import may_request_gpu, probably_gets_gpu
from policies.kubernetes.defaults import with_defaults
from policies.kubernetes.paths import FieldPath, lookup
from policies.kubernetes.pods import MalformedPodError, Pod
from policies.metadata_keys import MANAGED, RECORD
from policies.nvidia.resources import IMPLICIT_PREFIX
from policies.patch import Editor
from policies.placement import keep_tolerations, tolerate_gpu_nodes
from policies.rules import rule
from policies.settings.exempt_namespaces import NEVER_MATCHED
from policies.view import PassingView

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from policies.decision import Finding, Template
    from policies.kubernetes.objects import Object
    from policies.request import Request
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView, Unknown

__all__ = [
    "access",
    "conversion",
    "conversion_check",
    "creates_pod",
    "debugs_pod",
    "placement",
    "preview",
    "reapplies_pod",
    "reapply",
    "refused_amounts",
    "unknown_namespace",
    "updates_pod",
]


def creates_pod(request: Request) -> bool:
    """Whether a pod is being created."""
    return (request.operation, request.group, request.kind, request.subresource) == ("CREATE", "", "Pod", "")


def debugs_pod(request: Request) -> bool:
    """Whether a pod that exists is given ephemeral containers."""
    return (request.group, request.kind, request.subresource) == ("", "Pod", "ephemeralcontainers")


def updates_pod(request: Request) -> bool:
    """Whether a pod that exists is changed, its status and other subresources left out."""
    return (request.operation, request.group, request.kind, request.subresource) == ("UPDATE", "", "Pod", "")


def reapplies_pod(request: Request) -> bool:
    """Whether the spec of a pod that we marked changes; nothing is done to one that is being deleted.

    The selectors and conditions of the webhook say the same: the label is looked for in both forms of the pod, because
    anybody can take it away.
    """
    forms = (request.object, request.old_object)
    return (
        updates_pod(request)
        and any(lookup(form, ("metadata", "labels", MANAGED)) == "true" for form in forms)
        and lookup(request.old_object, ("spec",)) != lookup(request.object, ("spec",))
        and lookup(request.object, ("metadata", "deletionTimestamp")) is None
    )


def unknown_namespace(request: Request, view: ClusterView) -> Iterable[Finding]:
    """A word where nobody knows whether the pod's namespace converts."""
    if not creates_pod(request) or mode_of(request.namespace, view) is not Mode.UNKNOWN:
        return
    try:
        pod = Pod.read(request.object)
    except MalformedPodError:
        return
    if probably_gets_gpu(pod.document, request.namespace, view):
        yield NAMESPACE_UNKNOWN.finding(
            FieldPath(["metadata", "namespace"]),
            f'namespace "{request.namespace}" is in none of the files, so the pod is taken as not converted',
        )


def refused_amounts(request: Request, view: ClusterView) -> Iterable[Finding]:
    """Amounts of GPUs that the API server would refuse, of pods in namespaces that do not convert.

    It asks webhooks before it checks amounts, so only reviews of files, and of what will make pods, need to tell.
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
    yield from (finding for finding in read_amounts(pod).findings if finding.rule in (AMOUNT, UNEQUAL))


MALFORMED = rule(
    "GA301",
    "A pod must have the shape that Kubernetes defines",
    default=Severity.DENY,
    why="""
    The API server checks the shape of a pod before it asks any webhook; a manifest on disk has been checked by nobody.
    What cannot be read cannot be converted, and would be refused on `kubectl apply` anyway.""",
    remedy="correct the manifest",
    source="k8s.io/api/core/v1/types.go",
)


def _for_pods(
    entry: Callable[[Pod, Request, ClusterView, GPUAdmissionPolicy], Decision],
) -> Callable[[Request, ClusterView, GPUAdmissionPolicy], Decision]:
    """An entry that reviews pods being created, and lets everything else pass."""

    def answer(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
        if not creates_pod(request):
            return Decision(object=request.object)
        try:
            pod = Pod.read(request.object)
        except MalformedPodError as error:
            findings = [MALFORMED.finding(path, sentence) for path, sentence in error.problems]
            return Decision(findings=settings.judge(findings, request.namespace), object=request.object)
        return entry(pod, request, view, settings)

    return answer


def _conversion(pod: Pod, request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    from policies.conversion.convert import convert  # noqa: PLC0415 - see policies.review
    from policies.conversion.satisfaction import UNSATISFIABLE  # noqa: PLC0415 - see policies.review
    from policies.placement.place import own_conditions  # noqa: PLC0415 - see policies.review
    from policies.placement.selector_misspellings import selector_misspellings  # noqa: PLC0415 - see policies.review
    from policies.placement.wishes import read_wishes, wish_problems  # noqa: PLC0415 - see policies.review
    from policies.placement.wishes.conflicts import IMPOSSIBLE  # noqa: PLC0415 - see policies.review

    asked = read_wishes(pod, request.namespace, view, settings)
    own = own_conditions(pod, view, settings, asked)
    conversion = convert(pod, request.namespace, view, settings, asked.wish, own)
    if conversion.obstacles:
        findings = settings.judge(conversion.obstacles, request.namespace)
        told = findings if conversion.repeated else tuple(map(_left_alone, findings))
        return Decision(findings=told, object=request.object)
    notices = conversion.notices
    if conversion.record is not None and not conversion.repeated:
        problems = tuple(wish_problems(pod, request.namespace, view, asked))
        if any(problem.rule in IMPOSSIBLE for problem in problems):
            # No device will ever be as wished, so there is nothing to wait for.
            notices = tuple(notice for notice in notices if notice.rule is not UNSATISFIABLE)
        notices = (*asked.findings, *problems, *notices)
        is_matched = all(notice.rule is not UNSATISFIABLE for notice in notices)
        notices = (*selector_misspellings(pod, view, keys_only=is_matched), *notices)
    findings = without_repeats(settings.judge(notices, request.namespace), request.object)
    decision = Decision(findings=findings, object=request.object)
    if conversion.edits is None or not decision.allowed:
        return decision
    edits = conversion.edits
    if conversion.record is not None:
        tolerate_gpu_nodes(pod, edits, request.namespace, settings)
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
    """What conversion would do, as warnings; nothing is changed and nothing refused.

    What is wrong with a wish is left to `placement`, which is asked about the same pod and says it as it is there.
    """
    from policies.placement.place import own_conditions  # noqa: PLC0415 - see policies.review
    from policies.placement.wishes import read_wishes  # noqa: PLC0415 - see policies.review

    own = own_conditions(pod, view, settings, read_wishes(pod, request.namespace, view, settings))
    would = _conversion(own, request.of(own.document), view, settings)
    said = [
        replace(finding, severity=Severity.WARN, message=f"would be refused: {finding.message}")
        if finding.severity is Severity.DENY
        else finding
        for finding in would.findings
        if finding.rule.subject != "placement"
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
    if would.patch and not would.templates:
        remarks = [f"would be renamed: {told}" for told in _new_names(would.object)]
    return Decision(findings=tuple(said), object=request.object, remarks=tuple(remarks))


def _new_names(document: Any) -> Iterator[str]:
    """The new names of a renamed pod's resources, as its record tells them."""
    from policies.conversion.record import ConversionRecord  # noqa: PLC0415 - see policies.review

    asked = ConversionRecord.parse(lookup(document, ("metadata", "annotations", RECORD)) or "")
    for resource, name in asked.classes.items() if asked is not None else ():
        yield f"{resource} to {IMPLICIT_PREFIX}{name}"


def _placement(pod: Pod, request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    from policies.placement.wishes import has_annotations  # noqa: PLC0415 - see policies.review

    if pod.past_scheduling or not (may_request_gpu(pod.document) or has_annotations(pod)):
        return Decision(object=request.object)
    edits = Editor(request.object)
    judged = settings.judge(_placed(pod, request, view, settings, edits), request.namespace)
    findings = without_repeats(judged, request.object)
    if probably_gets_gpu(pod.document, request.namespace, view):
        tolerate_gpu_nodes(pod, edits, request.namespace, settings)
    decision = Decision(findings=findings, patch=tuple(edits.operations), object=edits.document)
    return decision if decision.allowed else Decision(findings=findings, object=request.object)


def _placed(
    pod: Pod, request: Request, view: ClusterView, settings: GPUAdmissionPolicy, edits: Editor
) -> Iterable[Finding]:
    """What a pod wishes of its node, unless its claim says so already."""
    from policies.placement.place import place  # noqa: PLC0415 - see policies.review
    from policies.placement.resources.findings import node_findings  # noqa: PLC0415 - see policies.review
    from policies.placement.selector_misspellings import selector_misspellings  # noqa: PLC0415 - see policies.review
    from policies.placement.wishes import read_wishes  # noqa: PLC0415 - see policies.review

    if not _is_converted(pod, request.namespace):
        asked = read_wishes(pod, request.namespace, view, settings)
        yield from place(pod, request.namespace, view, settings, asked, edits)
        yield from node_findings(replace(pod, document=edits.document), request.namespace, view, settings)
        yield from selector_misspellings(pod, view)


def _is_converted(pod: Pod, namespace: str) -> bool:
    if RECORD not in pod.annotations:
        return False
    from policies.conversion.converted_pods import conversion_record  # noqa: PLC0415 - see policies.review

    return conversion_record(pod, namespace) is not None


def _conversion_check(pod: Pod, request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    from policies.conversion.check import check  # noqa: PLC0415 - see policies.review
    from policies.placement.place import own_conditions  # noqa: PLC0415 - see policies.review
    from policies.placement.wishes import read_wishes  # noqa: PLC0415 - see policies.review

    asked = read_wishes(pod, request.namespace, view, settings)
    own = own_conditions(pod, view, settings, asked)
    findings = check(pod, request.namespace, view, settings, asked.wish, own)
    return Decision(findings=settings.judge(findings, request.namespace), object=request.object)


conversion = _for_pods(_conversion)
preview = _for_pods(_preview)
placement = _for_pods(_placement)
conversion_check = _for_pods(_conversion_check)


def reapply(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """Converted pods whose manifest is applied again: they stay as they were converted."""
    unchanged = Decision(object=request.object)
    if not reapplies_pod(request):
        return unchanged
    from policies.conversion.converted_pods import conversion_record  # noqa: PLC0415 - see policies.review
    from policies.conversion.reapply import reapply as reapplied  # noqa: PLC0415 - see policies.review

    try:
        pod, stored = Pod.read(request.object), Pod.read(request.old_object)
    except MalformedPodError:
        return unchanged
    asked = conversion_record(stored, request.namespace)
    if asked is None:
        return unchanged
    answer = reapplied(pod, stored, asked)
    if answer.restored:
        keep_tolerations(pod, stored, answer.edits, request.namespace, settings)
    decision = Decision(findings=settings.judge(answer.findings, request.namespace), object=request.object)
    if not decision.allowed:
        return decision
    return replace(decision, patch=tuple(answer.edits.operations), object=answer.edits.document)


def access(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """Containers that take GPUs behind the scheduler's back: of new pods, and those that debug a running one.

    It reads what it needs of a pod of any shape, and leaves it to `placement` to tell what is malformed.
    """
    from policies.access import validate  # noqa: PLC0415 - see policies.review

    seen = _WithTemplate(request, view, settings) if _is_being_converted(request, view) else view
    findings = settings.judge(validate(request, seen, settings), request.namespace)
    return Decision(findings=findings, object=request.object)


def _is_being_converted(request: Request, view: ClusterView) -> bool:
    record = lookup(request.object, ("metadata", "annotations", RECORD))
    return record is not None and creates_pod(request) and mode_of(request.namespace, view) is Mode.ENABLED


class _WithTemplate(PassingView):
    """The cluster with the template of a pod that is being converted: a cache may not show it yet, and files never do."""

    def __init__(self, request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> None:
        super().__init__(view)
        self._request = request
        self._settings = settings

    def get(self, kind: str, name: str, namespace: str = "") -> Object | Unknown | None:
        found = super().get(kind, name, namespace)
        if kind != "ResourceClaimTemplate" or isinstance(found, dict):
            return found
        made = {each.name: each for each in self._made}
        return made[name].manifest() if name in made else found

    @cached_property
    def _made(self) -> tuple[Template, ...]:
        """What conversion makes for the pod, which tells a forged record from its own."""
        return conversion(self._request, self._view, self._settings).templates
