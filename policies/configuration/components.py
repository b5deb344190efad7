"""Components: what ClusterPolicy, NVIDIADriver and GPUCluster say of every container image they deploy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.configuration.checks import Checks

if TYPE_CHECKING:
    from policies.configuration.change import Change

__all__ = ["COMPONENTS"]

COMPONENTS: Checks[Change] = Checks()
