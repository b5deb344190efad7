"""Devices of a small cluster, and selectors about them."""

from __future__ import annotations

from policies.analyses.selectors import analyze, selector_set_of_expression
from policies.rules.settings import DEFAULTS
from tests.explain.conftest import device_class, gpu, gpus, resource_slice
from webhook.cluster.manifests import ManifestsView

__all__ = ["ARCHITECTURE", "CLASS", "MEMORY", "analysis_of", "cluster", "device_class", "gpu", "gpus", "resource_slice"]

CLASS = device_class()
PRODUCT = 'device.attributes["gpu.nvidia.com"].productName'
ARCHITECTURE = f'{PRODUCT} == "NVIDIA H100 80GB HBM3"'
MEMORY = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("60Gi")) >= 0'


def cluster(*objects):
    """Two nodes with H100, one with two T4, and a channel of another driver."""
    channel = {"name": "channel-0", "attributes": {"type": {"string": "channel"}}}
    return ManifestsView(
        [
            CLASS,
            resource_slice(gpus(2), "node-1"),
            resource_slice(gpus(3), "node-2"),
            resource_slice(gpus(2, product="Tesla T4", memory="15Gi"), "node-3"),
            resource_slice([channel], "node-1", driver="compute-domain.nvidia.com"),
            *objects,
        ]
    )


def analysis_of(expression, edit=None, *, of_class="gpu.nvidia.com", view=None):
    """The analysis of an expression for the devices of a class."""
    return analyze(selector_set_of_expression(expression, of_class), view or cluster(), DEFAULTS, edit)
