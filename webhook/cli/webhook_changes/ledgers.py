"""Waits until the version before can read the charges of all GPUQuotas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.kubernetes.objects import namespace_of
from policies.kubernetes.paths import mappings_at
from policies.phrases import format_list
from policies.quota.ledger.open_charges import ALLOWANCE
from policies.quota.ledger.status import has_compact_charges
from webhook.cluster.errors import APIError
from webhook.cluster.lists import list_all
from webhook.cluster.resources import RESOURCES

if TYPE_CHECKING:
    from webhook.cluster.client import APIClient

__all__ = ["ledger_remainder"]

_MOST_NAMES = 3


async def ledger_remainder(client: APIClient) -> str:
    """A clause about GPUQuotas whose charges the version before cannot read yet; empty if none."""
    try:
        quotas = await list_all(client, RESOURCES["GPUQuota"])
    except APIError as error:
        if error.is_not_found:
            return ""
        raise
    names = sorted(namespace_of(quota) for quota in quotas if _is_new(quota.get("status")))
    shown = format_list(names, _MOST_NAMES)
    return f"the GPUQuota of {shown} has charges that the version before cannot read" if names else ""


def _is_new(status: Any) -> bool:
    """True if a status has charges in a form that the version before does not know."""
    return has_compact_charges(status) or any(
        charge.get("kind") == ALLOWANCE for charge in mappings_at(status, ("charges",))
    )
