"""State: how the GPUs of a node are cut and configured, and who hands them out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.nvidia.identifiers import GPU_RESOURCE, PRODUCT_LABEL
from policies.nvidia.plugin_configs import PluginConfig
from policies.nvidia.products import Product

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.fleet.offers.hardware import Cut

__all__ = ["NO_CONFIG", "DriverState", "NodeState", "config_by_labels"]


NO_CONFIG = PluginConfig(None)
"""A document that shares nothing."""


@dataclass(frozen=True, slots=True)
class DriverState:
    """The configuration of NVIDIA's DRA driver."""

    gates: frozenset[str] = frozenset()
    """The feature gates that are on: `DynamicMIG`, `ConsumableShares`."""
    shares: str = ""
    """`consumableShares`: a number, `memory` or `unlimited`; empty for whole devices."""
    is_combined: bool = False
    """True if counters and devices share slices, as Kubernetes 1.34 requires."""


@dataclass(frozen=True, slots=True)
class NodeState:
    """The configuration of a node's GPUs."""

    cut: Cut
    strategy: str = "none"
    """The MIG strategy: `none`, `single` or `mixed`."""
    config: PluginConfig = NO_CONFIG
    """What the device plugin and GPU Feature Discovery read."""
    has_plugin: bool = True
    """True if NVIDIA's device plugin runs on the node."""
    driver: DriverState | None = None
    """NVIDIA's DRA driver; None if it does not run on the node."""


def config_by_labels(labels: Mapping[str, str]) -> PluginConfig:
    """A document that shares GPUs as the labels of a node say."""
    strategy, replicas = labels.get("nvidia.com/gpu.sharing-strategy", ""), labels.get("nvidia.com/gpu.replicas", "")
    kind = {"time-slicing": "timeSlicing", "mps": "mps"}.get(strategy)
    if kind is None or not (replicas.isascii() and replicas.isdecimal()):
        return NO_CONFIG
    is_renamed = not Product.parse(labels.get(PRODUCT_LABEL, "")).shared
    shared = {"renameByDefault": is_renamed, "failRequestsGreaterThanOne": False}
    resources = [{"name": GPU_RESOURCE, "replicas": int(replicas)}]
    return PluginConfig({"sharing": {kind: {**shared, "resources": resources}}})
