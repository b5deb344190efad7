"""RDMA on nodes: what GPUDirect RDMA and GPUDirect Storage find there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.configuration.components.checks import COMPONENTS
from policies.configuration.usage import counted, listed
from policies.decision import Severity
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.objects import Object, name_of
from policies.kubernetes.paths import lookup
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.configuration.change import Change

_NFD = "feature.node.kubernetes.io/"
_MELLANOX = re.compile(r"pci-([0-9a-f]{4}_)?15b3\.present")
"""NVIDIA's (Mellanox's) network adapters, after the prefix of Node Feature Discovery, with or without device class."""
_KERNEL = re.compile(r"(\d+)\.(\d+)")
_DMA_BUF_SINCE = (5, 12)


@COMPONENTS.rule(
    "GA166",
    "Nodes must have what GPUDirect RDMA and GPUDirect Storage need",
    default=Severity.WARN,
    remedy="install NVIDIA's network adapters and the Network Operator first, or disable it",
    source="github.com/NVIDIA/gpu-operator issues 588, 448, 381; docs gpu-operator-rdma",
    rows=("D-02", "D-03", "D-06"),
)
def rdma_stack_on_nodes(change: Change) -> Iterator[Problem]:
    """With RDMA enabled the driver's pod waits for the network driver (MOFED), for ever where no adapter needs one.

    GPUDirect Storage over a network needs the same; from local NVMe it does not. On kernels from 5.12 on, the open
    kernel modules share memory by DMA-BUF, and the nvidia-peermem that `rdma.enabled` adds is only of use to old
    libraries.
    """
    driver = {"ClusterPolicy": ("driver",), "NVIDIADriver": ()}.get(change.kind)
    if driver is None:
        return
    nodes = _described(change)
    without = bool(nodes) and not any(_has_adapter(node) for node in nodes)
    names = counted(len(nodes), "GPU node", listed([name_of(node) for node in nodes]))
    rdma = change.flag(*driver, "rdma", "enabled")
    if rdma and without and not change.flag(*driver, "rdma", "useHostMofed"):
        text = f"makes the driver wait for MOFED, and no network adapter of NVIDIA is on {names}; it would never start"
        yield problem(change.at(*driver, "rdma", "enabled"), text)
    elif rdma and change.text(*driver, "kernelModuleType") == "open" and nodes and all(map(_shares_by_dma_buf, nodes)):
        text = f"loads nvidia-peermem, which kernels from 5.12 on, as on {names}, do not need with the open modules"
        remedy = "remove rdma and let applications use DMA-BUF, unless a library needs nvidia-peermem"
        yield problem(change.at(*driver, "rdma", "enabled"), text, remedy, severity=Severity.AUDIT)
    if change.flag("gds", "enabled") and without and not rdma:
        text = f"serves only local NVMe: no network adapter of NVIDIA is on {names}, and rdma is not enabled"
        remedy = "go on where the data is on local NVMe; for remote storage install the Network Operator first"
        yield problem(change.at("gds", "enabled"), text, remedy)


def _described(change: Change) -> Sequence[Object]:
    """The GPU nodes that the object is for, if Node Feature Discovery has described every one of them; what is missing then is not there."""
    found = change.facts.gpu_nodes()
    if found is UNKNOWN:
        return ()
    wanted = change.mapping("nodeSelector").items() if change.kind == "NVIDIADriver" else ()
    nodes = [node for node in found if all(labels_of(node).get(key) == value for key, value in wanted)]
    return nodes if all(any(key.startswith(_NFD) for key in labels_of(node)) for node in nodes) else ()


def _has_adapter(node: Object) -> bool:
    labels = labels_of(node)
    return any(_MELLANOX.fullmatch(key.removeprefix(_NFD)) for key in labels if key.startswith(_NFD))


def _shares_by_dma_buf(node: Object) -> bool:
    version = lookup(node, ("status", "nodeInfo", "kernelVersion"))
    match = _KERNEL.match(version) if isinstance(version, str) else None
    return match is not None and (int(match[1]), int(match[2])) >= _DMA_BUF_SINCE
