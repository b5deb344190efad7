"""Previews: warnings that say what a conversion would do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.conversion.record import ConversionRecord
from policies.kubernetes.names import RECORD
from policies.kubernetes.objects import lookup
from policies.nvidia.mig import IMPLICIT_PREFIX
from policies.rules.decision import Decision, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.kubernetes.objects import Object
    from policies.rules.request import Request

__all__ = ["preview_warnings"]


def preview_warnings(converted: Decision, request: Request) -> Decision:
    """Warnings that say what a conversion would do; nothing is changed and nothing refused.

    `placement` reviews the same pod and reports what is wrong with its wish.
    """
    findings = tuple(
        finding.as_announcement("would be refused") if finding.severity is Severity.DENY else finding
        for finding in converted.findings
        if finding.rule.subject != "placement"
    )
    remarks: list[str] = []
    if converted.allowed and converted.patch:
        remarks = [
            f"would be converted to ResourceClaimTemplate {template.name}: "
            + ", ".join(
                f"{each['exactly']['count']} x {each['exactly']['deviceClassName']} ({each['name']})"
                for each in template.spec["spec"]["devices"]["requests"]
            )
            for template in converted.templates
        ] or [f"would be renamed: {names}" for names in _renamed_resources(converted.object)]
    return Decision(findings=findings, object=request.object, remarks=tuple(remarks))


def _renamed_resources(document: Object | None) -> Iterator[str]:
    """The old and new names of a renamed pod's resources, from its record: `OLD to NEW`."""
    record = ConversionRecord.parse(lookup(document, ("metadata", "annotations", RECORD)) or "")
    for resource, name in record.classes.items() if record is not None else ():
        yield f"{resource} to {IMPLICIT_PREFIX}{name}"
