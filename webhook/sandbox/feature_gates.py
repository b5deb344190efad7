"""Feature gates: what the server and its controllers do only where it is switched on.

Source: pkg/features/kube_features.go of Kubernetes 1.36.
"""

from __future__ import annotations

__all__ = ["CLAIMS_OF_GROUPS", "GROUPS"]

GROUPS = frozenset(["GenericWorkload"])
"""PodGroups are served, and pods say to which they belong."""
CLAIMS_OF_GROUPS = GROUPS | {"DRAWorkloadResourceClaims"}
"""The pods of a PodGroup share claims."""
