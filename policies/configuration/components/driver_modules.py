"""Kernel modules: open or proprietary, and what the driver version and the GPUs demand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from policies.checks import Problem, problem
from policies.configuration.components.checks import COMPONENTS
from policies.configuration.components.driver import Driver, drivers_of, named_nodes
from policies.decision import Severity
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.paths import lookup
from policies.nvidia.driver_versions import needs_open_modules, needs_proprietary_modules
from policies.nvidia.identifiers import FAMILY_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change

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
