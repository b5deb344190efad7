"""Access: the containers of a pod that get GPUs of their node without a request."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from policies.access import container_runtime, visible_devices
from policies.access.subject import Subject, is_exempt
from policies.rules.checks import SUSPICIONS, Checks
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.kubernetes.view import ClusterView
    from policies.rules.checks import Check
    from policies.rules.decision import Finding
    from policies.rules.request import Request
    from policies.rules.settings import GPUAdmissionPolicy


__all__ = ["checks", "validate"]

_ACCESS: Checks[Subject] = Checks(
    container_runtime.unrequested_mounts,
    container_runtime.distribution,
    container_runtime.device_list,
    container_runtime.unrequested_runtime,
    container_runtime.injecting_annotations,
    visible_devices.unrequested_devices,
    visible_devices.replaced_devices,
    visible_devices.devices_from_elsewhere,
    visible_devices.legacy_image,
    visible_devices.visible_by_image,
)
"""The checks of fields that give a container GPUs."""


def checks() -> tuple[Check[...], ...]:
    """All checks of access."""
    return (*_ACCESS.all, container_runtime.privileges)


def validate(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Iterator[Finding]:
    """Findings on containers that get GPUs which the scheduler did not allocate to them.

    Reviewed are new pods, ephemeral containers that an update adds, and the images and the annotations for CDI that an update
    changes. What the pod had before is not reviewed again, and neither are its privileges, which cannot change.
    """
    subject = Subject.of(request, view, settings)
    if subject is None or is_exempt(subject):
        return
    findings = tuple(_ACCESS.run(subject))
    if not findings:
        return
    yield from findings
    # Privileges are as grave as the gravest of the other findings.
    found = {
        settings.severity_of(finding.rule.id, finding.severity, subject.namespace)
        for finding in findings
        if subject.containers and finding.rule.id not in SUSPICIONS
    }
    severity = next((each for each in (Severity.DENY, Severity.WARN, Severity.AUDIT) if each in found), None)
    if severity is not None:
        for finding in container_runtime.privileges(subject):
            yield replace(finding, severity=severity)
