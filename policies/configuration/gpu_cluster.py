"""GPUCluster (`nvidia.com/v1alpha1`): GPUs by DRA instead of the device plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.configuration.checks import Checks

if TYPE_CHECKING:
    from policies.configuration.change import Change

__all__ = ["GPU_CLUSTER"]

GPU_CLUSTER: Checks[Change] = Checks()
