"""GPU access: whether a request gives a container a GPU."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from policies.fleet.known_classes import GPU_TYPES

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["GPUAccess"]


class GPUAccess(Enum):
    """Whether a request gives a container a GPU, if the pod is scheduled."""

    CERTAIN = "certain"
    """It gives at least one GPU."""
    POSSIBLE = "possible"
    """It gives a GPU or another device."""
    NONE = "none"
    """It gives no GPU."""
    UNKNOWN = "unknown"
    """It depends on an object that is missing or cannot be seen."""

    @classmethod
    def by(cls, types: frozenset[str] | None) -> GPUAccess:
        """The access that a device gives whose type is one of these; None if nothing is known of the device."""
        if types is None:
            return cls.UNKNOWN
        if types.isdisjoint(GPU_TYPES):
            return cls.NONE
        return cls.CERTAIN if types <= GPU_TYPES else cls.POSSIBLE

    @classmethod
    def of_one(cls, alternatives: Iterable[GPUAccess]) -> GPUAccess:
        """The access that one of several alternatives gives, whichever it is; none if there are none."""
        found = frozenset(alternatives)
        if len(found) <= 1:
            return next(iter(found), cls.NONE)
        return cls.POSSIBLE if cls.CERTAIN in found or cls.POSSIBLE in found else cls.UNKNOWN

    @classmethod
    def of_all(cls, parts: Iterable[GPUAccess]) -> GPUAccess:
        """The access that several requests give together; none if there are none."""
        found = frozenset(parts)
        return next((each for each in (cls.CERTAIN, cls.POSSIBLE, cls.UNKNOWN) if each in found), cls.NONE)
