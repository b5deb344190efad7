"""MIG: what MPS cannot share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.configuration.config_maps.device_plugin.configuration import CONFIGURATION
from policies.configuration.config_maps.device_plugin.usage import nodes_using, policy_strategy
from policies.configuration.usage import the_nodes
from policies.decision import Severity
from policies.kubernetes.nodes import labels_of
from policies.nvidia.identifiers import PRODUCT_LABEL
from policies.nvidia.products import Product
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.checks import Problem
    from policies.configuration.config_maps.device_plugin.configuration import Configuration
    from policies.kubernetes.objects import Object

__all__ = ["has_mig_devices"]

MIXED = "the device plugin would exit with: using --mig-strategy=mixed is not supported with MPS"


@CONFIGURATION.rule(
    "GA138",
    "MPS must share whole GPUs, not MIG devices",
    default=Severity.DENY,
    remedy="share MIG devices by timeSlicing, or whole GPUs by mps",
    source="github.com/NVIDIA/k8s-device-plugin cmd/nvidia-device-plugin/main.go, internal/lm/nvml.go",
    rows=("G-12", "G-13"),
)
def no_mps_with_mig(configuration: Configuration) -> Iterator[Problem]:
    """The MPS control daemon cannot start a server for a MIG device, and the plugin exits under the mixed strategy.

    On a node whose GPUs are cut by MIG, GPU Feature Discovery fails too, so that the node loses the labels that pods
    select it by. The strategy is the ClusterPolicy's where it has one, and the file's otherwise.
    """
    mps = configuration.strategy("mps")
    if mps is None:
        return
    at = configuration.embedded.problem
    steps, _ = configuration.find("flags", "migStrategy")
    of_policy = policy_strategy(configuration.change)
    if of_policy == "mixed":
        text = f"cannot be while spec.mig.strategy of the ClusterPolicy is mixed; {MIXED}"
        yield at(mps.steps, text, "share by timeSlicing, or write spec.mig.strategy: none", of_key=True)
    elif not of_policy and configuration.mig_strategy == "mixed":
        yield at(steps, f"is mixed, and mps shares GPUs below; {MIXED}", "write none, or share by timeSlicing")
    for resource in mps.resources():
        if resource.name.startswith("nvidia.com/mig-"):
            text = f"is {resource.name}; the device plugin would exit with: sharing using MPS is not supported for MIG devices"
            yield at((*resource.steps, "name"), text, "share it by timeSlicing")
    nodes = nodes_using(configuration.change, configuration.key)
    cut = [] if nodes is UNKNOWN else [node for node in nodes if has_mig_devices(node)]
    if cut and of_policy != "mixed":
        text = f"is for {the_nodes(cut)} too, with GPUs cut by MIG; the device plugin fails there"
        remedy = "share by timeSlicing, or give these nodes a configuration of their own"
        yield at(mps.steps, text, remedy, severity=Severity.WARN, of_key=True)


def has_mig_devices(node: Object) -> bool:
    """Whether the labels of a node tell of MIG devices on it."""
    labels = labels_of(node)
    if Product.parse(labels.get(PRODUCT_LABEL, "")).profile is not None:
        return True
    return any(
        name.startswith("nvidia.com/mig-") and name.endswith(".count") and value != "0"
        for name, value in labels.items()
    )
