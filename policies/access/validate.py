"""Validates the access of one pod to the GPUs of its node."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from policies.access import (
    container_runtime,  # noqa: F401 - registers its checks
    visible_devices,  # noqa: F401 - registers its checks
)
from policies.access.subject import ACCESS, CIRCUMSTANCES, Subject, is_exempt
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.kubernetes.view import ClusterView
    from policies.rules.decision import Finding
    from policies.rules.request import Request
    from policies.rules.settings import GPUAdmissionPolicy


def validate(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Iterator[Finding]:
    """Findings on containers that get GPUs which the scheduler did not allocate to them.

    Reviewed are new pods, ephemeral containers that an update adds, and the images and the annotations for CDI that an update
    changes. What the pod had before is not reviewed again, and neither are its privileges, which cannot change.
    """
    subject = Subject.of(request, view, settings)
    if subject is None or is_exempt(subject):
        return
    findings = tuple(ACCESS.run(subject))
    if not findings:
        return
    yield from findings
    # Circumstances are as grave as the gravest of the other findings.
    found = {
        settings.severity_of(finding.rule.id, finding.severity, subject.namespace)
        for finding in findings
        if subject.containers and not finding.rule.suspicion
    }
    severity = next((each for each in (Severity.DENY, Severity.WARN, Severity.AUDIT) if each in found), None)
    if severity is not None:
        for circumstance in CIRCUMSTANCES.run(subject):
            yield replace(circumstance, severity=severity)
