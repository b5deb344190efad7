"""Quotas in reviews of files: each object is charged once, in the order in which kubectl creates them."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

from policies.quota.opt_in import QUOTA_NAME, quota_shown
from policies.view import ChangedView
from webhook.cli.admit import admit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.kubernetes.objects import Object
    from policies.quota.counting.balance import QuotaBalance
    from policies.settings import GPUAdmissionPolicy
    from policies.view import Unknown
    from webhook.cli.admit import Result
    from webhook.cli.subjects import Subject
    from webhook.cluster.manifests import ManifestsView

__all__ = ["ChargedReviews"]

_QUOTA = "GPUQuota"


class ChargedReviews:
    """Reviews objects one after another: what is admitted counts against the quota of those after it.

    Pods and claims that the cluster has count from the beginning, and the same object in a file is not counted again.
    """

    def __init__(self, view: ManifestsView, settings: GPUAdmissionPolicy) -> None:
        """`view` is the cluster, with all objects under review."""
        self._view = view
        self._settings = settings
        self._balances: dict[str, QuotaBalance | None] = {}
        """By namespace; None without a quota that can be read."""

    @property
    def shortages(self) -> Iterator[str]:
        """A sentence for each limit that is too small for all objects together, without a full stop."""
        for namespace, balance in self._balances.items():
            if balance is not None:
                yield from balance.shortages(namespace)

    def admit(self, subject: Subject) -> Result:
        """The result for the next object."""
        request = subject.request
        # The quota is read and its pods are counted when the first object is charged.
        quota = cache(partial(self._quota_for, subject))
        view = ChangedView(self._view, {(_QUOTA, request.namespace, QUOTA_NAME): quota})
        result = admit(subject, view, self._settings)
        if result.requested and (balance := self._balance(request.namespace)) is not None:
            key = request.kind, request.name
            self._balances[request.namespace] = balance.after(key, result.requested, is_admitted=not result.is_refused)
        return result

    def _quota_for(self, subject: Subject) -> Object | Unknown | None:
        """The quota as the object finds it when it is created."""
        request = subject.request
        balance = self._balance(request.namespace)
        if balance is None:
            return self._view.get(_QUOTA, QUOTA_NAME, request.namespace)
        return balance.document_for((request.kind, request.name))

    def _balance(self, namespace: str) -> QuotaBalance | None:
        if namespace not in self._balances:
            document = quota_shown(namespace, self._view)
            self._balances[namespace] = None if document is None else self._open_balance(namespace, document)
        return self._balances[namespace]

    def _open_balance(self, namespace: str, document: Object) -> QuotaBalance | None:
        from policies.quota.counting.balance import open_balance

        before = self._view.before_review("Pod", "ResourceClaim", _QUOTA)
        return open_balance(namespace, document, before, self._settings.quota)
