"""Rules on GPUQuotas: an unreadable one is refused, and one that limits nothing causes a warning."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from policies.checks import Checks, Problem, problem
from policies.decision import Severity
from policies.kubernetes.paths import FieldPath, lookup
from policies.quota.limits.quota import QuotaError, parse_quota
from policies.quota.limits.unmatched_limits import limits_without_match
from policies.settings.exempt_namespaces import exemption_in_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.decision import Finding
    from policies.request import Request
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["validate"]


class _Change(NamedTuple):
    """A GPUQuota that is created or updated, the cluster, and the settings that hold."""

    request: Request
    view: ClusterView
    settings: GPUAdmissionPolicy


_QUOTAS: Checks[_Change] = Checks()


def validate(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Iterator[Finding]:
    """Findings about a GPUQuota that is created or updated."""
    if request.operation != "DELETE" and isinstance(request.object, dict):
        yield from _QUOTAS.run(_Change(request, view, settings))


@_QUOTAS.rule(
    "GA501",
    "A GPUQuota must be readable and consistent",
    default=Severity.DENY,
    remedy="put right what is named; docs/quota.md describes every field",
    source="docs/quota.md",
    fixed=True,
    as_invalid=True,
)
def readable_quota(change: _Change) -> Iterator[Problem]:
    """A quota with a mistake limits nothing, and if quotas are enforced its namespace gets no GPU at all.

    So no user can store one, whatever severities and exemptions are set. Labels and annotations of what is stored
    already can be changed all the same, and it can be deleted.
    """
    request = change.request
    try:
        parse_quota(request.object)
    except QuotaError as error:
        # What is stored may be invalid only since a newer version runs: who labels it has not written it.
        specs = [lookup(document, ("spec",)) for document in (request.old_object, request.object)]
        kept = request.old_object is not None and specs[0] == specs[1]
        for path, sentence in error.problems:
            yield problem(path, sentence, "", severity=Severity.WARN if kept else None)


@_QUOTAS.rule(
    "GA507",
    "A GPUQuota must not be in a namespace that is exempt from quotas",
    default=Severity.WARN,
    remedy="delete it; docs/settings.md says which namespaces are exempt",
    source="docs/quota.md",
    fixed=True,
)
def effective_quota(change: _Change) -> Iterator[Problem]:
    """What runs the cluster and hands out its GPUs must start even while nothing can be counted.

    So pods and claims of its namespaces are never charged, and a GPUQuota there limits nothing. Its condition `Enforced`
    is `False` with the reason `Exempt`.
    """
    namespace = change.request.namespace
    if why := exemption_in_cluster("quota", namespace, change.settings):
        text = f'namespace "{namespace}" is exempt from quotas ({why}), so this GPUQuota limits nothing'
        yield problem(FieldPath(["metadata", "namespace"]), text)


@_QUOTAS.rule(
    "GA508",
    "A limit must count GPUs or PriorityClasses that the cluster has",
    default=Severity.WARN,
    remedy="write a name that there is, or leave it if that comes later",
    source="docs/quota.md; labels of nodes and ResourceSlices",
    fixed=True,
)
def counting_limits(change: _Change) -> Iterator[Problem]:
    """A limit whose globs match no product, MIG profile or PriorityClass counts and limits nothing.

    The name may come later, with a new node for example, so this only warns. A glob that matches nothing beside others
    that match is noted for the audit log.
    """
    request = change.request
    try:
        quota = parse_quota(request.object)
    except QuotaError:
        return  # GA501 has reported it.
    if request.old_object is None or lookup(request.old_object, ("spec",)) != lookup(request.object, ("spec",)):
        yield from limits_without_match(request.object or {}, quota.limits, change.view)
