"""ClusterPolicy (`nvidia.com/v1`): how the GPU Operator sets up every GPU node."""

from policies.configuration.checks import CLUSTER_POLICY, CLUSTER_POLICY_DELETION
from policies.configuration.cluster_policy import (  # noqa: F401 - these modules register their checks
    daemonsets,
    dcgm_exporter,
    device_plugin,
    driver,
    gpudirect,
    host_access,
    lifecycle,
    mig,
    runtime,
    sandbox_workloads,
    service_monitor,
    tolerations,
    upgrades,
    vgpu,
)

__all__ = ["CLUSTER_POLICY", "CLUSTER_POLICY_DELETION"]
