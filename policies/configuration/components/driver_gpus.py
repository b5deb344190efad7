"""Drivers and GPUs: the version and the kernel modules that the GPUs of the nodes need."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.configuration.change import APPLIED, applied_spec
from policies.configuration.checks import COMPONENTS, WITH_DRIVER
from policies.configuration.components.driver import Driver, drivers_of
from policies.configuration.named_objects import the_nodes
from policies.decision import Severity
from policies.kubernetes.nodes import allocatable, labels_of
from policies.kubernetes.paths import lookup
from policies.nvidia.driver_versions import (
    Need,
    driver_needs,
    needs_open_modules,
    needs_proprietary_modules,
)
from policies.nvidia.identifiers import FAMILY_LABEL, GPU_RESOURCE, PRODUCT_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change
    from policies.kubernetes.objects import Object

_EMBEDDED = re.compile(r"Orin|Tegra|Jetson|Xavier", re.IGNORECASE)
_CONSUMER = re.compile(r"GeForce", re.IGNORECASE)


@COMPONENTS.rule(
    "GA121",
    "The driver must be recent enough for the GPUs",
    default=Severity.WARN,
    remedy="raise version",
    source="docs.nvidia.com GPU Operator, platform support; github.com/NVIDIA/gpu-operator issues 1361",
    rows=("C-11", "C-12"),
    kinds=WITH_DRIVER,
)
def recent_driver(change: Change) -> Iterator[Problem]:
    """A driver that is older than a GPU does not find it, and the node has no GPU for Kubernetes.

    Some versions of branch 570 also leave pods that request whole GPUs pending on nodes that have MIG devices as well.
    """
    for driver in drivers_of(change):
        version = driver.version
        if version is None:
            continue
        path, written, nodes = driver.at("version"), driver.text("version"), driver.known_nodes()
        too_new: defaultdict[Need, list[Object]] = defaultdict(list)
        for node in nodes:
            need = driver_needs(labels_of(node))
            if need is not None and version.is_below(*need.version):
                too_new[need].append(node)
        for need, without in too_new.items():
            text = (
                f'"{written}" does not support the {need.gpu} GPUs of {the_nodes(without)}, which need {need} or later'
            )
            yield problem(path, text, f"write version: {need} or later")
        mixed = [node for node in nodes if _has_mig_and_whole_gpus(node)] if version.leaves_full_gpus_pending else []
        if mixed:
            text = f'"{written}" leaves pods that request {GPU_RESOURCE} pending on nodes with MIG devices: {the_nodes(mixed)}'
            yield problem(path, text, "write a later version such as 580.95.05")


def _has_mig_and_whole_gpus(node: Object) -> bool:
    offered = lookup(node, ("status", "allocatable"))
    names = [name for name in offered if isinstance(name, str)] if isinstance(offered, dict) else []
    has_mig = any(name.startswith("nvidia.com/mig-") and allocatable(node, name) != "0" for name in names)
    return has_mig and allocatable(node, GPU_RESOURCE) != "0"


@COMPONENTS.rule(
    "GA129",
    "GPUs must be supported by the operator",
    default=Severity.WARN,
    remedy="leave these nodes out with the label nvidia.com/gpu.deploy.driver=false",
    source="docs.nvidia.com GPU Operator, platform support",
    rows=("C-36",),
    kinds=WITH_DRIVER,
)
def supported_gpus(change: Change) -> Iterator[Problem]:
    """The driver container is made for the GPUs of data centres and workstations.

    On Jetson boards the driver is part of the operating system, and the container fails. GeForce cards usually work,
    without support from NVIDIA; this is audited only.
    """
    for driver in drivers_of(change):
        products = [(labels_of(node).get(PRODUCT_LABEL, ""), node) for node in driver.known_nodes()]
        embedded = [node for product, node in products if _EMBEDDED.search(product)]
        consumer = [node for product, node in products if _CONSUMER.search(product)]
        if embedded:
            text = (
                f"is deployed to {the_nodes(embedded)}, whose GPU is part of a Jetson; its driver cannot be installed"
            )
            yield problem(driver.at(), text)
        if consumer:
            text = f"is deployed to {the_nodes(consumer)} with GeForce GPUs, which NVIDIA does not support here"
            yield problem(driver.at(), text, severity=Severity.AUDIT)


@COMPONENTS.rule(
    "GA120",
    "The kernel module type must fit the driver and the GPUs",
    default=Severity.DENY,
    remedy="write kernelModuleType: open, or proprietary for GPUs older than Turing",
    source="docs.nvidia.com GPU Operator, getting started: kernelModuleType; platform support",
    rows=("C-08", "C-09", "C-10", "C-13", "S-12", "S-66"),
    kinds=WITH_DRIVER,
)
def kernel_module_type(change: Change) -> Iterator[Problem]:
    """GPUs before Turing need the proprietary modules; Blackwell and the GPUs of Grace need the open ones.

    With the other kind the module does not find the GPU and the driver pod restarts without end. `auto` leaves the choice
    to the driver's container, which can choose since 570.86.15 and 570.124.06; older ones do not know the word.
    """
    for driver in drivers_of(change):
        kind, path = driver.text("kernelModuleType"), driver.at("kernelModuleType")
        # Precompiled modules leave no choice. Containers of vGPU drivers are built with the site's own scripts.
        chooses = kind == "auto" and not driver.is_precompiled and not driver.is_for_vgpu
        if chooses and driver.version is not None and not driver.version.knows_auto:
            version = driver.text("version")
            text = f'"auto" needs driver 570.86.15, or 570.124.06 and later, to choose; version is "{version}"'
            remedy = "write kernelModuleType: open, or proprietary for GPUs older than Turing; or raise version"
            yield problem(path, text, remedy, severity=None if _is_written(driver) else Severity.WARN)
        yield from _other_modules(driver, kind)
        if driver.value("useOpenKernelModules") is True and kind == "proprietary":
            text = "contradicts kernelModuleType: proprietary, which wins"
            remedy = "remove it, or write kernelModuleType: open for the open modules"
            yield problem(driver.at("useOpenKernelModules"), text, remedy)


def _is_written(driver: Driver) -> bool:
    """True if the module type is in the manifest, rather than set by the API server, whose default it is."""
    document = driver.change.object
    if isinstance(lookup(document, APPLIED), str):
        return bool(lookup(applied_spec(document), (*driver.steps, "kernelModuleType")) == "auto")
    return lookup(document, ("metadata", "managedFields")) is None


def _other_modules(driver: Driver, kind: str) -> Iterator[Problem]:
    """GPUs that need other modules than the chosen kind."""
    path, own = driver.at("kernelModuleType"), "or give these nodes an NVIDIADriver of their own"
    nodes = driver.known_nodes() if kind in ("open", "proprietary") else ()
    old = [node for node in nodes if kind == "open" and needs_proprietary_modules(labels_of(node))]
    new = [node for node in nodes if kind == "proprietary" and needs_open_modules(labels_of(node))]
    if old:
        families = " and ".join(sorted({labels_of(node)[FAMILY_LABEL].capitalize() for node in old}))
        text = f'"open" does not work on {the_nodes(old)} with {families} GPUs, as the open modules begin with Turing'
        yield problem(path, text, f"write kernelModuleType: proprietary, {own}")
    if new:
        text = f'"proprietary" does not work on {the_nodes(new)}, whose GPUs have open modules only'
        yield problem(path, text, f"write kernelModuleType: open, {own}")
