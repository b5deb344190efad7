"""What a pod of a manifest becomes: the same pod with a claim, and its ResourceClaimTemplate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from policies.admission import review_concern
from policies.conversion.converted_pods import MARKS, conversion_record
from policies.conversion.gpu_amounts import gpu_resources, requests_gpus
from policies.decision import Severity
from policies.kubernetes.paths import FieldPath, lookup
from policies.kubernetes.pods import SPEC
from policies.metadata_keys import DRA_LABEL, PREFIX, STRATEGY_LABEL
from policies.nvidia.wishes import WORDS
from policies.patch import Editor
from policies.pod_conditions import REQUESTS_NVIDIA_DEVICES
from policies.pod_creation import created_pod
from policies.request import Request
from policies.settings.exempt_namespaces import exemption
from policies.view import ChangedView

if TYPE_CHECKING:
    from policies.decision import Decision, Finding, Template
    from policies.kubernetes.objects import Object
    from policies.kubernetes.pods import Pod
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["MigratedPod", "converting_namespace", "migrate_pod", "opted_in_view"]

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
    """Why the pod is left although conversion has no finding; empty for pods that are migrated or have nothing to migrate."""

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
    if not why:
        return _migrate(pod, namespace, opted_in_view(view, namespace), settings)
    return MigratedPod(reason=f'pods of the namespace "{namespace}" are never converted, because {why}')


def _migrate(pod: Object, namespace: str, view: ClusterView, settings: GPUAdmissionPolicy) -> MigratedPod:
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
    """Why conversion does not change a pod and says nothing; empty if it requests no GPUs by a resource."""
    if conversion_record(request.pod) is not None:
        return _CONVERTED
    return _PLACED if requests_gpus(request.pod) else ""


def opted_in_view(view: ClusterView, namespace: str) -> ClusterView:
    """The cluster in which a namespace converts its pods with the strategy `template`."""
    return ChangedView(view, {("Namespace", "", namespace): converting_namespace(namespace, view)})


def converting_namespace(namespace: str, view: ClusterView) -> Object:
    """The Namespace with labels that convert its pods with the strategy `template`."""
    found = view.get("Namespace", namespace)
    labels = lookup(found, ("metadata", "labels")) or {}
    labels = {key: value for key, value in labels.items() if key != STRATEGY_LABEL}
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
