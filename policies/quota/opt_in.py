"""The label by which a namespace makes its quota fail closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.kubernetes.paths import lookup
from policies.metadata_keys import QUOTA_LABEL

if TYPE_CHECKING:
    from policies.view import ClusterView

__all__ = ["ENFORCED", "QUOTA_NAME", "is_enforced"]

ENFORCED = "enforced"

QUOTA_NAME = "gpu"
"""The name of the one GPUQuota of a namespace."""


def is_enforced(namespace: str, view: ClusterView) -> bool:
    """True if the quota of a namespace fails closed. False if the namespace is unknown."""
    return bool(lookup(view.get("Namespace", namespace), ("metadata", "labels", QUOTA_LABEL)) == ENFORCED)
