"""Converted pods: recognised by a record that the pod itself confirms, and kept converted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.conversion.constraints import ConstraintError
from policies.conversion.gpu_amounts import gpu_resources, limit_path, read_amounts
from policies.conversion.record import ConversionRecord, TooManyDevicesError
from policies.kubernetes.names import MANAGED, RECORD
from policies.kubernetes.objects import FieldPath, lookup
from policies.kubernetes.quantities import QuantityError, parse_quantity
from policies.nvidia.resources import IMPLICIT_PREFIX
from policies.rules.decision import Severity
from policies.rules.patch import Editor
from policies.rules.registry import rule

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from policies.kubernetes.pods import Container, Pod
    from policies.rules.decision import Finding

__all__ = ["MARKS", "conversion_record", "mark", "remove_readded", "remove_resources"]

MARKS = (FieldPath(["metadata", "annotations", RECORD]), FieldPath(["metadata", "labels", MANAGED]))
"""The paths of the marks of a converted pod."""


def mark(pod: Pod, record: ConversionRecord, edits: Editor) -> None:
    """Record on the pod what it requested, and mark it as converted."""
    for path, value in zip(MARKS, (record.annotation, "true"), strict=True):
        before = lookup(pod.document, path)
        if before is None:
            edits.add(path, value)
        elif before != value:
            edits.replace(path, value)


def conversion_record(pod: Pod) -> ConversionRecord | None:
    """The record of a converted pod; None if the pod is not converted, also if it has marks.

    The record must lead to the very template that the pod refers to, and each container must use the requests that
    the record gives it. Each container of a renamed pod must request exactly as many devices by the new names.
    """
    record = ConversionRecord.parse(pod.annotations[RECORD]) if RECORD in pod.annotations else None
    if record is None:
        return None
    return record if (_is_renamed(pod, record) if record.classes else _refers(pod, record)) else None


def _refers(pod: Pod, record: ConversionRecord) -> bool:
    try:
        claim = record.claim
    except (ConstraintError, TooManyDevicesError):
        return False
    names = {each.get("name") for each in pod.resource_claims if each.get("resourceClaimTemplateName") == claim.name}
    uses = {
        (container.name, each.get("request"))
        for container in pod.all_containers
        for each in container.claims
        if each.get("name") in names
    }
    needed = {(name, piece.request) for piece in claim.pieces for name in piece.containers}
    return bool(needed) and needed <= uses


def _is_renamed(pod: Pod, record: ConversionRecord) -> bool:
    containers = {container.name: container for container in pod.all_containers}
    return all(
        each.name in containers
        and _amount(containers[each.name].limits, record.classes[resource])
        == _amount(containers[each.name].requests, record.classes[resource])
        == count
        for each in record.containers
        for resource, count in each.resources.items()
        if count
    )


def _amount(amounts: Mapping[str, Any], device_class: str) -> int | None:
    try:
        number = parse_quantity(amounts.get(IMPLICIT_PREFIX + device_class))
    except QuantityError:
        return None
    return int(number) if number.denominator == 1 else None


READDED = rule(
    "GA319",
    "A resource that is added after conversion must equal the converted request",
    default=Severity.DENY,
    why="""
    A LimitRange with a default for GPUs, or another webhook, can put a GPU resource back into a converted pod. The same
    amount in the same container is removed again; another amount, or a container that has no request in the claim, is a
    second wish that contradicts the first.""",
    remedy="write the GPUs of every container into the pod (0 where it needs none), or remove the LimitRange's default",
    source="k8s.io/apiserver admission order: LimitRanger runs again after mutating webhooks",
)


def remove_readded(pod: Pod, record: ConversionRecord) -> tuple[Editor, tuple[Finding, ...]]:
    """Remove from a converted pod GPU resources that were added again in the recorded amount."""
    edits = Editor(pod.document)
    amounts = read_amounts(pod)
    if amounts.findings:
        return edits, amounts.findings
    recorded = {each.name: each.resources for each in record.containers}
    findings = []
    for container in pod.all_containers:
        for resource in gpu_resources(container):
            count = amounts.of[container.name][resource]
            before = recorded.get(container.name, {}).get(resource)
            # A recorded 0 was written to prevent a LimitRange's default; removing it let the default in.
            if count and before not in (0, count):
                text = (
                    f"is {count}, added after the pod was converted with {before}"
                    if before is not None
                    else f"is {count}, added after the pod was converted without it"
                )
                findings.append(READDED.finding(limit_path(container, resource), text))
        remove_resources(container, gpu_resources(container), edits)
    return (Editor(pod.document), tuple(findings)) if findings else (edits, ())


def remove_resources(container: Container, resources: list[str], edits: Editor) -> None:
    """Remove resources from a container's limits and requests, and the maps that are empty then."""
    if not resources:
        return
    path = container.path / "resources"
    for section in ("limits", "requests"):
        written = lookup(edits.document, path) or {}
        present = written.get(section) or {}
        named = [resource for resource in resources if resource in present]
        if not named:
            continue
        if len(named) < len(present):
            for resource in named:
                edits.remove(path / section / resource)
        elif len(written) > 1:
            edits.remove(path / section)
        else:
            edits.remove(path)
