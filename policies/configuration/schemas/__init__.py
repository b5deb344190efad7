"""The schemas of NVIDIA's custom resources."""

from policies.configuration.schemas.cluster_policy import CLUSTER_POLICY
from policies.configuration.schemas.gpu_cluster import GPU_CLUSTER
from policies.configuration.schemas.nvidia_driver import NVIDIA_DRIVER

__all__ = ["SCHEMAS"]

SCHEMAS = {"ClusterPolicy": CLUSTER_POLICY, "NVIDIADriver": NVIDIA_DRIVER, "GPUCluster": GPU_CLUSTER}
"""By kind; each is of the object's `spec`."""
