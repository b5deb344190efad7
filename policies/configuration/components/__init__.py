"""Components: the containers that the GPU Operator deploys.

Rules about the driver of a ClusterPolicy that hold for an NVIDIADriver too are here.
"""

from policies.configuration.change import COMPONENTS
from policies.configuration.components import (
    containers,  # noqa: F401 - these modules register their checks
    driver_objects,  # noqa: F401 - these modules register their checks
    driver_versions,  # noqa: F401 - these modules register their checks
    images,  # noqa: F401 - these modules register their checks
)

__all__ = ["COMPONENTS"]
