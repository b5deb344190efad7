"""What NVIDIA's DRA driver gets to read: its configs in claims, templates and classes, and ComputeDomains.

The rules are registered in the order in which they are told: whether the driver can read a config, whether it accepts
it, and whether it comes to anything.
"""

# isort: off
from policies.dra.claims.nvidia import (
    kinds,
    decoding,
    sharing,
    gates,
    time_slicing,
    mps,
    pinned_memory,
    vfio,
    domain_ids,
    prioritized,
    device_types,
    precedence,
    compute_domain_configs,
    compute_domains,
)

__all__ = [
    "compute_domain_configs",
    "compute_domains",
    "decoding",
    "device_types",
    "domain_ids",
    "gates",
    "kinds",
    "mps",
    "pinned_memory",
    "precedence",
    "prioritized",
    "sharing",
    "time_slicing",
    "vfio",
]
