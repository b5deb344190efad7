"""Nodes: labels that steer the GPU Operator."""

from policies.configuration.nodes import configs, mig, pods, workloads
from policies.configuration.nodes.checks import NODE

__all__ = ["NODE", "configs", "mig", "pods", "workloads"]
