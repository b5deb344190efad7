"""ConfigMaps that configure GPUs: for the device plugin, mig-parted and the DCGM exporter."""

from policies.configuration.config_maps import (  # noqa: F401 - these modules register their rules
    mig_profiles,
    plugin_replicas,
    plugin_sharing,
)
from policies.configuration.config_maps.dcgm_metrics import DCGM_METRICS
from policies.configuration.config_maps.mig_documents import MIG_PARTED
from policies.configuration.config_maps.plugin_documents import DEVICE_PLUGIN
from policies.configuration.config_maps.roles import Role

__all__ = ["CONFIG_MAPS"]

CONFIG_MAPS = {Role.DEVICE_PLUGIN: DEVICE_PLUGIN, Role.MIG_PARTED: MIG_PARTED, Role.DCGM_METRICS: DCGM_METRICS}
"""The checks of each role; a ConfigMap can have several."""
