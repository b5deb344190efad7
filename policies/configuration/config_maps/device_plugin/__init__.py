"""Device-plugin ConfigMaps: time-slicing, MPS, flags; each key of `data` is a configuration.

GPU Feature Discovery and the MPS control daemon read the same files, so a broken one costs labels too.
"""

from policies.configuration.config_maps.device_plugin import (
    overrides,  # noqa: F401 - these modules register their checks
    replicas,  # noqa: F401 - these modules register their checks
    sharing,  # noqa: F401 - these modules register their checks
)
from policies.configuration.config_maps.device_plugin.documents import DEVICE_PLUGIN

__all__ = ["DEVICE_PLUGIN"]
