"""NVIDIADriver (`nvidia.com/v1alpha1`): which driver runs on which nodes."""

from policies.configuration.nvidia_driver import dropped, images, mounted, selected_nodes, selectors
from policies.configuration.nvidia_driver.checks import NVIDIA_DRIVER

__all__ = ["NVIDIA_DRIVER", "dropped", "images", "mounted", "selected_nodes", "selectors"]
