"""Entries for objects that are no pods: findings only, nothing of them is ever changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.decision import Decision
from policies.settings import DEFAULTS

if TYPE_CHECKING:
    from policies.request import Request
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["claims", "configuration"]

_QUOTA = ("gpu-admission.io", "GPUQuota")
_OURS = (_QUOTA, ("gpu-admission.io", "GPUAdmissionPolicy"))


def configuration(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """Configuration of GPU clusters; labels of nodes also where somebody writes them with the status.

    Settings and quotas are judged by the defaults: no settings may say that these need not be readable.
    """
    from policies.configuration import lenient, validate  # noqa: PLC0415 - see policies.review
    from policies.quota.limits.rules import validate as validate_quota  # noqa: PLC0415 - see policies.review

    if request.subresource and (request.kind, request.subresource) != ("Node", "status"):
        return Decision(object=request.object)
    kind = request.group, request.kind
    found = validate_quota(request) if kind == _QUOTA else validate(request, view, settings)
    findings = (DEFAULTS if kind in _OURS else settings).judge(found, request.namespace)
    return Decision(findings=tuple(lenient(finding, request, view) for finding in findings), object=request.object)


def claims(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """Claims, templates, DeviceClasses and ComputeDomains."""
    from policies.dra.claims import validate  # noqa: PLC0415 - see policies.review

    if request.subresource or request.operation == "DELETE":
        return Decision(object=request.object)
    return Decision(
        findings=settings.judge(validate(request, view, settings), request.namespace), object=request.object
    )
