"""Entries for what is charged to quotas, as far as a view tells what there is; nothing is written.

The webhook charges for good instead, in `webhook.server.quotas`, and says the same of what comes of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.decision import Decision
from policies.kubernetes.objects import name_of
from policies.quota.opt_in import is_enforced
from policies.view import UNKNOWN, PassingView

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policies.decision import Template
    from policies.kubernetes.objects import Object
    from policies.quota.charging.charging import Charging
    from policies.quota.charging.outcomes import ChargeOutcome
    from policies.request import Request
    from policies.settings import GPUAdmissionPolicy
    from policies.settings.choices import Quotas
    from policies.view import ClusterView, Unknown

__all__ = ["QUOTA_NAME", "Templates", "quota", "quota_entry"]

QUOTA_NAME = "gpu"
"""Of the one GPUQuota of a namespace; `policies.quota.limits.quota` says the same, and takes long to import."""


def quota_entry(namespace: str, view: ClusterView) -> str:
    """The entry that charges the pods and claims of a namespace, by its label."""
    return "quota-enforced" if is_enforced(namespace, view) else "quota"


def quota(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """Whether what is being created fits into its namespace's quota."""
    found = view.get("GPUQuota", QUOTA_NAME, request.namespace)
    if not isinstance(found, dict):
        # Files that say nothing of quotas are no reason to speak of any.
        return Decision(object=request.object)
    from policies.quota.charging.charging import charging  # noqa: PLC0415 - see policies.review
    from policies.quota.charging.outcomes import decision  # noqa: PLC0415 - see policies.review

    asked = charging(request, view, settings)
    if asked is None:
        return Decision(object=request.object)
    return decision(request.object, asked, _outcome(asked, found, _Others(asked, view), settings.quota))


def _outcome(asked: Charging, document: Object, view: ClusterView, settings: Quotas) -> ChargeOutcome:
    from policies.quota.charging.charging import Uncountable  # noqa: PLC0415 - see policies.review
    from policies.quota.counting.counting import counted_ledger  # noqa: PLC0415 - see policies.review
    from policies.quota.ledger.admit import admit  # noqa: PLC0415 - see policies.review
    from policies.quota.limits.quota import QuotaError, parse_quota  # noqa: PLC0415 - see policies.review

    if asked.excess is not None and asked.enforced:
        return asked.excess
    try:
        limits = parse_quota(document)
        charge = asked.charge(limits)
    except (QuotaError, Uncountable) as found:
        return found
    return admit(counted_ledger(document, view, settings), limits, charge, enforced=asked.enforced)


class Templates(PassingView):
    """The cluster with the templates that the answer to a request creates."""

    def __init__(self, view: ClusterView, templates: Iterable[Template]) -> None:
        """Args: the cluster, and the templates."""
        super().__init__(view)
        self._templates = {(each.namespace, each.name): each for each in templates}

    def get(self, kind: str, name: str, namespace: str = "") -> Object | Unknown | None:
        """One object; None when it certainly does not exist."""
        made = self._templates.get((namespace, name)) if kind == "ResourceClaimTemplate" else None
        return super().get(kind, name, namespace) if made is None else made.manifest()


class _Others(PassingView):
    """The cluster as it was before an object was created that files show beside the others."""

    def __init__(self, asked: Charging, view: ClusterView) -> None:
        super().__init__(view)
        self._asked = asked

    def list(self, kind: str, namespace: str = "") -> Sequence[Object] | Unknown:
        listed = super().list(kind, namespace)
        if listed is UNKNOWN or (kind, namespace) != (self._asked.kind, self._asked.namespace):
            return listed
        return [each for each in listed if name_of(each) != self._asked.name]
