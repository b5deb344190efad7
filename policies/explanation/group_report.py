"""Groups of nodes as data: why they do not fit, and which devices of the first each request can use."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - pydantic reads the annotation
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

__all__ = ["DeviceOutcome", "NodeGroup", "OutcomeState", "Reason", "ReasonKind"]


class ReasonKind(StrEnum):
    """Why a node does not fit, in the order of the checks."""

    CORDONED = "cordoned"
    TAINT = "taint"
    NODE_SELECTOR = "node selector"
    RESOURCES = "resources"
    """The node has too little of a resource left (`cpu`, `nvidia.com/gpu`)."""
    CLAIM_ELSEWHERE = "claim elsewhere"
    """A claim has its devices already, which cannot be reached from here."""
    NO_DEVICES = "no devices"
    """The node has no devices."""
    POOL = "pool"
    """A pool is incomplete, invalid, or being replaced."""
    DEVICES = "devices"
    """Too few devices can serve a request; the details say why the others cannot."""
    COMBINATION = "combination"
    """Each request could be served alone, but not all together."""
    CONSTRAINT = "constraint"
    """The devices do not satisfy a constraint together."""
    GAVE_UP = "gave up"
    """Unknown, because there are too many combinations to try."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a group of nodes does not fit."""

    kind: ReasonKind
    sentence: str
    """For people, with numbers and names; without a full stop."""
    details: tuple[str, ...] = ()
    """More sentences without full stops, one for each kind of device: its holders, or what it lacks. They are about the
    first node of the group; on the other nodes, devices and holders may have other names."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """The reason as data. TAINT: `key`, `value`, `effect`. RESOURCES: `resource`, `asked`, `left`, `allocatable`
    (quantities as text). CLAIM_ELSEWHERE: `claim`. POOL: `pool`, `state`, `found`, `expected`. DEVICES: `claim`,
    `request`, `asked`, `usable`, and `rejected`, a list of `devices`, `reason`, `count`. CONSTRAINT: `claim`, `constraint`."""


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
    """Why the nodes do not fit; None if they fit."""
    devices: tuple[str, ...] = ()
    """The devices on the first node, as `request: gpu-0..gpu-3`; empty if it does not fit."""
    outcomes: tuple[DeviceOutcome, ...] = ()
    """What each request finds of the devices of the first node; of many devices, the first are named."""
