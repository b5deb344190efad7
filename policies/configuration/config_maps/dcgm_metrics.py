"""DCGM exporter ConfigMaps: the metrics it collects, as CSV."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.configuration.checks import Checks

if TYPE_CHECKING:
    from policies.configuration.change import Change

__all__ = ["DCGM_METRICS"]

DCGM_METRICS: Checks[Change] = Checks()
