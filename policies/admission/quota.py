"""The concern quota: the charge of an object, and the decision after it is charged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.admission.pods import is_being_converted
from policies.admission.webhooks import ENTRIES
from policies.kubernetes.view import ChangedView
from policies.quota.charging.charging import charge_decision
from policies.quota.charging.outcomes import settle
from policies.quota.counting.counting import outcome_by_view

if TYPE_CHECKING:
    from policies.admission.steps import Charge
    from policies.kubernetes.view import ClusterView
    from policies.rules.decision import Decision
    from policies.rules.request import Request
    from policies.rules.settings import GPUAdmissionPolicy

__all__ = ["charge_by_view", "quota", "settle_charge"]


def quota(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """The charge of the object. The pipeline decides on the object once it is charged."""
    # Another replica may have created the template a moment ago, and on a dry run none is created. Its name is the hash of
    # its content, so a template that conversion would give this pod need not be read.
    if is_being_converted(request, view):
        from policies.admission.conversion import with_own_templates

        view = with_own_templates(request, view, settings)
    entry = ENTRIES.get(request.entry)
    policy = None if entry is None else entry.concerns.get("quota")
    # The API server read the label of the namespace to choose the entry.
    return charge_decision(request, view, settings, enforced=None if policy is None else policy == "Fail")


def charge_by_view(step: Charge, view: ClusterView, settings: GPUAdmissionPolicy) -> None:
    """Set the outcome of a charge by the quota that the view shows; nothing is written."""
    step.outcome = outcome_by_view(step.charge, ChangedView(view, step.objects), settings)


def settle_charge(decision: Decision, step: Charge) -> Decision:
    """The decision of the concern after its charge, allowed or refused."""
    if step.outcome is None:
        raise TypeError("the driver left a charge without an outcome")
    return settle(decision, step.outcome, step.holders, names_holders=step.names_holders)
