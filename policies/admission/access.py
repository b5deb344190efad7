"""The concern access: containers that get GPUs without a request to the scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.access import validate
from policies.admission.pods import is_being_converted
from policies.rules.decision import Decision

if TYPE_CHECKING:
    from policies.kubernetes.view import ClusterView
    from policies.rules.request import Request
    from policies.rules.settings import GPUAdmissionPolicy

__all__ = ["access"]


def access(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """Findings on new containers, also ephemeral ones, that get GPUs without a request.

    The pod may have any shape; `placement` reports what is malformed.
    """
    seen = view
    if is_being_converted(request, view):
        from policies.admission.conversion import with_own_templates

        seen = with_own_templates(request, view, settings)
    return Decision(findings=tuple(validate(request, seen, settings)), object=request.object)
