"""Ledgers as the version before reads and writes them.

It does not know `status.openCharges`, and drops it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.quota.ledger.ledger import Ledger

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object
    from policies.quota.limits.quota import Quota

__all__ = ["LedgerBefore"]


class LedgerBefore(Ledger):
    """A ledger of the version before."""

    @classmethod
    def read(cls, document: Object | None, known: Ledger | None = None) -> Ledger:
        """The ledger of a GPUQuota, without the charges that this version does not know."""
        status = {**((document or {}).get("status") or {})}
        status.pop("openCharges", None)
        return super().read({**(document or {}), "status": status}, known)

    def status(self, quota: Quota, generation: int, *, is_compact: bool = False) -> Object:
        """The status to write."""
        status = super().status(quota, generation, is_compact=False)
        del status["openCharges"]
        return status
