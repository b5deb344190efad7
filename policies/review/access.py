"""The entry for containers that get GPUs without a request to the scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.access import validate
from policies.decision import Decision
from policies.review.own_templates import with_own_templates

if TYPE_CHECKING:
    from policies.request import Request
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["access"]


def access(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """Findings on containers that get GPUs without a request: of new pods, and those that debug a running one.

    It reads what it needs of a pod of any shape; `placement` reports what is malformed.
    """
    seen = with_own_templates(request, view, settings)
    findings = settings.judge(validate(request, seen, settings), request.namespace)
    return Decision(findings=findings, object=request.object)
