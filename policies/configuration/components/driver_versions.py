"""Driver versions: a branch for precompiled drivers, a full version for all others."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.configuration.checks import COMPONENTS, WITH_DRIVER
from policies.configuration.components.driver import Driver, drivers_of, os_of
from policies.configuration.named_objects import the_nodes
from policies.decision import Severity
from policies.kubernetes.nodes import labels_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from policies.configuration.change import Change
    from policies.kubernetes.objects import Object

_KERNEL = "feature.node.kubernetes.io/kernel-version.full"
_SYSTEMS = ("ubuntu", "rhel", "rhcos", "sles", "sl-micro")
_UBUNTU_KERNELS = ("generic", "aws", "azure", "nvidia", "oracle")
_NVIDIA = "nvcr.io/nvidia"
_NEVER_PUBLISHED = (
    *("amzn", "arch", "azurelinux", "bottlerocket", "buildroot", "cos", "debian", "fedora", "flatcar", "mariner"),
    *("nixos", "opensuse", "photon", "talos"),
)
"""Operating systems that NVIDIA has published no driver image for. Source: tags of nvcr.io/nvidia/driver; gpu-operator
issues 170, 418, 647, 709, 1212, 2225."""


@COMPONENTS.rule(
    "GA117",
    "A precompiled driver must be named by its branch, any other by its full version",
    default=Severity.DENY,
    remedy="write the version that the registry has a tag for",
    source="docs.nvidia.com GPU Operator, precompiled driver containers",
    rows=("C-01", "C-02"),
    kinds=WITH_DRIVER,
)
def version_form(change: Change) -> Iterator[Problem]:
    """Precompiled images are tagged `<branch>-<kernel>-<os>`, all others `<version>-<os>`.

    With the other form the operator composes a tag that no registry has, and the driver pods stay in ImagePullBackOff.
    """
    for driver in drivers_of(change):
        version, text, path = driver.version, driver.text("version"), driver.at("version")
        if version is not None and driver.is_precompiled and not version.is_branch:
            message = f'"{text}" is a full version, but precompiled drivers are tagged by branch: "{text}-<kernel>-<os>" does not exist'
            yield problem(path, message, f'write version: "{version.branch}", or set usePrecompiled: false')
        elif version is not None and version.is_branch and not driver.is_precompiled:
            message = (
                f'"{text}" is a branch, but only precompiled drivers are tagged by branch: "{text}-<os>" does not exist'
            )
            full = _FULL_VERSIONS.get(version.branch)
            example = f" such as {full}" if full else ""
            yield problem(path, message, f"write a full version of the branch{example}, or set usePrecompiled: true")


_FULL_VERSIONS = {580: "580.95.05", 595: "595.91.07"}


def _build_instead(driver: Driver) -> str:
    """A remedy with which the driver is built on the nodes: that takes a full version, not a branch."""
    version = driver.version
    if version is None or not version.is_branch:
        return "set usePrecompiled: false"
    full = _FULL_VERSIONS.get(version.branch)
    if full is None:
        return "build the driver, with usePrecompiled: false and its full version"
    return f"set usePrecompiled: false and version: {full}"


@COMPONENTS.rule(
    "GA119",
    "A driver image must exist for the operating systems and kernels of the nodes",
    default=Severity.DENY,
    remedy="set usePrecompiled: false",
    source="docs.nvidia.com GPU Operator, precompiled driver containers; github.com/NVIDIA/gpu-operator "
    "controllers/object_controls.go getKernelVersionsMap",
    rows=("C-06", "C-07"),
    kinds=WITH_DRIVER,
)
def precompiled_kernels(change: Change) -> Iterator[Problem]:
    """The operator makes a DaemonSet for each kernel of the GPU nodes, with an image of that kernel.

    NVIDIA publishes precompiled images for some operating systems and kernel flavours, on x86_64; on other nodes the pods
    wait for an image that does not exist. Two operating systems with the same kernel version stop the driver everywhere.
    Other drivers are compiled on the node, in an image for its operating system, which NVIDIA publishes for some only.
    """
    for driver in drivers_of(change):
        nodes, is_nvidias = driver.known_nodes(), driver.text("repository") in ("", _NVIDIA)
        if driver.is_precompiled:
            yield from _mixed_systems(driver, nodes)
            if is_nvidias:
                yield from _without_precompiled_image(driver, nodes)
        elif is_nvidias and not driver.is_for_vgpu:
            yield from _without_image(driver, nodes)


def _without_image(driver: Driver, nodes: Sequence[Object]) -> Iterator[Problem]:
    without = [node for node in nodes if os_of(node).startswith(_NEVER_PUBLISHED)]
    if without:
        systems = " and ".join(sorted({os_of(node) for node in without}))
        text = f"has no image for {the_nodes(without)}: NVIDIA publishes none for {systems}"
        remedy = (
            "install the driver on these nodes, which the operator detects, or build the image and name its repository"
        )
        message = f"{text}, so the driver pods would stay in ImagePullBackOff"
        yield problem(driver.at("repository"), message, remedy, severity=Severity.WARN)


def _mixed_systems(driver: Driver, nodes: Sequence[Object]) -> Iterator[Problem]:
    systems: defaultdict[str, set[str]] = defaultdict(set)
    for node in nodes:
        if (kernel := labels_of(node).get(_KERNEL)) and (os := os_of(node)):
            systems[kernel].add(os)
    for kernel, found in sorted(systems.items()):
        if len(found) > 1:
            error = f"different OS versions found for the same kernel version {kernel}, unsupported configuration"
            text = f"does not work with kernel {kernel} under {' and '.join(sorted(found))}; the operator would report: {error}"
            yield problem(driver.at("usePrecompiled"), text, _build_instead(driver))


def _without_precompiled_image(driver: Driver, nodes: Sequence[Object]) -> Iterator[Problem]:
    systems, kernels = (f"{', '.join(each[:-1])} and {each[-1]}" for each in (_SYSTEMS, _UBUNTU_KERNELS))
    checks: tuple[tuple[str, Callable[[Object], bool]], ...] = (
        ("for x86_64 only", _is_arm),
        (f"for {systems}", lambda node: bool(os_of(node)) and not os_of(node).startswith(_SYSTEMS)),
        (f"for the Ubuntu kernels {kernels}", _has_unusual_kernel),
    )
    for reason, has_none in checks:
        without = [node for node in nodes if has_none(node)]
        if without:
            text = f"has no image for {the_nodes(without)}; NVIDIA publishes precompiled drivers {reason}"
            remedy = f"{_build_instead(driver)}, or build the image and name its repository"
            yield problem(driver.at("usePrecompiled"), text, remedy, severity=Severity.WARN)


def _is_arm(node: Object) -> bool:
    return labels_of(node).get("kubernetes.io/arch", "amd64") != "amd64"


def _has_unusual_kernel(node: Object) -> bool:
    kernel = labels_of(node).get(_KERNEL, "")
    return os_of(node).startswith("ubuntu") and bool(kernel) and kernel.rpartition("-")[2] not in _UBUNTU_KERNELS
