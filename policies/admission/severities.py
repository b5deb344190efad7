"""The end of a concern: severities of the settings, and waivers of the object."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from policies.admission.all_rules import rule_book
from policies.kubernetes.names import IGNORE, RECORD
from policies.kubernetes.objects import lookup, name_of
from policies.nvidia.mig import IMPLICIT_PREFIX
from policies.rules.decision import Decision, Severity
from policies.rules.settings import DEFAULTS, settings_for
from policies.rules.waivers import has_waivers, with_waivers, without_repeats

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.rules.decision import Finding
    from policies.rules.request import Concern, Request
    from policies.rules.settings import GPUAdmissionPolicy


_WAIVERS = ("metadata", "annotations", IGNORE)
_REPORTED = (Severity.DENY, Severity.WARN)


def is_final(concern: Concern, decision: Decision, request: Request) -> bool:
    """True if the decision of a concern's rules is its answer, so that `finish` would change nothing."""
    if decision.findings or lookup(request.object, _WAIVERS) is not None:
        return False
    # A preview changes nothing: what it would change becomes a warning.
    return concern != "preview" or decision.object is request.object


def finish(concern: Concern, decision: Decision, request: Request, settings: GPUAdmissionPolicy) -> Decision:
    """The answer of a concern: the decision of its rules, with the severities of the settings and waivers.

    A refused object is not changed, and a preview neither refuses nor changes an object.

    Args:
        concern: The concern.
        decision: The decision of its rules, with their own severities.
        request: The request that was judged.
        settings: The administrator's settings.
    """
    own = settings_for(request.user, request.namespace, settings)
    findings = _settings_of(concern, request, settings, own).judge(decision.findings, _namespace(request))
    findings = without_repeats(tuple(map(_with_consequence, findings)), request.object)
    context = decision.context
    decision = replace(decision, findings=findings, context=())
    if concern == "preview":
        decision = _preview_warnings(decision, request)
    if has_waivers(request):
        decision = replace(decision, findings=with_waivers(decision.findings, request, own, rule_book()))
    findings = decision.findings
    is_reported = any(found.severity in _REPORTED and not found.waived for found in findings)
    remarks = (*decision.remarks, *(context if is_reported else ()))
    decision = replace(decision, findings=findings, remarks=remarks).limit_findings()
    if decision.allowed:
        return decision
    # A waiver that settings refuse refuses the object as well.
    return replace(decision, patch=(), object=request.object, templates=(), annotations={})


def _preview_warnings(converted: Decision, request: Request) -> Decision:
    """Warnings that say what a conversion would do; nothing is changed and nothing refused.

    `placement` reviews the same pod and reports what is wrong with its wish.
    """
    findings = tuple(
        finding.as_announcement("the pod would be refused") if finding.severity is Severity.DENY else finding
        for finding in converted.findings
        if finding.rule.subject != "placement"
    )
    remarks: list[str] = []
    if converted.allowed and converted.patch:
        from policies.conversion.record import ConversionRecord
        from policies.devices.resource_claims import Claim

        remarks = [
            f"would be converted to ResourceClaimTemplate {template.name}: "
            + ", ".join(
                f"{each.subrequests[0].count} x {' or '.join(each.classes)} ({each.name})"
                for each in Claim(template.manifest(), "ResourceClaimTemplate").requests
            )
            for template in converted.templates
        ]
        if not remarks:
            record = ConversionRecord.parse(lookup(converted.object, ("metadata", "annotations", RECORD)) or "")
            renamed = {} if record is None else record.classes
            remarks = [f"would be renamed: {old} to {IMPLICIT_PREFIX}{name}" for old, name in renamed.items()]
    return Decision(findings=findings, object=request.object, remarks=tuple(remarks))


def _settings_of(
    concern: Concern, request: Request, settings: GPUAdmissionPolicy, own: GPUAdmissionPolicy
) -> GPUAdmissionPolicy:
    """The settings that decide severities; `own` have the user's exemptions."""
    if concern == "configuration" and request.group == "gpu-admission.io":
        return DEFAULTS  # Settings cannot allow invalid settings and quotas.
    # The author of a workload may be exempt, and the controller that creates its pods is not.
    return settings if concern == "workloads" else own


def _namespace(request: Request) -> str:
    """The namespace that decides severities: of a Namespace, the object itself; empty for a PriorityClass."""
    if (request.group, request.kind) == ("", "Namespace"):
        return name_of(request.object or {})
    return "" if request.kind == "PriorityClass" else request.namespace


def judged_findings(
    findings: Iterable[Finding], request: Request, settings: GPUAdmissionPolicy, *, settled: Iterable[Finding] = ()
) -> tuple[Finding, ...]:
    """Findings of no concern, with the severities of the settings and the waivers of the object.

    Args:
        findings: With the severities of their rules.
        request: The request about the object.
        settings: The administrator's settings.
        settled: More findings on the object, which have the severities of the settings.
    """
    found = (*settings.judge(findings, request.namespace), *settled)
    if not has_waivers(request):
        return found
    return with_waivers(found, request, settings_for(request.user, request.namespace, settings), rule_book())


def _with_consequence(finding: Finding) -> Finding:
    if not finding.consequence:
        return finding
    message = finding.message if finding.severity is Severity.DENY else f"{finding.message}, {finding.consequence}"
    return replace(finding, message=message, consequence="")
