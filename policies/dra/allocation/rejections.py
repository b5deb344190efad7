"""Why a device cannot serve a request, one reason at a time."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Reason", "Rejection"]


class Reason(Enum):
    """The checks that a device has to pass, in the order in which Kubernetes makes them."""

    IN_USE = "in use"
    """Another claim holds it."""
    IN_USE_BY_CLAIM = "in use by this claim"
    """Admin access gives no device twice to one claim."""
    BINDING_CONDITIONS_OFF = "binding conditions are off"
    """It has binding conditions, and the cluster does not know them."""
    CLASS_SELECTOR = "class selector"
    REQUEST_SELECTOR = "request selector"
    OTHER_NODE = "other node"
    """Of its slice's devices, each with its own nodes, this one is not for the node."""
    NO_SUCH_CAPACITY = "no such capacity"
    """The request names a capacity that the device does not have."""
    CAPACITY_POLICY = "capacity policy"
    """The device's request policy does not allow the amount."""
    CAPACITY = "capacity"
    """Less is left than requested."""
    COUNTERS_OFF = "partitionable devices are off"
    """It consumes counters, and the cluster does not know them."""
    COUNTERS = "counters"
    """A counter that it shares with other devices does not suffice."""
    TAINT = "taint"
    CONSTRAINT = "constraint"


@dataclass(frozen=True, slots=True)
class Rejection:
    """One reason why a device cannot serve a request, with what it rests on."""

    reason: Reason
    index: int = -1
    """Of the selector in the class or request, or of the constraint in the claim."""
    name: str = ""
    """The selector's expression, the capacity's name, or the counter as `set/counter`."""
    taint: Mapping[str, Any] | None = None
    """The first taint that is not tolerated."""
    asked: int = 0
    """The requested amount of the capacity or counter, in billionths."""
    left: int = 0
    """How much of it is left, in billionths; of a capacity, negative when more is taken than there is."""
