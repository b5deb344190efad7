"""mig-parted ConfigMaps: how the GPUs of a node are cut into MIG devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.configuration.checks import Checks

if TYPE_CHECKING:
    from policies.configuration.change import Change

__all__ = ["MIG_PARTED"]

MIG_PARTED: Checks[Change] = Checks()
