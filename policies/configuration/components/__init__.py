"""Components: what ClusterPolicy, NVIDIADriver and GPUCluster say alike of the containers they deploy.

Rules about the driver that hold for a ClusterPolicy's `spec.driver` and for an NVIDIADriver are here too.
"""

from policies.configuration.components import (
    containers,
    driver_gpus,
    driver_modules,
    driver_versions,
    images,
    pulling,
    tags,
)
from policies.configuration.components.checks import COMPONENTS

__all__ = [
    "COMPONENTS",
    "containers",
    "driver_gpus",
    "driver_modules",
    "driver_versions",
    "images",
    "pulling",
    "tags",
]
