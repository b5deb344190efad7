"""ClusterPolicy (`nvidia.com/v1`): how the GPU Operator sets up every GPU node."""

from policies.configuration.cluster_policy import (
    daemonsets,
    device_plugin,
    driver,
    lifecycle,
    mig,
    monitoring,
    rdma,
    runtime,
    sandbox,
    upgrades,
)
from policies.configuration.cluster_policy.checks import CLUSTER_POLICY

__all__ = [
    "CLUSTER_POLICY",
    "daemonsets",
    "device_plugin",
    "driver",
    "lifecycle",
    "mig",
    "monitoring",
    "rdma",
    "runtime",
    "sandbox",
    "upgrades",
]
