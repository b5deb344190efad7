"""ClusterPolicy (`nvidia.com/v1`): how the GPU Operator sets up every GPU node."""

from policies.configuration.change import CLUSTER_POLICY, CLUSTER_POLICY_DELETION
from policies.configuration.cluster_policy import (
    daemonsets,  # noqa: F401 - these modules register their checks
    dcgm_exporter,  # noqa: F401 - these modules register their checks
    device_plugin,  # noqa: F401 - these modules register their checks
    driver,  # noqa: F401 - these modules register their checks
    host_access,  # noqa: F401 - these modules register their checks
    runtime,  # noqa: F401 - these modules register their checks
    sandbox_workloads,  # noqa: F401 - these modules register their checks
    upgrades,  # noqa: F401 - these modules register their checks
)

__all__ = ["CLUSTER_POLICY", "CLUSTER_POLICY_DELETION"]
