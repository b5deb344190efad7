"""Rules on GPUQuotas: a quota that nobody could read is not stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Checks, Problem, problem
from policies.decision import Severity
from policies.kubernetes.paths import lookup
from policies.quota.limits.quota import QuotaError, parse_quota

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.decision import Finding
    from policies.request import Request

__all__ = ["validate"]

_QUOTAS: Checks[Request] = Checks()


def validate(request: Request) -> Iterator[Finding]:
    """Everything that is wrong with a GPUQuota that somebody creates or updates."""
    if request.operation != "DELETE" and isinstance(request.object, dict):
        yield from _QUOTAS.run(request)


@_QUOTAS.rule(
    "GA501",
    "A GPUQuota can be read and can hold",
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
def readable_quota(request: Request) -> Iterator[Problem]:
    """A quota with one mistake holds nothing back, and where quotas are enforced its namespace gets no GPU at all.

    So nobody can store one, whatever severities and exemptions there are. Labels and annotations of what is stored
    already can be changed all the same, and it can be deleted.
    """
    try:
        parse_quota(request.object)
    except QuotaError as error:
        # What is stored may be invalid only since a newer version runs: who labels it has not written it.
        specs = [lookup(document, ("spec",)) for document in (request.old_object, request.object)]
        kept = request.old_object is not None and specs[0] == specs[1]
        for path, sentence in error.problems:
            yield problem(path, sentence, "", severity=Severity.WARN if kept else None)
