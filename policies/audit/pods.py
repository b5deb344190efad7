"""Pods that escaped conversion, use GPUs without a request, or wait for a missing template."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.admission import review_concern
from policies.admission.severities import judged_findings
from policies.admission.upkeep import missing_templates
from policies.audit.conversions import ConversionResult, is_converted, requests_device_plugin
from policies.audit.report import AuditFinding
from policies.conversion.check import ESCAPED
from policies.conversion.opt_in import Mode, mode_of
from policies.conversion.sweep import references
from policies.decision import Finding, Rule, Severity
from policies.dra.templates import is_our_name
from policies.kubernetes.paths import FieldPath, lookup
from policies.metadata_keys import MANAGED
from policies.request import Request
from policies.work import check_cancelled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.audit.conversions import Conversions
    from policies.audit.survey import PodForm, PodName, Survey
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["TEMPLATE_MISSING", "pod_findings", "template_findings"]

TEMPLATE_MISSING = Rule(
    "template-missing",
    "The template of a converted pod must exist",
    default=Severity.DENY,
    why="A pod waits until the ResourceClaimTemplates that it names exist.",
    remedy="create the pod again: its request cannot be recovered, or its namespace no longer converts",
    source="docs/conversion.md",
)
"""Only the audit has this rule, so it is not registered."""

_IS_REPAIRED = "wait for the leader, which creates it again every few minutes; if it does not, its log says why"
_CLAIMS = FieldPath(["spec", "resourceClaims"])
_CONTAINERS = FieldPath(["spec", "containers"])
_ESCAPED = (
    "requests GPUs from the device plugin in a namespace that converts: the pod is older than the opt-in, was created "
    "while the webhook was down, or was created by an exempt user"
)
_ESCAPED_REMEDY = "create it again (kubectl rollout restart, if a workload creates it)"


def pod_findings(
    survey: Survey,
    conversions: Conversions,
    view: ClusterView,
    settings: GPUAdmissionPolicy,
) -> Iterator[AuditFinding]:
    """Findings on existing pods, by the rules for new ones."""
    for form in survey.pods.values():
        check_cancelled()
        findings = list(form.access)
        if mode_of(form.namespace, view) is Mode.ENABLED and not conversions.never_converts(form.namespace):
            findings += _conversion_findings(form, conversions, view, settings)
        # Both concerns report invalid waivers.
        for finding in dict.fromkeys(findings):
            yield _finding_of(finding, form, form.first, form.count)


def template_findings(survey: Survey, view: ClusterView, settings: GPUAdmissionPolicy) -> Iterator[AuditFinding]:
    """Converted pods that wait for a template that does not exist."""
    for form in survey.pods.values():
        if (
            form.first_waiting is None
            or form.pod is None
            or lookup(form.pod, ("metadata", "labels", MANAGED)) != "true"
        ):
            continue
        check_cancelled()
        missing = [
            name
            for name in sorted(filter(is_our_name, references(form.pod)))
            if view.get("ResourceClaimTemplate", name, form.namespace) is None
        ]
        repaired = {template.name for template in missing_templates([form.pod], view, settings)} if missing else set()
        for name in missing:
            text = f'refer to ResourceClaimTemplate "{name}", which does not exist'
            finding = TEMPLATE_MISSING.finding(_CLAIMS, text, _IS_REPAIRED if name in repaired else None)
            yield _finding_of(finding, form, form.first_waiting, form.waiting)


def _finding_of(finding: Finding, form: PodForm, first: PodName, count: int) -> AuditFinding:
    """The finding on so many pods of a form, named after the first of them."""
    owners = tuple(sorted(filter(None, form.owners)))
    return AuditFinding.of(
        finding, "Pod", form.namespace, first.name, count=count, owners=owners, api_version="v1", uid=first.uid
    )


def _conversion_findings(
    form: PodForm, conversions: Conversions, view: ClusterView, settings: GPUAdmissionPolicy
) -> tuple[Finding, ...]:
    """Why a pod of a namespace that converts is not as conversion would have left it."""
    if form.pod is None:
        return ()
    if is_converted(form.pod):
        return review_concern("conversion-check", Request(form.pod, namespace=form.namespace), view, settings).findings
    if not requests_device_plugin(form.pod, view):
        return ()
    conversion = conversions.of(form.namespace, form.form, form.pod)
    if conversion.result is ConversionResult.CONVERTED:
        escaped = ESCAPED.finding(_CONTAINERS, _ESCAPED, _ESCAPED_REMEDY)
        return judged_findings([escaped], Request(form.pod, namespace=form.namespace), settings)
    return conversion.findings
