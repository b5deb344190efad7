"""Places pods: what lets a GPU pod run where its GPU is."""

from policies.placement.tolerations import keep_tolerations, tolerate_gpu_nodes

__all__ = ["keep_tolerations", "tolerate_gpu_nodes"]
