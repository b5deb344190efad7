"""The concern claims: claims, templates, DeviceClasses and ComputeDomains."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.admission.webhooks import CLAIM_KINDS
from policies.decision import Decision
from policies.dra.claims import validate

if TYPE_CHECKING:
    from policies.request import Request
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["claims"]


def claims(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """Findings on a claim, a template, a DeviceClass or a ComputeDomain."""
    is_claim = (request.group, request.kind) in CLAIM_KINDS
    if not is_claim or request.subresource or request.operation == "DELETE":
        return Decision(object=request.object)
    return Decision(findings=tuple(validate(request, view, settings)), object=request.object)
