"""Converted pods: recognised by what proves itself, and kept converted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.conversion.amounts import gpu_resources, limit_path, read_amounts
from policies.conversion.asked import Asked
from policies.conversion.constraints import ConstraintError
from policies.conversion.line import TooManyDevicesError
from policies.conversion.rules import READDED
from policies.decision import RECORD
from policies.kubernetes.paths import lookup
from policies.patch import Editor

if TYPE_CHECKING:
    from policies.decision import Finding
    from policies.kubernetes.pods import Container, Pod

__all__ = ["converted_by", "remove_readded", "remove_resources"]


def converted_by(pod: Pod, namespace: str) -> Asked | None:
    """What a converted pod asked for; None for a pod that is not converted, whatever its marks say.

    The record must lead to the very template that the pod refers to, and each container must use the requests that
    the record gives it.
    """
    asked = Asked.from_record(pod.annotations[RECORD]) if RECORD in pod.annotations else None
    if asked is None:
        return None
    try:
        template, pieces = asked.template(namespace), asked.pieces
    except (ConstraintError, TooManyDevicesError):
        return None
    claims = {
        claim.get("name") for claim in pod.resource_claims if claim.get("resourceClaimTemplateName") == template.name
    }
    uses = {
        (container.name, claim.get("request"))
        for container in pod.all_containers
        for claim in container.claims
        if claim.get("name") in claims
    }
    needed = {(name, piece.request) for piece in pieces for name in piece.containers}
    return asked if needed and needed <= uses else None


def remove_readded(pod: Pod, asked: Asked) -> tuple[Editor, tuple[Finding, ...]]:
    """Take out of a converted pod what was added to it again, where it is what was asked."""
    edits = Editor(pod.document)
    amounts = read_amounts(pod)
    if amounts.findings:
        return edits, amounts.findings
    recorded = {ask.name: ask.resources for ask in asked.containers}
    findings = []
    for container in pod.all_containers:
        for resource in gpu_resources(container):
            count = amounts.of[container.name][resource]
            before = recorded.get(container.name, {}).get(resource)
            # A recorded 0 was written to keep a LimitRange's default away; taking it out let the default in.
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
    """Take resources out of a container's limits and requests, and the maps that are empty then."""
    path = container.path / "resources"
    for section in ("limits", "requests"):
        present = lookup(edits.document, path / section) or {}
        named = [resource for resource in resources if resource in present]
        if not named:
            continue
        if len(named) < len(present):
            for resource in named:
                edits.remove(path / section / resource)
        elif len(lookup(edits.document, path)) > 1:
            edits.remove(path / section)
        else:
            edits.remove(path)
