"""Quotas: ResourceQuotas that conversion switches off, or would."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from policies.audit.findings import found_in
from policies.audit.narrowed import Narrowed
from policies.conversion.asked import Asked
from policies.conversion.native_quota import quota_problems
from policies.conversion.opt_in import Mode, mode_of, strategy_of
from policies.decision import Severity
from policies.kubernetes.objects import namespace_of
from policies.kubernetes.paths import FieldPath, lookup
from policies.kubernetes.printable import shown
from policies.nvidia.resources import parse_resource
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.audit.report import AuditFinding
    from policies.decision import Finding
    from policies.kubernetes.objects import Object
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["quota_findings"]

_HARD = FieldPath(["spec", "hard"])
_REQUESTS = "requests."


def quota_findings(namespace: str, view: ClusterView, settings: GPUAdmissionPolicy) -> Iterator[AuditFinding]:
    """ResourceQuotas on GPUs that do not count what converted pods hold; of one namespace where one is given."""
    quotas = view.list("ResourceQuota", namespace)
    for quota in () if quotas is UNKNOWN else quotas:
        for finding in _of(quota, view, settings):
            yield found_in(quota, finding)


def _of(quota: Object, view: ClusterView, settings: GPUAdmissionPolicy) -> tuple[Finding, ...]:
    namespace, alone = namespace_of(quota), Narrowed(view, "ResourceQuota", [quota])
    if strategy_of(namespace, view) == "leave":
        return ()
    hard = lookup(quota, _HARD)
    limited = [
        resource
        for key in (hard if isinstance(hard, dict) else ())
        if key.startswith(_REQUESTS) and parse_resource(resource := key.removeprefix(_REQUESTS)) is not None
    ]
    found: list[Finding] = []
    for resource in sorted(limited):
        path = _HARD / f"{_REQUESTS}{resource}"
        device_class = Asked(()).device_class(resource)
        for problem in quota_problems(Asked(()), alone, namespace, {resource: path}, settings):
            text = f'is {shown(hard[path[-1]])}, and claims of DeviceClass "{device_class}", by which converted pods ask, do'
            found.append(replace(problem, message=f"{text} not count; {_effect(namespace, view)}"))
    judged = settings.judge(found, namespace)
    if mode_of(namespace, view) is Mode.ENABLED:
        return judged
    return tuple(replace(finding, severity=Severity.AUDIT) for finding in judged)


def _effect(namespace: str, view: ClusterView) -> str:
    if mode_of(namespace, view) is Mode.ENABLED:
        return "the namespace converts, so the quota is switched off"
    return "opting the namespace in would switch the quota off"
