"""NVIDIADriver (`nvidia.com/v1alpha1`): which driver runs on which nodes."""

from policies.configuration.checks import NVIDIA_DRIVER
from policies.configuration.nvidia_driver import fields, node_selectors  # noqa: F401 - these register their checks

__all__ = ["NVIDIA_DRIVER"]
