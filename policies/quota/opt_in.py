"""Whether a namespace has a quota, and the label by which it makes the quota fail closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.kubernetes.paths import lookup
from policies.metadata_keys import QUOTA_LABEL

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object
    from policies.view import ClusterView

__all__ = ["ENFORCED", "QUOTA_NAME", "is_enforced", "quota_shown"]

ENFORCED = "enforced"

QUOTA_NAME = "gpu"
"""The name of the one GPUQuota of a namespace."""


def is_enforced(namespace: str, view: ClusterView) -> bool:
    """True if the quota of a namespace fails closed. False if the namespace is unknown."""
    return bool(lookup(view.get("Namespace", namespace), ("metadata", "labels", QUOTA_LABEL)) == ENFORCED)


def quota_shown(namespace: str, view: ClusterView) -> Object | None:
    """The GPUQuota of a namespace, if the view shows it; None if there is none or it is unknown."""
    document = view.get("GPUQuota", QUOTA_NAME, namespace)
    return document if isinstance(document, dict) else None
