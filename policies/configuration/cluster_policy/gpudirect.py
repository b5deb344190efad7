"""GPUDirect RDMA, GPUDirect Storage and GDRCopy: `spec.driver.rdma`, `spec.gds` and `spec.gdrcopy`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.configuration.checks import COMPONENTS, WITH_DRIVER
from policies.configuration.named_objects import the_nodes
from policies.decision import Severity
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.paths import lookup
from policies.kubernetes.yaml import YAMLError, load_document
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.configuration.change import Change, Section
    from policies.kubernetes.objects import Object

_OPEN_SINCE = (2, 17, 5)
"""The first GDS driver that only the open kernel modules can load."""
_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?")
_OVERRULED = {
    "gdsEnabled": ("gds", "GDS_ENABLED"),
    "mofedEnabled": ("gds", "MOFED_ENABLED"),
    "gdrcopyEnabled": ("gdrcopy", "GDRCOPY_ENABLED"),
}
"""Flags of a device-plugin configuration, what switches the same in a ClusterPolicy, and by which variable."""


def _driver(change: Change) -> Section | None:
    """The driver's settings, of a ClusterPolicy or of an NVIDIADriver; None in a GPUCluster."""
    steps = {"ClusterPolicy": ("driver",), "NVIDIADriver": ()}.get(change.kind)
    return None if steps is None else change.section(*steps)


@COMPONENTS.rule(
    "GA165",
    "Settings of RDMA, GPUDirect Storage and GDRCopy must not be overruled by others",
    default=Severity.WARN,
    remedy="write rdma.enabled: true beside it, or remove it",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go",
    rows=("D-01", "D-10", "S-59"),
    kinds=WITH_DRIVER,
)
def settings_take_effect(change: Change) -> Iterator[Problem]:
    """The operator reads `useHostMofed` only if RDMA is enabled, so alone it changes nothing.

    It also sets environment variables of the device plugin for GPUDirect Storage and GDRCopy; these win over the flags in
    the plugin's ConfigMap.
    """
    driver = _driver(change)
    if driver is not None and driver.flag("rdma", "useHostMofed") and not driver.flag("rdma", "enabled"):
        text = "has no effect, because the operator reads it only if rdma.enabled is true"
        yield problem(driver.at("rdma", "useHostMofed"), text)
    if change.kind == "ClusterPolicy":
        yield from _overruled_flags(change)


def _overruled_flags(change: Change) -> Iterator[Problem]:
    name = change.text("devicePlugin", "config", "name")
    config_map = change.facts.operator_object("ConfigMap", name) if name else None
    data = lookup(config_map, ("data",))
    for key, text in data.items() if isinstance(data, dict) else ():
        try:
            flags = lookup(load_document(text).value, ("flags",)) if isinstance(text, str) else None
        except YAMLError:
            continue  # the rules of the ConfigMap report it
        for flag, (component, variable) in _OVERRULED.items():
            if change.flag(component, "enabled") and lookup(flags, (flag,)) is False:
                message = f'overrules flags.{flag}: false of "{key}" in ConfigMap "{name}": {variable} is set to true'
                remedy = f"remove {flag} from the ConfigMap, or disable {component} here"
                yield problem(change.at(component, "enabled"), message, remedy)


@COMPONENTS.rule(
    "GA167",
    "GPUDirect Storage must run on the open kernel modules",
    default=Severity.DENY,
    remedy="write kernelModuleType: open, or disable gds",
    source="github.com/NVIDIA/gpu-operator api/nvidia/v1alpha1/nvidiadriver_types.go, docs gpu-operator-rdma",
    rows=("D-04", "D-05"),
    kinds=WITH_DRIVER,
)
def gds_on_open_modules(change: Change) -> Iterator[Problem]:
    """Since version 2.17.5 nvidia-fs cannot be loaded beside the proprietary kernel modules.

    For a ClusterPolicy the operator does not check that, and the driver pods fail on every node. For an NVIDIADriver it
    does, and stops: `auto`, the default, is not enough there, although it often chooses the open modules.
    """
    driver = _driver(change)
    if driver is None or not change.flag("gds", "enabled") or not _needs_open_modules(change.text("gds", "version")):
        return
    chosen, path = driver.text("kernelModuleType") or "auto", driver.at("kernelModuleType")
    if change.kind == "NVIDIADriver" and chosen != "open":
        error = f"GPUDirect Storage driver '{change.name}' is only supported with NVIDIA OpenRM drivers"
        yield problem(path, f'is "{chosen}", and gds needs "open"; the operator would report: {error}')
    elif change.kind == "ClusterPolicy" and chosen == "proprietary" and driver.flag("enabled", default=True):
        text = (
            'is "proprietary"; nvidia-fs since 2.17.5 can be loaded only beside the open kernel modules, so gds fails'
        )
        yield problem(path, text)


def _needs_open_modules(version: str) -> bool:
    """True if a GDS version needs the open modules; a digest and the default count as recent."""
    match = _VERSION.match(version)
    return match is None or tuple(int(part or 0) for part in match.groups()) >= _OPEN_SINCE


@COMPONENTS.rule(
    "GA168",
    "GPUDirect Storage and GDRCopy must name their images",
    default=Severity.DENY,
    remedy="write repository, image and version",
    source="github.com/NVIDIA/gpu-operator api/nvidia/v1/clusterpolicy_types.go, api/nvidia/v1alpha1/nvidiadriver_types.go",
    rows=("D-09",),
    kinds=WITH_DRIVER,
)
def sidecars_name_images(change: Change) -> Iterator[Problem]:
    """Both are containers of the driver's pod without a default image, so no driver is deployed.

    Only OpenShift's installation of the operator includes an image of GDRCopy, for ClusterPolicies and not for
    NVIDIADrivers.
    """
    if _driver(change) is None:
        return
    for component, image in (("gds", "nvidia-fs"), ("gdrcopy", "gdrdrv")):
        named = any(change.value(component, part) for part in ("repository", "image", "version"))
        if change.flag(component, "enabled") and not named and not _has_default_image(change, component):
            text = "is enabled without an image, and there is no default; the driver would not be deployed at all"
            remedy = f"write repository: nvcr.io/nvidia/cloud-native, image: {image} and a version in {component}"
            yield problem(change.at(component, "enabled"), text, remedy)


def _has_default_image(change: Change, component: str) -> bool:
    """True if the operator was, or may have been, installed with a custom image."""
    if change.kind != "ClusterPolicy":
        return False
    variables = change.facts.operator_variables()
    if variables is not UNKNOWN:
        return f"{component.upper()}_IMAGE" in variables
    return component == "gdrcopy" and (
        change.name == "gpu-cluster-policy"
        or change.flag("operator", "use_ocp_driver_toolkit")
        or bool(change.facts.nodes_with("node.openshift.io/os_id"))
    )


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
    kinds=WITH_DRIVER,
)
def rdma_stack_on_nodes(change: Change) -> Iterator[Problem]:
    """With RDMA enabled the driver's pod waits for the network driver (MOFED), maybe without end.

    GPUDirect Storage over a network needs the same; from local NVMe it does not. On kernels since 5.12, the open kernel
    modules share memory by DMA-BUF, and only old libraries need the nvidia-peermem that `rdma.enabled` loads.
    """
    driver = _driver(change)
    if driver is None:
        return
    nodes = _described_nodes(change)
    without, names = bool(nodes) and not any(map(_has_adapter, nodes)), the_nodes(nodes, "GPU node")
    rdma = driver.flag("rdma", "enabled")
    if rdma and without and not driver.flag("rdma", "useHostMofed"):
        text = f"makes the driver wait for MOFED without end, because no network adapter of NVIDIA is on {names}"
        yield problem(driver.at("rdma", "enabled"), text)
    elif rdma and driver.text("kernelModuleType") == "open" and nodes and all(map(_shares_by_dma_buf, nodes)):
        text = f"loads nvidia-peermem, which the open modules do not need on kernels since 5.12, as on {names}"
        remedy = "remove rdma and let applications use DMA-BUF, unless a library needs nvidia-peermem"
        yield problem(driver.at("rdma", "enabled"), text, remedy, severity=Severity.AUDIT)
    if change.flag("gds", "enabled") and without and not rdma:
        text = f"serves only local NVMe: no network adapter of NVIDIA is on {names}, and rdma is not enabled"
        remedy = "keep it if the data is on local NVMe; for remote storage install the Network Operator first"
        yield problem(change.at("gds", "enabled"), text, remedy)


def _described_nodes(change: Change) -> Sequence[Object]:
    """The GPU nodes of the object; empty if Node Feature Discovery has not labelled all of them."""
    wanted = change.mapping("nodeSelector").items() if change.kind == "NVIDIADriver" else ()
    nodes = [
        node
        for node in change.facts.known_gpu_nodes()
        if all(labels_of(node).get(key) == value for key, value in wanted)
    ]
    return nodes if all(any(key.startswith(_NFD) for key in labels_of(node)) for node in nodes) else ()


def _has_adapter(node: Object) -> bool:
    labels = labels_of(node)
    return any(_MELLANOX.fullmatch(key.removeprefix(_NFD)) for key in labels if key.startswith(_NFD))


def _shares_by_dma_buf(node: Object) -> bool:
    version = lookup(node, ("status", "nodeInfo", "kernelVersion"))
    match = _KERNEL.match(version) if isinstance(version, str) else None
    return match is not None and (int(match[1]), int(match[2])) >= _DMA_BUF_SINCE
