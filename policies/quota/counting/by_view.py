"""Charges where no ledger is written: the outcome of one, and the sum of several."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.kubernetes.objects import generate_name_of, name_of
from policies.quota.bills import Uncountable, charge_under
from policies.quota.counting.counting import decisive_ledger
from policies.quota.ledger.admit import NoQuota, admit
from policies.quota.ledger.sums import sum_amounts
from policies.quota.limits.quota import QuotaError, parse_quota
from policies.quota.opt_in import quota_shown
from policies.view import UNKNOWN, PassingView

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policies.kubernetes.objects import Object
    from policies.quota.charges import Amounts, ChargeRequest
    from policies.quota.charging.outcomes import ChargeOutcome
    from policies.quota.limits.quota import Quota
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView, Unknown

__all__ = ["charged_amounts", "outcome_by_view"]


def outcome_by_view(charge: ChargeRequest, view: ClusterView, settings: GPUAdmissionPolicy) -> ChargeOutcome:
    """The outcome of a charge by the quota that the view shows; nothing is written."""
    document = quota_shown(charge.namespace, view)
    if document is None:
        return NoQuota()
    if charge.refusal is not None:
        return charge.refusal
    try:
        limits = parse_quota(document)
        amounts = charge_under(charge, limits)
    except (QuotaError, Uncountable) as error:
        return error
    ledger = decisive_ledger(document, _Others(charge, view), settings.quota)
    verdict, _ = admit(ledger, limits, amounts, enforced=charge.enforced)
    return verdict


def charged_amounts(charges: Iterable[tuple[ChargeRequest, int]], quota: Quota) -> Amounts:
    """The amounts by limit that a quota is charged for pods and claims; shared claims count once.

    Args:
        charges: Each with the number of pods that have it.
        quota: The quota.

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


class _Others(PassingView):
    """The cluster without the object under review, which its files may contain too."""

    def __init__(self, charge: ChargeRequest, view: ClusterView) -> None:
        super().__init__(view)
        self._charge = charge

    def list(self, kind: str, namespace: str = "") -> Sequence[Object] | Unknown:
        listed = super().list(kind, namespace)
        if listed is UNKNOWN or (kind, namespace) != (self._charge.kind, self._charge.namespace):
            return listed
        own = next((each for each in listed if self._charge.name == (name_of(each) or generate_name_of(each))), None)
        return [each for each in listed if each is not own]
