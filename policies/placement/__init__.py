"""Places pods: what lets a GPU pod run where its GPU is."""

from policies.placement.gpu_pods import gets_gpu, may_get_gpu
from policies.placement.tolerations import keep_tolerations, tolerate_gpu_nodes

__all__ = ["gets_gpu", "keep_tolerations", "may_get_gpu", "tolerate_gpu_nodes"]
