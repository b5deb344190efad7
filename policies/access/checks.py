"""The checks of access to GPUs, in the order in which they are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Checks

if TYPE_CHECKING:
    from policies.access.subject import Subject

__all__ = ["ACCESS", "CIRCUMSTANCES"]

ACCESS: Checks[Subject] = Checks()
"""What takes GPUs by itself."""

CIRCUMSTANCES: Checks[Subject] = Checks()
"""What is nothing by itself, and makes more of what `ACCESS` finds in the same pod."""
