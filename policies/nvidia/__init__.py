"""Words of NVIDIA: extended resources, MIG profiles, GPU Feature Discovery labels, what is asked of a device."""
