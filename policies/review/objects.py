"""Entries for objects that are no pods: findings only, nothing of them is ever changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.decision import Decision, Severity
from policies.kubernetes.objects import name_of
from policies.review.namespaces import validate_labels
from policies.settings import DEFAULTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.decision import Finding
    from policies.request import Request
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["claims", "configuration"]

_QUOTA = ("gpu-admission.io", "GPUQuota")
_NAMESPACE = ("", "Namespace")
_PRIORITY_CLASS = ("scheduling.k8s.io", "PriorityClass")
_SETTINGS = ("gpu-admission.io", "GPUAdmissionPolicy")
_OURS = (_QUOTA, _SETTINGS)


def configuration(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """Configuration of GPU clusters and labels of namespaces; labels of nodes also if they are written with the status.

    Settings and quotas are judged by the defaults: no settings may say that these need not be readable.
    """
    from policies.configuration import lenient, uses, validate  # noqa: PLC0415 - see policies.review
    from policies.quota.limits.rules import validate as validate_quota  # noqa: PLC0415 - see policies.review

    if request.subresource and (request.kind, request.subresource) != ("Node", "status"):
        return Decision(object=request.object)
    kind = request.group, request.kind
    if kind == _NAMESPACE:
        return _namespace(request, settings)
    if kind == _PRIORITY_CLASS:
        from policies.placement.priority_classes import validate_priority_class  # noqa: PLC0415 - see policies.review

        return Decision(findings=settings.judge(validate_priority_class(request), ""), object=request.object)
    found: Iterable[Finding] = (
        validate_quota(request, view, settings) if kind == _QUOTA else validate(request, view, settings)
    )
    if kind == _SETTINGS:
        found = (*found, *_wishes(request, view))
    judged = (DEFAULTS if kind in _OURS else settings).judge(found, request.namespace)
    findings = tuple(lenient(finding, request, view, settings) for finding in judged)
    is_told = any(finding.severity in (Severity.DENY, Severity.WARN) for finding in findings)
    remarks = uses(request, view, settings) if is_told else ()
    return Decision(findings=findings, object=request.object, remarks=remarks)


def _wishes(request: Request, view: ClusterView) -> Iterator[Finding]:
    """Wishes of settings for products that do not exist; nothing of settings that cannot be read."""
    from policies.placement.wishes.product_misspellings import default_misspellings  # noqa: PLC0415 - see policies.review
    from policies.settings import SettingsError, parse_settings  # noqa: PLC0415 - see policies.review

    if request.operation == "DELETE":
        return
    try:
        settings = parse_settings(request.object)
    except SettingsError:
        return  # GA701 has reported it.
    yield from default_misspellings(settings, view)


def _namespace(request: Request, settings: GPUAdmissionPolicy) -> Decision:
    """Namespaces are reviewed in files and by the audit; in a cluster, admission policies guard their labels."""
    from policies.dra.claims.admin_access import validate_namespace  # noqa: PLC0415 - see policies.review

    found = (*validate_labels(request, settings), *validate_namespace(request, settings))
    return Decision(findings=settings.judge(found, name_of(request.object or {})), object=request.object)


def claims(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """Claims, templates, DeviceClasses and ComputeDomains."""
    from policies.dra.claims import validate  # noqa: PLC0415 - see policies.review

    if request.subresource or request.operation == "DELETE":
        return Decision(object=request.object)
    return Decision(
        findings=settings.judge(validate(request, view, settings), request.namespace), object=request.object
    )
