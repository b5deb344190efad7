"""The entry for containers that get GPUs without a request to the scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.access import validate
from policies.decision import Decision
from policies.review.on_demand import load_function
from policies.review.pods import is_being_converted

if TYPE_CHECKING:
    from policies.request import Request
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["access"]


def access(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """Findings on new containers, also ephemeral ones, that get GPUs without a request.

    The pod may have any shape; `placement` reports what is malformed.
    """
    seen = load_function("own templates")(request, view, settings) if is_being_converted(request, view) else view
    findings = settings.judge(validate(request, seen, settings), request.namespace)
    return Decision(findings=findings, object=request.object)
