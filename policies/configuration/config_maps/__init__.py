"""ConfigMaps that configure GPUs: for the device plugin, mig-parted and the DCGM exporter."""
