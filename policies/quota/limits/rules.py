"""Rules on GPUQuotas: one that cannot be read is not stored, and one that limits nothing is warned about."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from policies.checks import Checks, Problem, problem
from policies.decision import Severity
from policies.kubernetes.paths import FieldPath, lookup
from policies.quota.limits.quota import QuotaError, parse_quota
from policies.settings.exempt_namespaces import exemption_in_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.decision import Finding
    from policies.request import Request
    from policies.settings import GPUAdmissionPolicy

__all__ = ["validate"]


class _Change(NamedTuple):
    """A GPUQuota that is created or updated, and the settings that hold."""

    request: Request
    settings: GPUAdmissionPolicy


_QUOTAS: Checks[_Change] = Checks()


def validate(request: Request, settings: GPUAdmissionPolicy) -> Iterator[Finding]:
    """Everything that is wrong with a GPUQuota that somebody creates or updates."""
    if request.operation != "DELETE" and isinstance(request.object, dict):
        yield from _QUOTAS.run(_Change(request, settings))


@_QUOTAS.rule(
    "GA501",
    "A GPUQuota must be readable and consistent",
    default=Severity.DENY,
    remedy="put right what is named; docs/quota.md describes every field",
    source="docs/quota.md",
    wrong="""
    apiVersion: gpu-admission.io/v1alpha1
    kind: GPUQuota
    metadata: {name: gpu, namespace: team-a}
    spec:
      limits:
      - {name: h100, selector: {products: ["H100*"]}, gpus: 0.5}""",
    right="""
    apiVersion: gpu-admission.io/v1alpha1
    kind: GPUQuota
    metadata: {name: gpu, namespace: team-a}
    spec:
      limits:
      - {name: h100, selector: {products: ["H100*"]}, gpus: "1/2"}""",
    fixed=True,
)
def readable_quota(change: _Change) -> Iterator[Problem]:
    """A quota with one mistake holds nothing back, and where quotas are enforced its namespace gets no GPU at all.

    So nobody can store one, whatever severities and exemptions there are. Labels and annotations of what is stored
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
    wrong="""
    apiVersion: gpu-admission.io/v1alpha1
    kind: GPUQuota
    metadata: {name: gpu, namespace: gpu-operator}
    spec:
      limits:
      - {name: h100, selector: {products: ["H100*"]}, gpus: 8}""",
    right="""
    apiVersion: gpu-admission.io/v1alpha1
    kind: GPUQuota
    metadata: {name: gpu, namespace: team-a}
    spec:
      limits:
      - {name: h100, selector: {products: ["H100*"]}, gpus: 8}""",
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
