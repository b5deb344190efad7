"""Components: the containers that the GPU Operator deploys.

Rules about the driver of a ClusterPolicy that hold for an NVIDIADriver too are here.
"""

from policies.configuration.checks import COMPONENTS
from policies.configuration.components import (  # noqa: F401 - these modules register their checks
    containers,
    driver_gpus,
    driver_objects,
    driver_versions,
    images,
    tags,
)

__all__ = ["COMPONENTS"]
