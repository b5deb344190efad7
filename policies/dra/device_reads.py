"""Parts of a device that an expression reads.

They are apart from CEL, so that an offline review of a pod need not import its engine.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Read"]


class Read(NamedTuple):
    """One part of a device that an expression reads."""

    part: str
    """`driver`, `allowMultipleAllocations`, `attributes` or `capacity`."""
    domain: str | None = None
    """The domain, or None for all of them."""
    name: str | None = None
    """The name in the domain, None for all of them, or empty if only the domain's presence is tested."""
