"""Groups of nodes as data: why they do not fit, and which devices of the first each request can use."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from policies.outcome import Reason  # noqa: TC001 - pydantic reads the annotation

__all__ = ["DeviceOutcome", "NodeGroup", "OutcomeState"]


class OutcomeState(StrEnum):
    """What a request finds of a device."""

    CHOSEN = "chosen"
    """The request would get it."""
    USABLE = "usable"
    """The request could get it."""
    IN_USE = "in use"
    """Others hold it, or too much of it."""
    UNSUITABLE = "unsuitable"
    """It cannot serve the request, whether it is in use or not."""


@dataclass(frozen=True, slots=True)
class DeviceOutcome:
    """What one request finds of some devices of a node."""

    claim: str
    """The name of the claim in the question; empty for devices of a device plugin."""
    request: str
    """The request, `gpu` or `gpu/large`; the resource for devices of a device plugin, `nvidia.com/gpu`."""
    state: OutcomeState
    count: int
    """The number of devices."""
    devices: tuple[str, ...] = ()
    """The names of the first devices; empty for devices of a device plugin, which have no names in the cluster."""
    reason: str = ""
    """The check that the devices do not pass, such as `in use` or `request selector`; empty if they can be used."""
    sentence: str = ""
    """Why they cannot be used, a predicate in the singular without a full stop: `is in use by team-b/train-0`."""
    holders: tuple[str, ...] = ()
    """The first holders of the devices: `team-b/train-0`."""


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes with the same reason, which is null if they fit."""

    count: int
    nodes: tuple[str, ...]
    """The first names, in the order of the cluster; `count` has the number of nodes."""
    fits: bool
    """True if each of the nodes fits now."""
    fits_if_empty: bool
    """True if each would fit if nothing were in use."""
    reason: Reason | None = None
    """The reason why the nodes do not fit; None if they fit. Of several, one that remains if nothing is in use."""
    devices: tuple[str, ...] = ()
    """The devices on the first node, as `request: gpu-0..gpu-3`; empty if it does not fit."""
    outcomes: tuple[DeviceOutcome, ...] = ()
    """What each request finds of the devices of the first node; of many devices, the first are named."""
    other_reasons: tuple[Reason, ...] = ()
    """Further reasons why all or some of the nodes do not fit."""
