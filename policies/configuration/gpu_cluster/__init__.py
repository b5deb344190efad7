"""GPUCluster (`nvidia.com/v1alpha1`): GPUs by DRA instead of the device plugin."""

from policies.configuration.gpu_cluster import dra_driver, surroundings
from policies.configuration.gpu_cluster.checks import GPU_CLUSTER

__all__ = ["GPU_CLUSTER", "dra_driver", "surroundings"]
