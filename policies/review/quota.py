"""The entries for quotas: the charge of an object, and the decision on it by the quota of a view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.kubernetes.objects import generate_name_of, name_of
from policies.quota.bills import Uncountable, charge_under
from policies.quota.charging.charging import charge_decision
from policies.quota.charging.outcomes import settle
from policies.quota.counting.counting import decisive_ledger
from policies.quota.ledger.admit import NoQuota, admit
from policies.quota.ledger.sums import sum_amounts
from policies.quota.limits.quota import QuotaError, parse_quota
from policies.quota.opt_in import quota_shown
from policies.review.own_templates import with_own_templates
from policies.review.pods import is_being_converted
from policies.view import UNKNOWN, PassingView

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policies.decision import Decision
    from policies.kubernetes.objects import Object
    from policies.quota.charges import Amounts, ChargeRequest
    from policies.quota.charging.outcomes import ChargeOutcome
    from policies.quota.limits.quota import Quota
    from policies.request import Request
    from policies.settings import GPUAdmissionPolicy
    from policies.settings.choices import Quotas
    from policies.view import ClusterView, Unknown

__all__ = ["charged_amounts", "quota", "settle_by_view"]


def quota(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """The charge of the object. `settle` decides on the object once the charge is written or refused."""
    # Another replica may have created the template a moment ago, and on a dry run none is created. Its name is the hash of
    # its content, so a template that conversion would give this pod need not be read.
    seen = with_own_templates(request, view, settings) if is_being_converted(request, view) else view
    return charge_decision(request, seen, settings)


def settle_by_view(decision: Decision, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """The decision on a charge by the quota that the view shows; nothing is written."""
    if not decision.charges:
        return decision
    (charge,) = decision.charges
    document = quota_shown(charge.namespace, view)
    if document is None:
        return settle(decision, NoQuota())
    return settle(decision, _outcome(charge, document, _Others(charge, view), settings.quota))


def charged_amounts(charges: Iterable[tuple[ChargeRequest, int]], quota: Quota) -> Amounts:
    """What a quota is charged for pods and claims, by limit, each with a count; shared claims count once.

    Raises:
        Uncountable: The product or the memory of a GPU is unknown, and the quota needs it.
    """
    charged = [(charge_under(charge, quota), count) for charge, count in charges]
    own = (
        {name: amount * count for name, amount in bill.amounts.items()}
        for charge, count in charged
        for bill in charge.pieces.values()
    )
    groups = {charge.shared.uid: charge.shared for charge, _ in charged if charge.shared is not None}
    return sum_amounts([*own, *(bill.amounts for group in groups.values() for bill in group.pieces.values())])


def _outcome(charge: ChargeRequest, document: Object, view: ClusterView, settings: Quotas) -> ChargeOutcome:
    if charge.refusal is not None:
        return charge.refusal
    try:
        limits = parse_quota(document)
        amounts = charge_under(charge, limits)
    except (QuotaError, Uncountable) as error:
        return error
    ledger = decisive_ledger(document, view, settings)
    verdict, _ = admit(ledger, limits, amounts, enforced=charge.enforced)
    return verdict


class _Others(PassingView):
    """The cluster without the object under review, which files may contain too."""

    def __init__(self, charge: ChargeRequest, view: ClusterView) -> None:
        super().__init__(view)
        self._charge = charge

    def list(self, kind: str, namespace: str = "") -> Sequence[Object] | Unknown:
        listed = super().list(kind, namespace)
        if listed is UNKNOWN or (kind, namespace) != (self._charge.kind, self._charge.namespace):
            return listed
        own = next((each for each in listed if self._charge.name == (name_of(each) or generate_name_of(each))), None)
        return [each for each in listed if each is not own]
