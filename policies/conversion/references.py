"""What a claim refers to: DeviceClasses that must exist, a template that must be ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.decision import Severity
from policies.dra.templates import as_written
from policies.kubernetes.pods import SPEC
from policies.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.conversion.asked import Asked
    from policies.decision import Finding, Template
    from policies.kubernetes.paths import FieldPath
    from policies.view import ClusterView

__all__ = ["class_problems", "template_problems"]


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


def class_problems(asked: Asked, view: ClusterView, places: dict[str, FieldPath]) -> Iterator[Finding]:
    """DeviceClasses that the claim would name and that do not exist; `places` says where each resource is asked."""
    for resource, path in places.items():
        name = asked.device_class(resource)
        if view.get("DeviceClass", name) is None:
            yield NO_CLASS.finding(path, f'becomes a claim of DeviceClass "{name}", which does not exist')


FOREIGN_TEMPLATE = rule(
    "GA322",
    "A template that is named by its content must have that content",
    default=Severity.DENY,
    why="""
    Templates are named by a hash of their spec. One of this name with another spec was written or changed by somebody
    else; the pod would get devices that it did not ask for.""",
    remedy="delete the ResourceClaimTemplate; it is made again when a pod needs it",
    source="docs/conversion.md",
)


def template_problems(template: Template, view: ClusterView) -> Iterator[Finding]:
    """A template of this name with another content."""
    existing = view.get("ResourceClaimTemplate", template.name, template.namespace)
    if isinstance(existing, dict) and as_written(existing.get("spec")) != template.spec:
        yield FOREIGN_TEMPLATE.finding(
            SPEC / "resourceClaims",
            f'needs the ResourceClaimTemplate "{template.name}", and the one that exists has another spec',
            f"delete it (kubectl -n {template.namespace} delete resourceclaimtemplate {template.name}); "
            "it is made again when a pod needs it",
        )
