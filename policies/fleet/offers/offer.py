"""The offer of a node, by its hardware and configuration: resources, labels and published devices."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from policies.fleet.offers.labels import LabelOffer, label_offer
from policies.fleet.offers.plugin import PluginOffer, plugin_offer
from policies.fleet.offers.published import published_slices

if TYPE_CHECKING:
    from policies.fleet.offers.hardware import Hardware
    from policies.fleet.offers.published import PublishedSlice
    from policies.fleet.offers.state import NodeState

__all__ = ["NodeOffer", "offer_of"]


@dataclass(frozen=True, slots=True)
class NodeOffer:
    """The offer of a node.

    Values are exact unless `plugin.refusal`, `labels.predicted` or `unpublished` say otherwise, or `estimated_sizes` of the
    devices. What does not change keeps the values that were measured.
    """

    plugin: PluginOffer = field(default_factory=PluginOffer)
    labels: LabelOffer = field(default_factory=LabelOffer)
    slices: tuple[PublishedSlice, ...] = ()
    """The slices of the DRA driver; empty if it does not run."""
    unpublished: str = ""
    """The reason why the slices cannot be predicted, as a clause; empty if they can."""


def offer_of(hardware: Hardware, state: NodeState) -> NodeOffer:
    """The offer of a node with this hardware in this state."""
    slices = published_slices(hardware, state)
    return NodeOffer(
        plugin_offer(hardware.gpus, state),
        label_offer(hardware, state),
        () if isinstance(slices, str) else slices,
        slices if isinstance(slices, str) else "",
    )
