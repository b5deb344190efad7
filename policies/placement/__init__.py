"""Places pods: what lets a GPU pod run where its GPU is."""

from policies.placement.place import TOLERATIONS, keep_tolerations, missing_tolerations, tolerate_gpu_nodes

__all__ = ["TOLERATIONS", "keep_tolerations", "missing_tolerations", "tolerate_gpu_nodes"]
