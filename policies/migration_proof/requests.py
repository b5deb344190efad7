"""Whether a workload may get the same devices, and is counted by the same quotas, after its migration."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from policies.admission import review
from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import lookup
from policies.migration_proof.cells import Cell
from policies.nvidia.resources import parse_resource
from policies.outcome import Outcome
from policies.phrases import format_list
from policies.pod_creation import created_pod
from policies.quota.bills import Uncountable
from policies.quota.charging.charging import charge_decision
from policies.quota.counting.by_view import charged_amounts
from policies.quota.limits.amounts import amount_with_unit
from policies.quota.limits.quota import QuotaError, parse_quota
from policies.quota.opt_in import QUOTA_NAME, quota_shown
from policies.request import Request
from policies.view import UNKNOWN, ChangedView

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.outcome import Situation, Subject
    from policies.quota.charges import Amounts, ChargeRequest, DeviceDemand, DeviceKind
    from policies.quota.limits.quota import Quota

    _Demands = Mapping[frozenset[DeviceKind], int]
    """How many devices, by the kinds of which each can be."""

__all__ = ["RequestComparison"]

_REQUESTS = "requests."
_SOURCES = {"ResourceSlice": "ResourceSlices", "DeviceClass": "DeviceClasses"}
"""Kinds that say which devices a claim may get, and their plurals."""


class RequestComparison:
    """What the pods of a subject request before and after their migration."""

    def __init__(self, subject: Subject, before: Situation, after: Situation) -> None:
        self._subject = subject
        self._before, self._after = before, after
        self._charges = tuple(_charge_of(subject, each) for each in (before, after))

    def devices(self) -> Cell:
        """Whether the pods may get the same devices."""
        missing = [name for kind, name in _SOURCES.items() if self._after.view.list(kind) is UNKNOWN]
        if missing:
            return Cell(Outcome.UNKNOWN, f"unknown without {format_list(missing)}")
        was, will_be = map(_demands_of, self._charges)
        if was is None or will_be is None:
            return Cell(Outcome.UNKNOWN, "the devices that it requests are unknown")
        if was == will_be:
            return Cell(Outcome.KEPT, _text_of(will_be))
        if sum(was.values()) != sum(will_be.values()):
            return Cell(Outcome.LOST, f"requests {_text_of(will_be)} instead of {_text_of(was)}")
        lost = _kinds(was) - _kinds(will_be)
        if lost:
            return Cell(Outcome.LOST, f"cannot get {_names(lost)} any more; only {_text_of(will_be)}")
        return Cell(Outcome.KEPT, f"{_text_of(will_be)}; before, only {_text_of(was)}")

    def quota(self) -> Cell:
        """Whether the quotas of the namespace count the same."""
        if uncounted := self._find_uncounted():
            return Cell(Outcome.LOST, uncounted)
        document = quota_shown(self._subject.namespace, self._before.view)
        if document is None:
            return Cell(Outcome.KEPT, "no quota counts it")
        try:
            quota = parse_quota(document)
            was, will_be = (
                charged_amounts([(each, self._subject.count)] if each is not None else [], quota)
                for each in self._charges
            )
        except (QuotaError, Uncountable) as error:
            return Cell(Outcome.UNKNOWN, f"the GPUQuota cannot count it: {error}")
        if was == will_be:
            return Cell(Outcome.KEPT, f"the GPUQuota counts the same: {_amounts(will_be, quota)}")
        text = f"the GPUQuota counts {_amounts(will_be, quota)} instead of {_amounts(was, quota)}"
        return Cell(Outcome.LOST, text)

    def _find_uncounted(self) -> str:
        """Why a ResourceQuota limits the device plugin's resources but no claims; empty if none does."""
        quotas = self._before.view.list("ResourceQuota", self._subject.namespace)
        for quota in () if quotas is UNKNOWN else quotas:
            hard = lookup(quota, ("spec", "hard"))
            names = [key for key in hard if isinstance(key, str)] if isinstance(hard, dict) else []
            counted = [key for key in names if parse_resource(key.removeprefix(_REQUESTS)) is not None]
            if counted and not any("deviceclass.resource.k8s.io/" in key for key in names):
                return f"ResourceQuota {name_of(quota)} limits {format_list(sorted(counted))}, which claims do not use"
        return ""


def _charge_of(subject: Subject, situation: Situation) -> ChargeRequest | None:
    """The charge of a pod of the subject, as it is admitted; None if it is refused, or requests no GPUs."""
    settings = situation.settings
    # The pods of the subject may use up the quota themselves.
    view = ChangedView(situation.view, {("GPUQuota", subject.namespace, QUOTA_NAME): None})
    created = Request(created_pod(subject.document, subject.namespace, view), namespace=subject.namespace)
    decision = review(created, view, settings)
    if not decision.allowed:
        return None
    seen = ChangedView(view, {each.key: each.manifest() for each in decision.templates})
    charges = charge_decision(created.of(decision.object), seen, settings).charges
    return charges[0] if charges else None


def _demands_of(charge: ChargeRequest | None) -> _Demands | None:
    """What a charge is for; None if that is unknown, or nothing is admitted."""
    if charge is None:
        return None
    found: Counter[frozenset[DeviceKind]] = Counter()
    for demands in charge.pieces.values():
        for demand in demands:
            found[_possible_kinds(demand)] += demand.count
    return found


def _possible_kinds(demand: DeviceDemand) -> frozenset[DeviceKind]:
    """The kinds of a demand that the cluster shows, with those of its alternatives."""
    return frozenset(kind for choice in demand.choices for kind in choice.kinds)


def _kinds(demands: _Demands) -> frozenset[DeviceKind]:
    return frozenset(kind for kinds in demands for kind in kinds)


def _text_of(demands: _Demands) -> str:
    return " and ".join(f"{count} x {_names(kinds)}" for kinds, count in demands.items()) or "nothing"


def _names(kinds: frozenset[DeviceKind]) -> str:
    names = {f"{kind.product or 'any product'}{f' MIG {kind.profile}' if kind.profile else ''}" for kind in kinds}
    return " or ".join(sorted(names)) if names else "no device of the cluster"


def _amounts(amounts: Amounts, quota: Quota) -> str:
    texts = [
        f"{limit.name} {amount_with_unit(limit.unit, amounts[limit.name])}"
        for limit in quota.limits
        if amounts.get(limit.name)
    ]
    return format_list(texts) if texts else "nothing"
