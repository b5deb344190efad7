"""Nodes: labels that steer the GPU Operator."""

from policies.configuration.nodes import configs, mig  # noqa: F401 - these modules register their checks
from policies.configuration.nodes.labels import NODE

__all__ = ["NODE"]
