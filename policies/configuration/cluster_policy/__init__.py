"""ClusterPolicy (`nvidia.com/v1`): how the GPU Operator sets up every GPU node."""
