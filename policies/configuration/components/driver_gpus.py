"""Drivers and GPUs: the version and the kernel modules that the GPUs of the nodes need."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from policies.checks import Problem, problem
from policies.configuration.checks import COMPONENTS
from policies.configuration.components.driver import Driver, drivers_of, named_nodes
from policies.decision import Severity
from policies.kubernetes.nodes import allocatable, labels_of
from policies.kubernetes.paths import lookup
from policies.nvidia.driver_versions import (
    DriverVersion,
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
)
def recent_driver(change: Change) -> Iterator[Problem]:
    """A driver that is older than a GPU does not find it, and the node has no GPU for Kubernetes.

    Some versions of branch 570 also leave pods that ask for whole GPUs pending on nodes that have MIG devices as well.
    """
    for driver in drivers_of(change):
        version = driver.version
        if version is not None:
            yield from _too_old(driver, version)
            yield from _pending(driver, version)


def _too_old(driver: Driver, version: DriverVersion) -> Iterator[Problem]:
    lacking: defaultdict[Need, list[Object]] = defaultdict(list)
    for node in driver.known_nodes():
        need = driver_needs(labels_of(node))
        if need is not None and version.is_below(*need.version):
            lacking[need].append(node)
    for need, nodes in lacking.items():
        yield problem(
            driver.at("version"),
            f'"{driver.text("version")}" does not know the {need.gpu} GPUs of {named_nodes(nodes)}, which need {need} '
            "or later",
            f"write version: {need} or later",
        )


def _pending(driver: Driver, version: DriverVersion) -> Iterator[Problem]:
    nodes = [node for node in driver.known_nodes() if _has_both(node)] if version.leaves_full_gpus_pending else []
    if nodes:
        yield problem(
            driver.at("version"),
            f'"{driver.text("version")}" leaves pods that ask for nvidia.com/gpu pending where a node has MIG devices '
            f"as well: {named_nodes(nodes)}",
            "write a later version such as 580.95.05",
        )


def _has_both(node: Object) -> bool:
    offered = lookup(node, ("status", "allocatable"))
    names = offered if isinstance(offered, dict) else {}
    has_mig = any(
        isinstance(name, str) and name.startswith("nvidia.com/mig-") and allocatable(node, name) != "0"
        for name in names
    )
    return has_mig and allocatable(node, GPU_RESOURCE) != "0"


@COMPONENTS.rule(
    "GA129",
    "GPUs must be supported by the operator",
    default=Severity.WARN,
    remedy="leave these nodes out with the label nvidia.com/gpu.deploy.driver=false",
    source="docs.nvidia.com GPU Operator, platform support",
    rows=("C-36",),
)
def supported_gpus(change: Change) -> Iterator[Problem]:
    """The driver container is made for the GPUs of data centres and workstations.

    On Jetson boards the GPU is part of the system and its driver part of the operating system: the container fails
    there. GeForce cards usually work, without support from NVIDIA; that is noted and not warned of.
    """
    for driver in drivers_of(change):
        nodes = driver.known_nodes()
        embedded = [node for node in nodes if _EMBEDDED.search(labels_of(node).get(PRODUCT_LABEL, ""))]
        consumer = [node for node in nodes if _CONSUMER.search(labels_of(node).get(PRODUCT_LABEL, ""))]
        if embedded:
            text = (
                f"is deployed to {named_nodes(embedded)}, whose GPU is part of a Jetson; its driver cannot be installed"
            )
            yield problem(driver.at(), text)
        if consumer:
            text = f"is deployed to {named_nodes(consumer)} with GeForce GPUs, which NVIDIA does not support here"
            yield problem(driver.at(), text, severity=Severity.AUDIT)


_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@COMPONENTS.rule(
    "GA120",
    "The kernel module type must fit the driver and the GPUs",
    default=Severity.DENY,
    remedy="write kernelModuleType: open, or proprietary for GPUs older than Turing",
    source="docs.nvidia.com GPU Operator, getting started: kernelModuleType; platform support",
    rows=("C-08", "C-09", "C-10", "C-13", "S-12", "S-66"),
)
def kernel_module_type(change: Change) -> Iterator[Problem]:
    """GPUs older than Turing work with the proprietary modules only, Blackwell and the GPUs of Grace with the open only.

    With the other kind the module does not find the GPU and the driver pod restarts for ever. `auto` leaves the choice
    to the driver's container, which can choose since 570.86.15 and 570.124.06; older ones do not know the word.
    """
    for driver in drivers_of(change):
        yield from _auto(driver)
        yield from _for_gpus(driver)
        kind, path = driver.text("kernelModuleType"), driver.at("useOpenKernelModules")
        if driver.value("useOpenKernelModules") is True and kind == "proprietary":
            text = "contradicts kernelModuleType: proprietary, which is the one that counts"
            yield problem(path, text, "remove it, and write kernelModuleType: open where that is what you want")


def _auto(driver: Driver) -> Iterator[Problem]:
    version = driver.version
    if driver.text("kernelModuleType") != "auto" or driver.precompiled or driver.for_vgpu:
        return  # precompiled modules leave no choice; containers of vGPU drivers are built with the site's own scripts
    if version is None or version.knows_auto:
        return
    yield problem(
        driver.at("kernelModuleType"),
        f'"auto" needs a driver container that can choose: 570.86.15, or 570.124.06 and later; version is '
        f'"{driver.text("version")}"',
        "write kernelModuleType: open, or proprietary for GPUs older than Turing; or raise version",
        severity=None if _is_written(driver) else Severity.WARN,
    )


def _is_written(driver: Driver) -> bool:
    """Whether somebody wrote the module type, rather than the API server, whose default it is."""
    annotations = lookup(driver.change.object, ("metadata", "annotations"))
    applied: Any = annotations.get(_APPLIED) if isinstance(annotations, dict) else None
    if isinstance(applied, str):
        try:
            written: Any = lookup(json.loads(applied), ("spec", *driver.steps, "kernelModuleType"))
        except (ValueError, RecursionError):
            return False
        return bool(written == "auto")
    return lookup(driver.change.object, ("metadata", "managedFields")) is None


def _for_gpus(driver: Driver) -> Iterator[Problem]:
    kind = driver.text("kernelModuleType")
    nodes = driver.known_nodes() if kind in ("open", "proprietary") else ()
    if kind == "open" and (old := [node for node in nodes if needs_proprietary_modules(labels_of(node))]):
        families = " and ".join(sorted({labels_of(node)[FAMILY_LABEL].capitalize() for node in old}))
        yield problem(
            driver.at("kernelModuleType"),
            f'"open" does not work on {named_nodes(old)} with {families} GPUs, as the open modules begin with Turing',
            "write kernelModuleType: proprietary, or give these nodes an NVIDIADriver of their own",
        )
    if kind == "proprietary" and (new := [node for node in nodes if needs_open_modules(labels_of(node))]):
        yield problem(
            driver.at("kernelModuleType"),
            f'"proprietary" does not work on {named_nodes(new)}, whose GPUs have open modules only',
            "write kernelModuleType: open, or give these nodes an NVIDIADriver of their own",
        )
