"""The concern claims: claims, templates, DeviceClasses and ComputeDomains."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.admission.webhooks import CLAIM_KINDS
from policies.claims import validate
from policies.rules.decision import Decision

if TYPE_CHECKING:
    from policies.kubernetes.view import ClusterView
    from policies.rules.request import Request
    from policies.rules.settings import GPUAdmissionPolicy

__all__ = ["claims"]


def claims(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """Findings on a claim, a template, a DeviceClass or a ComputeDomain."""
    is_claim = (request.group, request.kind) in CLAIM_KINDS
    if not is_claim or request.subresource or request.operation == "DELETE":
        return Decision(object=request.object)
    return Decision(findings=tuple(validate(request, view, settings)), object=request.object)
