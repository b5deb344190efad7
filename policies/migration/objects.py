"""What an object of a manifest becomes: a pod, or a workload with pod templates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from policies.decision import TEMPLATE
from policies.kubernetes.objects import generate_name_of, name_of, namespace_of
from policies.kubernetes.paths import items_at, lookup
from policies.kubernetes.pod_templates import pod_of, template_of
from policies.kubernetes.workloads import group_of
from policies.migration.gpu_readers import keep_ray_gpus, kueue_notice, reason_to_stay
from policies.migration.pods import MigratedPod, migrate_pod
from policies.nvidia.identifiers import VENDOR_PREFIX
from policies.patch import Editor
from policies.workload_templates import templates_of, unread_pods

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from policies.decision import Finding
    from policies.kubernetes.objects import Object
    from policies.kubernetes.pod_templates import PodTemplate
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["MigratedObject", "migrate_object"]

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
    """Why it, or a part of it, is left, besides findings that refuse it."""
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
    requests = (each for template in templates for each in items_at(template, ("spec", "spec", "devices", "requests")))
    notices += kueue_notice(document, (each["exactly"]["deviceClassName"] for each in requests))
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
