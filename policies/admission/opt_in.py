"""The concern opt-in: what conversion would do to the workloads of a namespace that chooses it.

The label of a namespace decides about pods that are created later, so refusals would show only in the events of controllers.
Here the user who sets the label sees them. Nothing is changed, and nothing is refused.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from policies.admission.pod_forms import as_created, common_part, controller_label, form_of, slim_pod
from policies.admission.severities import finish
from policies.admission.workload_templates import templates_of
from policies.conversion.converted_pods import RECORD_PATH, conversion_record
from policies.conversion.exemptions import strategy_of
from policies.conversion.preemption import no_lost_preemption
from policies.conversion.strategies import reported_choice
from policies.fleet import RequestKind, extended_requests, may_request_gpu
from policies.kubernetes.bounds import check_cancelled, count_work
from policies.kubernetes.names import DRA_LABEL, STRATEGY_LABEL, format_count, format_list
from policies.kubernetes.objects import FieldPath, controller_of, has_ended, lookup, name_of
from policies.kubernetes.pod_templates import pod_of, with_defaults
from policies.kubernetes.pods import MalformedPodError, Pod
from policies.kubernetes.view import UNKNOWN, ChangedView
from policies.kubernetes.workloads import group_of, has_finished
from policies.nvidia.identifiers import GPU_RESOURCE
from policies.rules.decision import Decision
from policies.rules.request import Request
from policies.rules.settings.choices import workload_kinds
from policies.rules.settings.exemptions import exemption_in_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.rules.decision import Finding
    from policies.rules.settings import GPUAdmissionPolicy


MOST_FORMS = 200
"""Maximum forms of pods that are converted for one answer."""
_WORK_PER_LOOK = 5
_WORK_PER_POD = 50
_WORK_PER_FORM = 1000
"""Units of work of a conversion, which takes about a millisecond."""
_MOST_OWNERS = 5
"""Controllers above a pod that are followed: Deployment, ReplicaSet, pod are two."""
_NEEDED_KINDS = ("Pod", "Node", "DeviceClass", "ResourceSlice")
"""The kinds without which the answer would be a guess."""
_LABELS = FieldPath(["metadata", "labels"])
_SAMPLE: Object = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "sample"},
    "spec": {
        "containers": [{"name": "main", "resources": {"limits": {GPU_RESOURCE: 1}, "requests": {GPU_RESOURCE: 1}}}]
    },
}


class ConversionResult(Enum):
    """The result of conversion for a pod in a namespace that converts."""

    CONVERTED = "converted"
    UNNEEDED = "unneeded"
    """The pod stays as it is and gets its GPUs by DRA: a DeviceClass stands for the resource that it requests."""
    DEVICE_PLUGIN = "device plugin"
    """The pod stays as it is and gets its GPUs from the device plugin."""
    REFUSED = "refused"


_UNCONVERTED = {ConversionResult.DEVICE_PLUGIN: "stay with the device plugin", ConversionResult.REFUSED: "be refused"}


class ExpectedConversion(NamedTuple):
    """The result of converting an existing pod."""

    result: ConversionResult
    findings: tuple[Finding, ...]
    """The reasons why the pod is refused or not converted, or its losses by conversion."""


def expected_conversion(
    pod: Object, namespace: str, view: ClusterView, settings: GPUAdmissionPolicy
) -> ExpectedConversion:
    """The conversion of a pod as at its creation by a controller, whatever the label of its namespace."""
    from policies.admission.conversion import conversion

    request = Request(pod, namespace=namespace)
    decision = finish("conversion", conversion(request, view, settings), request, settings)
    if not decision.allowed:
        return ExpectedConversion(ConversionResult.REFUSED, decision.denials)
    if decision.patch:
        lost = tuple(finding for finding in decision.findings if finding.rule is no_lost_preemption.rule)
        return ExpectedConversion(ConversionResult.CONVERTED, lost)
    leaves = strategy_of(namespace, view) in ("leave", "auto")
    if leaves and all(finding.rule is reported_choice.rule for finding in decision.findings):
        return ExpectedConversion(ConversionResult.UNNEEDED, ())
    return ExpectedConversion(ConversionResult.DEVICE_PLUGIN, decision.findings)


def requests_device_plugin(pod: Object, view: ClusterView) -> bool:
    """True if a pod of any shape requests a resource of the device plugin."""
    return any(each.kind is RequestKind.DEVICE_PLUGIN for each in extended_requests(pod, view))


def is_converted(pod: Object) -> bool:
    """True if a pod was converted, as far as its marks prove it."""
    if lookup(pod, RECORD_PATH) is None:
        return False
    try:
        return conversion_record(Pod.read(pod)) is not None
    except MalformedPodError:
        return False


def opt_in(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """Warnings at the label of a namespace that chooses conversion, or another strategy of it.

    If all would be converted, a remark says how many there are; files show each of them as converted.
    """
    from policies.admission.namespaces import StoppedWorkloads, converting_workloads

    document, unchanged = request.object, Decision(object=request.object)
    if request.operation not in ("CREATE", "UPDATE") or request.subresource or not isinstance(document, dict):
        return unchanged
    label, name = _changed_label(request, view), name_of(document)
    is_gone = lookup(document, ("metadata", "deletionTimestamp")) is not None
    if not label or is_gone or exemption_in_cluster("conversion", name, settings):
        return unchanged
    unknown = [kind for kind in _NEEDED_KINDS if request.entry and view.list(kind) is UNKNOWN]
    if unknown:
        text = f"what {label} would do was not checked, because these are unknown now: {format_list(unknown)}"
        return Decision(object=document, remarks=(text,))
    forecast = _Forecast()
    after = ChangedView(view, {("Namespace", "", name): document})
    # A new namespace has no workloads. Those of an existing one are not shown to users who may only create namespaces.
    is_new = request.entry and request.operation == "CREATE"
    for pod, workload in () if is_new else _gpu_pods(name, after, settings):
        forecast.add(pod, workload, name, after, settings)
    if not forecast.results:
        forecast.add_sample(name, after, settings)
    says_all = request.entry and forecast.results and not forecast.reasons
    remarks = (forecast.summary,) if says_all else ()
    stopped = []
    for (_, result), workloads in sorted(forecast.reasons.items(), key=lambda reason: -len(reason[1])):
        first, finding = next(iter(workloads.items()))
        stopped.append(StoppedWorkloads(first, finding, len(workloads), result is ConversionResult.REFUSED))
    is_preview = lookup(document, _LABELS / DRA_LABEL) == "preview"
    findings = tuple(converting_workloads(_LABELS / label, forecast.summary, stopped, is_preview=is_preview))
    return Decision(findings=findings, object=document, remarks=remarks)


def _changed_label(request: Request, view: ClusterView) -> str:
    """The label by which a namespace newly chooses conversion or its strategy; empty if there is none."""
    before, name = request.old_object, name_of(request.object or {})
    if before is None and not request.entry:
        stored = view.list_before_review("Namespace")
        before = next((each for each in ([] if stored is UNKNOWN else stored) if name_of(each) == name), None)
    if lookup(request.object, _LABELS / DRA_LABEL) not in ("enabled", "preview"):
        return ""
    changed = (
        label
        for label in (DRA_LABEL, STRATEGY_LABEL)
        if lookup(request.object, _LABELS / label) != lookup(before, _LABELS / label)
    )
    return next(changed, "")


@dataclass(slots=True)
class _Forecast:
    """The expected conversions of the workloads of a namespace."""

    results: dict[str, ConversionResult] = field(default_factory=dict)
    """The worst of each workload, by kind and name."""
    is_cut: bool = False
    """True if there are more forms of pods than are converted."""
    reasons: dict[tuple[str, ConversionResult], dict[str, Finding]] = field(default_factory=dict)
    """The workloads that a rule keeps from conversion, each with its first finding, by rule and result."""
    _by_form: dict[bytes, ExpectedConversion] = field(default_factory=dict)

    def add(self, pod: Object, workload: str, namespace: str, view: ClusterView, settings: GPUAdmissionPolicy) -> None:
        """Add a pod of a workload, unless it is of a new form beyond the maximum."""
        count_work(_WORK_PER_POD)
        form = form_of(common_part(pod))
        if form not in self._by_form:
            if len(self._by_form) == MOST_FORMS:
                self.is_cut = True
                return
            count_work(_WORK_PER_FORM)
            if is_converted(pod):
                self._by_form[form] = ExpectedConversion(ConversionResult.CONVERTED, ())
            else:
                self._by_form[form] = expected_conversion(pod, namespace, view, settings)
        expected = self._by_form[form]
        known = self.results.get(workload)
        if known is None or [*ConversionResult].index(known) < [*ConversionResult].index(expected.result):
            self.results[workload] = expected.result
        self._add_reasons(expected, workload)

    def add_sample(self, namespace: str, view: ClusterView, settings: GPUAdmissionPolicy) -> None:
        """Add the reasons that stop a pod with one GPU, of a namespace that has no workloads yet."""
        self._add_reasons(expected_conversion(_SAMPLE, namespace, view, settings), "")

    def _add_reasons(self, expected: ExpectedConversion, workload: str) -> None:
        for finding in expected.findings if expected.result in _UNCONVERTED else ():
            self.reasons.setdefault((finding.rule.id, expected.result), {}).setdefault(workload, finding)

    @property
    def summary(self) -> str:
        """The number of workloads with each result; empty if there are none."""
        if not self.results:
            return ""
        counts = Counter(self.results.values())
        converted = counts[ConversionResult.CONVERTED] + counts[ConversionResult.UNNEEDED]
        parts = [f"{converted:,} would be converted" if converted else "none would be converted"]
        for result, becomes in _UNCONVERTED.items():
            parts += [f"{counts[result]:,} would {becomes}"] if counts[result] else []
        least = "at least " if self.is_cut else ""
        total = len(self.results)
        verb = "requests" if total == 1 else "request"
        return f"{least}{format_count(total, 'workload')} of this namespace {verb} GPUs: {format_list(parts)}"


def _gpu_pods(namespace: str, view: ClusterView, settings: GPUAdmissionPolicy) -> Iterator[tuple[Object, str]]:
    """The pods of a namespace that request GPUs of the device plugin, each with its workload.

    These are the pods of the templates of known workloads, and all other pods with their controllers.
    """
    workloads = {
        (document["kind"], name_of(document)): document
        for group, kind in workload_kinds(settings)
        for document in view.known_or_reviewed(kind, namespace)
        if group_of(document) == group and not has_finished(document)
    }
    templates = {key: templates_of(document, view, settings) for key, document in workloads.items()}
    found: defaultdict[str, list[Object]] = defaultdict(list)
    for key, document in workloads.items():
        if not _has_known_owner(document, workloads, templates):
            label = " ".join(key)
            found[label] += [
                slim_pod(pod_of(with_defaults(each.template), document, namespace)) for each in templates[key]
            ]
    for pod in view.known_or_reviewed("Pod", namespace):
        count_work(_WORK_PER_LOOK)
        check_cancelled()
        is_gone = has_ended(pod) or lookup(pod, ("metadata", "deletionTimestamp")) is not None
        if not is_gone and may_request_gpu(pod) and not _has_known_owner(pod, workloads, templates):
            found[controller_label(pod) or f"Pod {name_of(pod)}"].append(slim_pod(with_defaults(as_created(pod))))
    for workload, pods in sorted(found.items()):
        for pod in pods:
            if may_request_gpu(pod) and (is_converted(pod) or requests_device_plugin(pod, view)):
                yield pod, workload


_Key = tuple[str, str]
"""Kind and name of a workload."""


def _has_known_owner(
    document: Object, workloads: Mapping[_Key, Object], templates: Mapping[_Key, Sequence[object]]
) -> bool:
    """True if a controller above an object is a workload that shows its pods."""
    for _ in range(_MOST_OWNERS):
        owner = controller_of(document)
        if owner is None:
            return False
        key = str(owner.get("kind")), str(owner.get("name"))
        if key not in workloads or group_of(workloads[key]) != group_of(owner):
            return False
        if templates[key]:
            return True
        document = workloads[key]
    return False
