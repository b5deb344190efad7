"""How a namespace chooses that its quota fails closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.kubernetes.paths import lookup
from policies.metadata_keys import QUOTA_LABEL

if TYPE_CHECKING:
    from policies.view import ClusterView

__all__ = ["ENFORCED", "ENTRIES", "is_enforced"]

ENFORCED = "enforced"

ENTRIES = {"quota-enforced": True, "quota": False}
"""The webhook entries that charge, and whether each is for namespaces whose quota fails closed."""


def is_enforced(namespace: str, view: ClusterView) -> bool:
    """Whether nothing that gets GPUs is admitted while it cannot be charged; no as long as nobody knows the namespace."""
    return bool(lookup(view.get("Namespace", namespace), ("metadata", "labels", QUOTA_LABEL)) == ENFORCED)
