"""Device-plugin ConfigMaps: time-slicing, MPS, flags; each key of `data` is a configuration of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.configuration.checks import Checks

if TYPE_CHECKING:
    from policies.configuration.change import Change

__all__ = ["DEVICE_PLUGIN"]

DEVICE_PLUGIN: Checks[Change] = Checks()
