"""Offers: the resources, labels and devices of a node, by its hardware and configuration."""

from policies.fleet.offers.hardware import (
    Cut,
    DriverState,
    Hardware,
    NodeState,
    config_by_labels,
    estimated_sizes,
    measured_sizes,
    possible_hardware,
    read_hardware,
)

__all__ = [
    "Cut",
    "DriverState",
    "Hardware",
    "NodeState",
    "config_by_labels",
    "estimated_sizes",
    "measured_sizes",
    "possible_hardware",
    "read_hardware",
]
