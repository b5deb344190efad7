"""ClusterPolicy (`nvidia.com/v1`): how the GPU Operator sets up every GPU node."""

from policies.configuration.change import CLUSTER_POLICY, CLUSTER_POLICY_DELETION
from policies.configuration.cluster_policy import (  # noqa: F401 - these modules register their rules
    dcgm_exporter,
    host_access,
    plugin_settings,
    policy_driver,
    runtime,
    sandbox_workloads,
    upgrades,
)

__all__ = ["CLUSTER_POLICY", "CLUSTER_POLICY_DELETION"]
