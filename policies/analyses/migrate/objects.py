"""Migrated objects, and the controllers that read `nvidia.com/gpu` in their manifests.

docs/neighbours.md and `policies.kubernetes.neighbours` name their sources.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from policies.admission import review_concern, templates_of, unread_pods
from policies.conversion.converted_pods import MARKS, conversion_record
from policies.conversion.gpu_amounts import gpu_resources, requests_gpus
from policies.devices.resource_claims import Claim
from policies.kubernetes.names import DRA_LABEL, PREFIX, STRATEGY_LABEL
from policies.kubernetes.neighbours import GROVE, KSERVE, KUBERAY, KUEUE, QUEUE
from policies.kubernetes.objects import FieldPath, generate_name_of, items_at, lookup, mapping_at, name_of, namespace_of
from policies.kubernetes.pod_templates import created_pod, pod_of, template_of
from policies.kubernetes.pods import SPEC
from policies.kubernetes.quantities import parse_quantity
from policies.kubernetes.view import ChangedView
from policies.kubernetes.workloads import group_of
from policies.nvidia.identifiers import GPU_RESOURCE, VENDOR_PREFIX
from policies.nvidia.pod_conditions import REQUESTS_NVIDIA_DEVICES
from policies.nvidia.wishes import WORDS
from policies.rules.decision import TEMPLATE, Severity
from policies.rules.patch import Editor
from policies.rules.request import Request
from policies.rules.settings.exemptions import exemption

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from policies.kubernetes.objects import Object
    from policies.kubernetes.pod_templates import PodTemplate
    from policies.kubernetes.pods import Pod
    from policies.kubernetes.view import ClusterView
    from policies.rules.decision import Decision, Finding, Template
    from policies.rules.settings import GPUAdmissionPolicy


_RAY_GPU = re.compile(r".*gpu|.*nvidia\.com/mig-[0-9]+g\.[0-9]+gb")
"""Resources that KubeRay counts as GPUs. Source: IsGPUResourceKey."""
_MNNVL_GROUP = "grove.io/mnnvl-group"
_NO_GROUP = "none"
"""The value by which a lower layer opts out of the group of the layers above it."""
_WORKERS = FieldPath(["spec", "predictor", "workerSpec"])


def reason_to_stay(workload: Object, templates: Iterable[PodTemplate]) -> str:
    """The reason to keep the GPUs of a workload in its manifest; empty if claims may replace them.

    Args:
        workload: The object as it is written.
        templates: Its pod templates whose GPUs would be replaced.
    """
    group = group_of(workload)
    if group == "serving.kserve.io" and lookup(workload, _WORKERS) is not None:
        return (
            f"{_WORKERS}: keep {GPU_RESOURCE}: {KSERVE.name} counts the GPUs of head and workers by it, and writes it into "
            "their containers"
        )
    for template in templates if group == "grove.io" else ():
        if _is_in_mnnvl_group(workload, template):
            return (
                f"{template.path}: keep {GPU_RESOURCE}: {GROVE.name} gives a ComputeDomain to the cliques of a {_MNNVL_GROUP} "
                "only if their containers name it"
            )
    return ""


def _is_in_mnnvl_group(workload: Object, template: PodTemplate) -> bool:
    """True if the annotation of the clique names a group, or else of its scaling group or of the set."""
    clique = lookup(workload, template.path[:-2])
    scaling = (
        each
        for each in items_at(workload, ("spec", "template", "podCliqueScalingGroups"))
        if lookup(clique, ("name",)) in items_at(each, ("cliqueNames",))
    )
    layers = (clique, *scaling, mapping_at(workload, ("metadata",)))
    named = (lookup(each, ("annotations", _MNNVL_GROUP)) for each in layers)
    return next((name for name in named if name is not None), _NO_GROUP) != _NO_GROUP


def keep_ray_gpus(workload: Object, template: PodTemplate, migrated: Object, edits: Editor) -> Iterator[str]:
    """Write the GPUs of a Ray group where KubeRay still finds them; yields a notice about the change.

    KubeRay reads the limits of the first container, unless the parameters or the resources of the group have the number.
    It refuses groups that have both.

    Args:
        workload: The object as it is written.
        template: The pod template of the group.
        migrated: Its pod with the claim.
        edits: The object that is written.
    """
    if group_of(workload) != "ray.io" or template.path[-1] != "template":
        return
    limits = ("spec", "containers", 0, "resources", "limits")
    kept, before = mapping_at(migrated, limits), mapping_at(template.template, limits)
    removed = [
        name
        for name in sorted(before)
        if name not in kept and _RAY_GPU.fullmatch(name) and parse_quantity(before[name])
    ]
    if not removed:
        return
    group = FieldPath(template.path[:-1])
    parameters, resources = mapping_at(workload, group / "rayStartParams"), mapping_at(workload, group / "resources")
    if "num-gpus" in parameters or any(_RAY_GPU.fullmatch(str(name).lower()) for name in resources):
        return
    field, key = ("resources", "GPU") if resources else ("rayStartParams", "num-gpus")
    if not isinstance(lookup(workload, group / field), dict | None):
        return
    count = str(int(parse_quantity(before[removed[0]])))
    edits.add(group / field / key, count)
    yield f'{group / field}: {key}: "{count}" is added, because {KUBERAY.name} read it from the limit of {removed[0]}'


def kueue_notice(workload: Object, classes: Iterable[str]) -> Iterator[str]:
    """A notice about the mapping that Kueue needs for DeviceClasses; none for a workload without a queue."""
    places = (FieldPath(["metadata", "labels"]), FieldPath(["spec", "jobTemplate", "metadata", "labels"]))
    queued = next((place for place in places if lookup(workload, place / QUEUE)), None)
    names = " and ".join(f'"{name}"' for name in sorted(set(classes)))
    if queued is not None and names:
        yield (
            f"{queued / QUEUE}: map DeviceClass {names} in {KUEUE.name}'s deviceClassMappings: {KUEUE.name} counts claims of "
            "mapped classes only, and fails the Workload of a queued object with others"
        )


_WISHES = tuple(FieldPath(["metadata", "annotations", PREFIX + word]) for word in WORDS)
_CLAIMS = SPEC / "resourceClaims"


@dataclass(frozen=True, slots=True)
class MigratedPod:
    """A pod as migration writes it, or why it is left as it is."""

    pod: Object | None = None
    """The pod with a claim; None if it is left."""
    template: Template | None = None
    """The template of the conversion, which still has the conversion's name and marks; None if no claim is needed."""
    findings: tuple[Finding, ...] = ()
    """Findings of the conversion: why the pod is left, or warnings about a pod that is migrated."""
    reason: str = ""
    """The reason why the pod is left without a finding; empty for pods that are migrated or have nothing to migrate."""

    @property
    def claim_spec(self) -> dict[str, Any] | None:
        """The spec of the pod's ResourceClaim; None if it needs none."""
        return self.template.spec["spec"] if self.template is not None else None

    @property
    def is_left(self) -> bool:
        """True if the pod requests GPUs and is not migrated."""
        return self.pod is None and bool(self.findings or self.reason)

    def with_template(self, name: str) -> Object | None:
        """The migrated pod, which refers to its template by a name of its author."""
        if self.pod is None or self.template is None:
            return self.pod
        edits = Editor(self.pod)
        for index, claim in enumerate(lookup(self.pod, _CLAIMS)):
            if claim.get("resourceClaimTemplateName") == self.template.name:
                edits.replace(_CLAIMS / index / "resourceClaimTemplateName", name)
        migrated: Object = edits.document
        return migrated


def migrate_pod(pod: Object, namespace: str, view: ClusterView, settings: GPUAdmissionPolicy) -> MigratedPod:
    """Convert a pod as it is written, as if its namespace opted in with the strategy `template`.

    The pod is judged as the API server completes it. The result has only fields that the manifest has, and those of the
    claim. The author's wishes are in the claim then, so their annotations are removed.
    """
    if not REQUESTS_NVIDIA_DEVICES.holds(pod):
        return MigratedPod()
    why = exemption("conversion", namespace, settings)
    if why:
        return MigratedPod(reason=f'pods of the namespace "{namespace}" are never converted, because {why}')
    view = opted_in_view(view, namespace)
    request = Request(pod, namespace=namespace)
    completed = review_concern("conversion", request.of(created_pod(pod, namespace, view)), view, settings)
    if not completed.allowed or not completed.patch:
        findings = _visible_findings(completed)
        return MigratedPod(findings=findings, reason="" if findings else _why_unchanged(request))
    if conversion_record(request.pod) is not None:
        return MigratedPod(reason=_CONVERTED)
    written = review_concern("conversion", request.of(_with_gpu_requests(request.pod)), view, settings)
    if not written.allowed or written.object is None or _specs(written) != _specs(completed):
        return MigratedPod(reason=_COMPLETED)
    template = written.templates[0] if written.templates else None
    document = _without_marks(written.object, pod, with_wishes=template is None)
    return MigratedPod(document, template, _visible_findings(completed))


_CONVERTED = "the webhook converted it already; migrate the manifest that it was created from"
_COMPLETED = "a LimitRange of its namespace adds GPUs to it; write the GPUs of every container into the manifest"
_PLACED = "it does not pass the scheduler, which allocates claims; remove spec.nodeName, or keep the device plugin"


def _why_unchanged(request: Request) -> str:
    """The reason why conversion silently leaves a pod; empty if it requests no GPUs by a resource."""
    if conversion_record(request.pod) is not None:
        return _CONVERTED
    return _PLACED if requests_gpus(request.pod) else ""


def opted_in_view(view: ClusterView, namespace: str) -> ClusterView:
    """The cluster in which a namespace converts its pods with the strategy `template`."""
    return ChangedView(view, {("Namespace", "", namespace): converting_namespace(namespace, view)})


def converting_namespace(namespace: str, view: ClusterView) -> Object:
    """The Namespace with labels that convert its pods with the strategy `template`."""
    found = view.get("Namespace", namespace)
    labels = {key: value for key, value in mapping_at(found, ("metadata", "labels")).items() if key != STRATEGY_LABEL}
    metadata = {"name": namespace, "labels": {**labels, DRA_LABEL: "enabled"}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def _with_gpu_requests(pod: Pod) -> Object:
    """The pod with its limits of GPUs as requests, which the API server copies; conversion removes both."""
    edits = Editor(pod.document)
    for container in pod.all_containers:
        for resource in gpu_resources(container):
            if resource in container.limits and resource not in container.requests:
                edits.add(container.path / "resources" / "requests" / resource, container.limits[resource])
    equal: Object = edits.document
    return equal


def _specs(decision: Decision) -> list[Any]:
    return [template.spec for template in decision.templates]


def _visible_findings(decision: Decision) -> tuple[Finding, ...]:
    """The findings that their author sees: not waived, and at least warnings."""
    return tuple(
        finding
        for finding in decision.findings
        if finding.severity in (Severity.DENY, Severity.WARN) and not finding.waived
    )


def _without_marks(converted: Object, written: Object, *, with_wishes: bool) -> Object:
    """The converted pod without the marks of conversion, and without mappings that held nothing else."""
    unwanted = {path[-1] for path in (*MARKS, *(() if with_wishes else _WISHES))}
    before = written.get("metadata") or {}
    metadata = dict(converted["metadata"])
    for field in ("annotations", "labels"):
        kept = {key: value for key, value in (metadata.get(field) or {}).items() if key not in unwanted}
        if kept or (field in before and not before[field]):
            metadata[field] = kept or before[field]
        else:
            metadata.pop(field, None)
    document = {**converted, "metadata": metadata}
    if not metadata and not before:
        document = {key: value for key, value in document.items() if key != "metadata" or key in written}
    return {**document, "metadata": written["metadata"]} if not metadata and "metadata" in written else document


_LONGEST_NAME = 253


@dataclass(frozen=True, slots=True)
class MigratedObject:
    """An object as migration writes it, or why it is left as it is."""

    after: Object | None = None
    """The object with claims; None if it is left or has nothing to migrate."""
    templates: tuple[Object, ...] = ()
    """The ResourceClaimTemplates that it refers to."""
    findings: tuple[Finding, ...] = ()
    """Findings of the conversion, at paths of the object."""
    reasons: tuple[str, ...] = ()
    """The reasons why it, or a part of it, is left, besides findings that refuse it."""
    is_left: bool = False
    """True if it, or a part of it, requests GPUs and is not migrated."""
    notices: tuple[str, ...] = ()
    """Notices about other controllers that read the object: fields that were added for them, and what they need now."""


def migrate_object(
    document: Object,
    namespace: str,
    view: ClusterView,
    settings: GPUAdmissionPolicy,
    is_taken: Callable[[str, Any], bool],
) -> MigratedObject:
    """Migrate a pod, or every pod template of a workload; other objects have nothing to migrate.

    A workload is left as a whole if one of its templates is left.

    Args:
        document: The object as it is written.
        namespace: Its namespace, or the one where it is applied.
        view: The cluster.
        settings: The administrator's settings.
        is_taken: True for the name of a ResourceClaimTemplate of this namespace that has another `spec` than the one given.
    """
    if (group_of(document), document.get("kind")) == ("", "Pod"):
        migrated = migrate_pod(document, namespace, view, settings)
        return _result(document, [(None, migrated)], is_taken)
    found = templates_of({**document, "metadata": {**_metadata(document), "namespace": namespace}}, view, settings)
    of_templates = [
        (template, migrate_pod(pod_of(template.template, document, namespace), namespace, view, settings))
        for template in found
    ]
    unread = [
        f"{each.path}: {each.reason}"
        for each in unread_pods(document, view, settings)
        if VENDOR_PREFIX in str(lookup(document, ("spec",)))
    ]
    if unread:
        return MigratedObject(reasons=tuple(unread), is_left=True)
    return _result(document, of_templates, is_taken)


def _metadata(document: Object) -> Object:
    metadata = document.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _result(
    document: Object, pods: Sequence[tuple[PodTemplate | None, MigratedPod]], is_taken: Callable[[str, Any], bool]
) -> MigratedObject:
    findings = tuple(dict.fromkeys(finding for template, pod in pods for finding in _findings(template, pod)))
    composed = [
        f"{template.path}: its pods are made from several fields; write the claim into them by hand"
        for template, pod in pods
        if pod.pod is not None and template is not None and template.is_composed
    ]
    replaced = [template for template, pod in pods if pod.pod is not None and template is not None]
    read = reason_to_stay(document, replaced)
    reasons = (*([read] if read else composed), *(pod.reason for _, pod in pods if pod.reason))
    if read or composed or any(pod.is_left for _, pod in pods):
        return MigratedObject(findings=findings, reasons=tuple(dict.fromkeys(reasons)), is_left=True)
    edits = Editor(document)
    names: dict[str, str] = {}
    templates: list[Object] = []
    notices: list[str] = []
    for template, pod in pods:
        if pod.pod is None:
            continue
        name = ""
        if pod.template is not None:
            name = names.get(pod.template.name, "")
            if not name:
                spec = {"spec": pod.claim_spec}
                free = (each for each in _names(document) if each not in names.values() and not is_taken(each, spec))
                names[pod.template.name] = name = next(free)
                templates.append(_template(document, name, spec))
        migrated: Any = pod.with_template(name)
        if template is None:
            return MigratedObject(migrated, tuple(templates), findings)
        _write(edits, template, migrated)
        notices += keep_ray_gpus(document, template, migrated, edits)
    requests = (each for template in templates for each in Claim(template, "ResourceClaimTemplate").requests)
    notices += kueue_notice(document, (name for each in requests for name in each.classes))
    return MigratedObject(edits.document if edits else None, tuple(templates), findings, notices=tuple(notices))


def _findings(template: PodTemplate | None, pod: MigratedPod) -> Iterator[Finding]:
    for finding in pod.findings:
        yield finding if template is None else replace(finding, path=template.home(finding.path))


def _write(edits: Editor, template: PodTemplate, pod: Object) -> None:
    """Write the pod of a template into its workload."""
    kept = template_of(pod, template.template)
    metadata = {
        key: value
        for key, value in (template.template.get("metadata") or {}).items()
        if key not in ("labels", "annotations") or key in pod["metadata"]
    }
    changed = {key: pod["metadata"][key] for key in ("labels", "annotations") if key in metadata}
    if "metadata" in template.template:
        kept = {**kept, "metadata": template.template["metadata"] and {**metadata, **changed}}
    for inside, outside in template.homes:
        value = lookup(kept, inside)
        if value is not None and value != lookup(edits.document, outside):
            edits.replace(outside, value)


def _names(document: Object) -> Iterator[str]:
    """Names for templates of an object, the best first."""
    base = name_of(document) or generate_name_of(document).rstrip("-.") or str(document.get("kind")).lower()
    number = 1
    while True:
        suffix = "-gpu" if number == 1 else f"-gpu-{number}"
        yield base[: _LONGEST_NAME - len(suffix)].rstrip("-.") + suffix
        number += 1


def _template(document: Object, name: str, spec: Any) -> Object:
    namespace = namespace_of(document)
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": "resource.k8s.io/v1", "kind": TEMPLATE, "metadata": metadata, "spec": spec}
