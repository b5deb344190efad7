"""The concern configuration: the configuration of GPU clusters, our own kinds, and labels of nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from policies.configuration import is_configuration, is_lenient, uses, validate
from policies.placement.place import validate_priority_class
from policies.placement.wish_labels import default_misspellings
from policies.quota.limits.rules import validate as validate_quota
from policies.rules.decision import Decision
from policies.rules.settings import SettingsError, parse_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.kubernetes.view import ClusterView
    from policies.rules.decision import Finding
    from policies.rules.request import Request
    from policies.rules.settings import GPUAdmissionPolicy

__all__ = ["configuration", "is_configuration", "priority_classes"]

_QUOTA = ("gpu-admission.io", "GPUQuota")
_SETTINGS = ("gpu-admission.io", "GPUAdmissionPolicy")


def configuration(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """Findings on configuration of GPU clusters, and on labels of nodes, also if their status is written."""
    if request.subresource and (request.kind, request.subresource) != ("Node", "status"):
        return Decision(object=request.object)
    kind = request.group, request.kind
    found = tuple(validate_quota(request, view, settings) if kind == _QUOTA else validate(request, view, settings))
    if kind == _SETTINGS:
        found = (*found, *_default_wishes(request, view))
    if not found:
        return Decision(object=request.object)
    if is_lenient(request, view, settings):
        found = tuple(replace(finding, never_refuses=True) for finding in found)
    return Decision(findings=found, object=request.object, context=uses(request, view, settings))


def priority_classes(request: Request, _view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """Findings on a PriorityClass, in files only: no webhook is called for one."""
    return Decision(findings=tuple(validate_priority_class(request)), object=request.object)


def _default_wishes(request: Request, view: ClusterView) -> Iterator[Finding]:
    """Findings on default wishes for products that do not exist; none for invalid settings."""
    try:
        settings = parse_settings(request.object)
    except SettingsError:
        return  # GA701 has reported it.
    yield from default_misspellings(settings, view)
