"""The checks of ClusterPolicy, NVIDIADriver and GPUCluster; the modules of each kind add to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Checks
from policies.configuration.schemas import SCHEMAS

if TYPE_CHECKING:
    from policies.configuration.change import Change

__all__ = ["CLUSTER_POLICY", "CLUSTER_POLICY_DELETION", "COMPONENTS", "NVIDIA_DRIVER", "WITH_DRIVER", "WITH_OPERANDS"]

WITH_DRIVER = ("ClusterPolicy", "NVIDIADriver")
"""The kinds of rules about the driver."""
WITH_OPERANDS = ("ClusterPolicy", "GPUCluster")
"""The kinds of rules about what the operator deploys beside the driver."""

CLUSTER_POLICY: Checks[Change] = Checks("ClusterPolicy", cluster_scoped=True)
"""Of a ClusterPolicy that is created or changed."""

CLUSTER_POLICY_DELETION: Checks[Change] = Checks("ClusterPolicy", cluster_scoped=True)
"""Of one that is deleted; what is wrong with its fields no longer matters then."""


COMPONENTS: Checks[Change] = Checks(*SCHEMAS, cluster_scoped=True)


NVIDIA_DRIVER: Checks[Change] = Checks("NVIDIADriver", cluster_scoped=True)
