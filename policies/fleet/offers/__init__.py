"""Offers: the resources, labels and devices of a node, by its hardware and configuration."""

from policies.fleet.offers.hardware import Cut, Hardware, measured_sizes, read_hardware
from policies.fleet.offers.offer import NodeOffer, offer_of
from policies.fleet.offers.state import DriverState, NodeState, config_by_labels

__all__ = [
    "Cut",
    "DriverState",
    "Hardware",
    "NodeOffer",
    "NodeState",
    "config_by_labels",
    "measured_sizes",
    "offer_of",
    "read_hardware",
]
