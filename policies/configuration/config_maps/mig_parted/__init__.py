"""mig-parted ConfigMaps: how the GPUs of a node are divided into MIG devices."""

from policies.configuration.config_maps.mig_parted import (
    documents,  # noqa: F401 - these modules register their checks
    profiles,  # noqa: F401 - these modules register their checks
)
from policies.configuration.config_maps.mig_parted.documents import MIG_PARTED

__all__ = ["MIG_PARTED"]
