"""Pods: those that escaped conversion, that take GPUs behind the scheduler's back, or wait for a template in vain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.audit.outcomes import Verdict, asks_device_plugin, is_converted
from policies.audit.report import AuditFinding
from policies.conversion.opt_in import Mode, mode_of
from policies.conversion.rules import ESCAPED
from policies.conversion.sweep import references
from policies.decision import Finding, Severity
from policies.dra.templates import is_our_name
from policies.kubernetes.paths import FieldPath, lookup
from policies.metadata_keys import MANAGED
from policies.request import Request
from policies.review import review
from policies.review.upkeep import missing_templates

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.audit.outcomes import Outcomes
    from policies.audit.survey import PodForm, Survey
    from policies.dra.keeping_on import KeepOn
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["TEMPLATE_MISSING", "pod_findings", "template_findings"]

TEMPLATE_MISSING = "template-missing"
"""What is said of converted pods that wait for a template."""

_CLAIMS = FieldPath(["spec", "resourceClaims"])
_CONTAINERS = FieldPath(["spec", "containers"])
_ESCAPED = (
    "asks the device plugin for GPUs in a namespace that converts: it is older than that, came while the webhook was "
    "away, or was made by somebody exempt"
)
_AGAIN = "create it again (kubectl rollout restart, where a workload makes it)"


def pod_findings(
    survey: Survey, outcomes: Outcomes, view: ClusterView, settings: GPUAdmissionPolicy, keep_on: KeepOn
) -> Iterator[AuditFinding]:
    """What is wrong with pods that are there, by the rules that hold for new ones."""
    for form in survey.pods.values():
        keep_on()
        findings = list(form.access)
        if mode_of(form.namespace, view) is Mode.ENABLED and not outcomes.never_converts(form.namespace):
            findings += _unconverted(form, outcomes, view, settings)
        for finding in findings:
            yield _found_in(form, finding)


def template_findings(
    survey: Survey, view: ClusterView, settings: GPUAdmissionPolicy, keep_on: KeepOn
) -> Iterator[AuditFinding]:
    """Converted pods that wait for a template that does not exist."""
    for form in survey.pods.values():
        if not form.waiting or form.pod is None or lookup(form.pod, ("metadata", "labels", MANAGED)) != "true":
            continue
        keep_on()
        lost = [
            name
            for name in sorted(filter(is_our_name, references(form.pod)))
            if view.get("ResourceClaimTemplate", name, form.namespace) is None
        ]
        repaired = {template.name for template in missing_templates([form.pod], view, settings)} if lost else set()
        for name in lost:
            remedy = (
                "wait for the leader, which makes it again every few minutes; if it does not, its log says why"
                if name in repaired
                else "create the pod again: what it asked for cannot be told from it, or its namespace converts no more"
            )
            yield AuditFinding(
                TEMPLATE_MISSING,
                Severity.DENY,
                "Pod",
                form.namespace,
                form.waits,
                _CLAIMS,
                f'refer to ResourceClaimTemplate "{name}", which does not exist',
                remedy,
                form.waiting,
                tuple(sorted(form.owners)),
            )


def _unconverted(
    form: PodForm, outcomes: Outcomes, view: ClusterView, settings: GPUAdmissionPolicy
) -> tuple[Finding, ...]:
    """Why a pod of a namespace that converts is not as conversion would have left it."""
    if form.pod is None:
        return ()
    if is_converted(form.pod, form.namespace):
        request = Request(form.pod, namespace=form.namespace, entry="conversion-check")
        return review(request, view, settings).findings
    if not asks_device_plugin(form.pod, view):
        return ()
    outcome = outcomes.of(form.namespace, form.form, form.pod)
    if outcome.verdict is Verdict.CONVERTS:
        return settings.judge([ESCAPED.finding(_CONTAINERS, _ESCAPED, _AGAIN)], form.namespace)
    return outcome.findings


def _found_in(form: PodForm, finding: Finding) -> AuditFinding:
    return AuditFinding(
        finding.rule,
        finding.severity,
        "Pod",
        form.namespace,
        form.name,
        finding.path,
        finding.message,
        finding.remedy,
        form.count,
        tuple(sorted(form.owners)),
    )
