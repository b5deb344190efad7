"""The entries for the configuration of GPU clusters, our own kinds, and labels of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.configuration import is_configuration, lenient, uses, validate
from policies.decision import Decision, Severity
from policies.placement.priority_classes import validate_priority_class
from policies.placement.wishes.product_misspellings import default_misspellings
from policies.quota.limits.rules import validate as validate_quota
from policies.settings import DEFAULTS, SettingsError, parse_settings
from policies.waivers import with_waivers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.decision import Finding
    from policies.request import Request
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["configuration", "is_configuration", "priority_classes"]

_QUOTA = ("gpu-admission.io", "GPUQuota")
_SETTINGS = ("gpu-admission.io", "GPUAdmissionPolicy")
_OURS = (_QUOTA, _SETTINGS)


def configuration(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """Findings on configuration of GPU clusters, and on labels of nodes, also if their status is written.

    Findings on our own settings and quotas have their default severities: settings cannot allow invalid ones.
    """
    if request.subresource and (request.kind, request.subresource) != ("Node", "status"):
        return Decision(object=request.object)
    kind = request.group, request.kind
    found: Iterable[Finding] = (
        validate_quota(request, view, settings) if kind == _QUOTA else validate(request, view, settings)
    )
    if kind == _SETTINGS:
        found = (*found, *_default_wishes(request, view))
    judged = (DEFAULTS if kind in _OURS else settings).judge(found, request.namespace)
    leniently = tuple(lenient(finding, request, view, settings) for finding in judged)
    findings = with_waivers(leniently, request, settings)
    is_reported = any(found.severity in (Severity.DENY, Severity.WARN) and not found.waived for found in findings)
    remarks = uses(request, view, settings) if is_reported else ()
    return Decision(findings=findings, object=request.object, remarks=remarks)


def priority_classes(request: Request, _view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """Findings on a PriorityClass, in files only: no webhook is called for one."""
    return Decision(findings=settings.judge(validate_priority_class(request), ""), object=request.object)


def _default_wishes(request: Request, view: ClusterView) -> Iterator[Finding]:
    """Findings on default wishes for products that do not exist; none for invalid settings."""
    try:
        settings = parse_settings(request.object)
    except SettingsError:
        return  # GA701 has reported it.
    yield from default_misspellings(settings, view)
