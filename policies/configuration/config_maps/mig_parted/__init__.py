"""mig-parted ConfigMaps: how the GPUs of a node are cut into MIG devices."""

from policies.configuration.config_maps.mig_parted import documents, grammar, names, profiles, reach
from policies.configuration.config_maps.mig_parted.documents import MIG_PARTED

__all__ = ["MIG_PARTED", "documents", "grammar", "names", "profiles", "reach"]
