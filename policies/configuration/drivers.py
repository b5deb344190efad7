"""Drivers of a ClusterPolicy or an NVIDIADriver: their nodes, versions and kernel modules."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from policies.configuration.change import WITH_DRIVER, Section
from policies.configuration.cluster_facts import the_nodes
from policies.fleet.device_plugin import node_workload
from policies.fleet.operands import is_deployed
from policies.kubernetes.names import format_list
from policies.kubernetes.nodes import allocatable, labels_of
from policies.kubernetes.objects import Object, lookup, name_of
from policies.kubernetes.view import UNKNOWN, Unknown
from policies.nvidia.identifiers import DEPLOY_DRIVER_LABEL, FAMILY_LABEL, GPU_RESOURCE, PRODUCT_LABEL
from policies.nvidia.products import (
    DriverVersion,
    Need,
    driver_needs,
    needs_open_modules,
    needs_proprietary_modules,
)
from policies.rules.checks import Problem
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.configuration.change import Change


_OS_ID = "feature.node.kubernetes.io/system-os_release.ID"
_OS_VERSION = "feature.node.kubernetes.io/system-os_release.VERSION_ID"


class Driver(Section):
    """A driver that the operator deploys."""

    @property
    def is_precompiled(self) -> bool:
        """True if the image contains the kernel modules."""
        return self.flag("usePrecompiled")

    @property
    def is_for_vgpu(self) -> bool:
        """True for a vGPU driver; sites build its image themselves."""
        return self.text("driverType").startswith("vgpu") or "vgpu" in self.text("image").lower()

    @property
    def version(self) -> DriverVersion | None:
        """The version; None if it is missing or invalid."""
        return DriverVersion.parse(self.text("version"))

    def nodes(self) -> Sequence[Object] | Unknown:
        """The GPU nodes that get this driver, without nodes that bring their own or that run virtual machines."""
        nodes = self.change.facts.gpu_nodes()
        if nodes is UNKNOWN:
            return UNKNOWN
        policy = self.change.facts.cluster_policy() if self.change.kind != "ClusterPolicy" else self.change.object
        return [
            node
            for node in nodes
            if labels_of(node).get(DEPLOY_DRIVER_LABEL, "true") == "true"
            and node_workload(labels_of(node), policy) == "container"
            and self._is_for(node)
        ]

    def known_nodes(self) -> Sequence[Object]:
        """The GPU nodes that get this driver; empty if the nodes are unknown."""
        nodes = self.nodes()
        return () if nodes is UNKNOWN else nodes

    def _is_for(self, node: Object) -> bool:
        if self.steps:
            return True
        if not self.change.flag("default"):
            return _selects(self.change.mapping("nodeSelector"), node)
        for other in self.change.facts.view.known_objects("NVIDIADriver"):
            selector, is_default = (lookup(other, ("spec", field)) for field in ("nodeSelector", "default"))
            if name_of(other) != self.change.name and is_default is not True and _selects(selector, node):
                return False
        return True


def drivers_of(change: Change) -> Iterator[Driver]:
    """The driver that a change describes, if the operator deploys it."""
    if change.kind == "NVIDIADriver":
        yield Driver(change, ())
    elif change.kind == "ClusterPolicy" and is_deployed(change.object, "driver"):
        yield Driver(change, ("driver",))


def _selects(selector: Any, node: Object) -> bool:
    labels, wanted = labels_of(node), selector if isinstance(selector, dict) else {}
    return all(labels.get(key) == value for key, value in wanted.items())


_MAJOR_ONLY = ("ol", "rhel", "rocky")
"""The operating systems whose driver tags leave the minor version out.

Source: github.com/NVIDIA/gpu-operator controllers/state_manager.go getGPUNodeOSInfo, internal/state/nodepool.go getOSTag.
"""


def os_of(node: Object) -> str:
    """A node's operating system as driver tags spell it, `ubuntu22.04` or `rhel9`; empty if it is unknown."""
    labels = labels_of(node)
    name, version = labels.get(_OS_ID, ""), labels.get(_OS_VERSION, "")
    return name + (version.partition(".")[0] if name in _MAJOR_ONLY else version)


_KERNEL = "feature.node.kubernetes.io/kernel-version.full"
_PRECOMPILED_SYSTEMS = ("ubuntu", "rhel", "rhcos", "sles", "sl-micro")
"""The operating systems with precompiled images. Source: docs.nvidia.com GPU Operator, platform support."""
_UBUNTU_KERNELS = ("generic", "aws", "azure", "nvidia", "oracle")
"""The flavours of kernels with precompiled images. Source: docs.nvidia.com GPU Operator, precompiled driver containers."""
_NVIDIA = "nvcr.io/nvidia"
_PUBLISHED = ("ubuntu", "rhel", "rhcos", "rocky", "sles", "sl-micro", "centos7", "centos8")
"""The operating systems that NVIDIA publishes driver images for, or did for old drivers, as tags begin.

Source: github.com/NVIDIA/gpu-driver-container .nvidia-ci.yml; github.com/NVIDIA/gpu-operator issues 2336, 2911; tags of
nvcr.io/nvidia/driver.
"""


@WITH_DRIVER.rule(
    "GA117",
    "A precompiled driver must be named by its branch, any other by its full version",
    remedy="write the version that the registry has a tag for",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go resolveDriverTag; docs.nvidia.com GPU Operator, "
    "precompiled driver containers",
    rows=("C-01", "C-02"),
)
def version_form(change: Change) -> Iterator[Problem]:
    """Precompiled images are tagged `<branch>-<kernel>-<os>`, all others `<version>-<os>`.

    With the other form, or with the `v` or `R` of other names before it, the operator composes a tag that NVIDIA's registry
    does not have, and the driver pods stay in ImagePullBackOff. Other registries may have any tag, so there it is only warned about.
    """
    for driver in drivers_of(change):
        registry = driver.text("repository")
        is_nvidias = registry in ("", _NVIDIA)
        severity = None if is_nvidias else Severity.WARN
        outcome = "does not exist" if is_nvidias else f'must exist in "{registry}"'
        version, text, path = driver.version, driver.text("version"), driver.at("version")
        if version is not None and driver.is_precompiled and not version.is_branch:
            message = f'"{text}" is a full version, but precompiled drivers are tagged by branch: "{text}-<kernel>-<os>" {outcome}'
            remedy = f'write version: "{version.branch}", or set usePrecompiled: false'
            yield Problem(path, message, remedy, severity=severity)
        elif version is not None and version.is_branch and not driver.is_precompiled:
            message = f'"{text}" is a branch, but only precompiled drivers are tagged by branch'
            message += f': "{text}-<os>" {outcome}'
            yield Problem(path, message, _full_version(version), severity=severity)
        elif text[:1] in _LETTERS and (meant := DriverVersion.parse(text[1:])) is not None:
            message = f'"{text}" begins with a letter, and no tag of a driver does: "{text}-<os>" {outcome}'
            remedy = f'write version: "{meant.branch if driver.is_precompiled else text[1:]}"'
            if meant.is_branch and not driver.is_precompiled:
                remedy = _full_version(meant)
            yield Problem(path, message, remedy, severity=severity)


_LETTERS = ("v", "V", "r", "R")
"""First letters of versions in tags of Git, and of branches in NVIDIA's documents."""
_FULL_VERSIONS = {580: "580.95.05", 595: "595.91.07"}


def _full_version(branch: DriverVersion) -> str:
    """A remedy for a branch where images are not precompiled."""
    full = _FULL_VERSIONS.get(branch.branch)
    example = f" such as {full}" if full else ""
    return f"write a full version of the branch{example}, or set usePrecompiled: true"


def _build_instead(driver: Driver) -> str:
    """A remedy with which the driver is built on the nodes: that takes a full version, not a branch."""
    version = driver.version
    if version is None or not version.is_branch:
        return "set usePrecompiled: false"
    full = _FULL_VERSIONS.get(version.branch)
    if full is None:
        return "build the driver, with usePrecompiled: false and its full version"
    return f"set usePrecompiled: false and version: {full}"


@WITH_DRIVER.rule(
    "GA119",
    "A driver image must exist for the operating systems and kernels of the nodes",
    remedy="set usePrecompiled: false",
    source="docs.nvidia.com GPU Operator, precompiled driver containers; github.com/NVIDIA/gpu-operator "
    "controllers/object_controls.go getKernelVersionsMap; github.com/NVIDIA/gpu-driver-container .nvidia-ci.yml",
    rows=("C-06", "C-07"),
)
def precompiled_kernels(change: Change) -> Iterator[Problem]:
    """The operator makes a DaemonSet for each kernel of the GPU nodes, with an image of that kernel.

    NVIDIA publishes precompiled images for some operating systems and kernel flavours, on x86_64; on other nodes the pods
    wait for an image that does not exist. For a ClusterPolicy, two operating systems with the same kernel version stop the
    driver everywhere. Other drivers are compiled on the node, in an image for its operating system, which NVIDIA publishes
    for some only.
    """
    for driver in drivers_of(change):
        nodes, is_nvidias = driver.known_nodes(), driver.text("repository") in ("", _NVIDIA)
        if driver.is_precompiled:
            if change.kind == "ClusterPolicy":
                yield from _mixed_systems(driver, nodes)
            if is_nvidias:
                yield from _without_precompiled_image(driver, nodes)
        elif is_nvidias and not driver.is_for_vgpu:
            yield from _without_image(driver, nodes)


def _without_image(driver: Driver, nodes: Sequence[Object]) -> Iterator[Problem]:
    """The problem of nodes whose operating system NVIDIA publishes no image for."""
    without = [node for node in nodes if labels_of(node).get(_OS_ID) and not os_of(node).startswith(_PUBLISHED)]
    if without:
        systems = format_list(sorted({os_of(node) for node in without}), 5)
        text = f"has no image for {the_nodes(without)}: NVIDIA publishes none for {systems}"
        text += ", so the driver pods would stay in ImagePullBackOff"
        remedy = (
            "install the driver on these nodes, which the operator detects, or build the image and name its repository"
        )
        yield Problem(driver.at("repository"), text, remedy, severity=Severity.WARN)


def _mixed_systems(driver: Driver, nodes: Sequence[Object]) -> Iterator[Problem]:
    """The problems of kernels that nodes with different operating systems run."""
    systems: defaultdict[str, set[str]] = defaultdict(set)
    for node in nodes:
        labels = labels_of(node)
        if (kernel := labels.get(_KERNEL)) and (os := labels.get(_OS_ID, "") + labels.get(_OS_VERSION, "")):
            systems[kernel].add(os)
    for kernel, found in sorted(systems.items()):
        if len(found) > 1:
            error = f"different OS versions found for the same kernel version {kernel}, unsupported configuration"
            text = f"does not work with kernel {kernel} under {' and '.join(sorted(found))}; the operator would report: {error}"
            yield Problem(driver.at("usePrecompiled"), text, _build_instead(driver))


def _without_precompiled_image(driver: Driver, nodes: Sequence[Object]) -> Iterator[Problem]:
    """The problems of nodes that NVIDIA publishes no precompiled image for."""
    systems, kernels = (f"{', '.join(each[:-1])} and {each[-1]}" for each in (_PRECOMPILED_SYSTEMS, _UBUNTU_KERNELS))
    found = [(node, os_of(node), labels_of(node).get(_KERNEL, "")) for node in nodes]
    arm = [node for node in nodes if labels_of(node).get("kubernetes.io/arch", "amd64") != "amd64"]
    other = [node for node, os, _ in found if os and not os.startswith(_PRECOMPILED_SYSTEMS)]
    ubuntu = [(node, kernel.rpartition("-")[2]) for node, os, kernel in found if os.startswith("ubuntu") and kernel]
    unusual = [node for node, flavour in ubuntu if flavour not in _UBUNTU_KERNELS]
    for reason, without in (
        ("for x86_64 only", arm),
        (f"for {systems}", other),
        (f"for the Ubuntu kernels {kernels}", unusual),
    ):
        if without:
            text = f"has no image for {the_nodes(without)}; NVIDIA publishes precompiled drivers {reason}"
            remedy = f"{_build_instead(driver)}, or build the image and name its repository"
            yield Problem(driver.at("usePrecompiled"), text, remedy, severity=Severity.WARN)


_EMBEDDED = re.compile(r"Orin|Tegra|Jetson|Xavier", re.IGNORECASE)
_CONSUMER = re.compile(r"GeForce", re.IGNORECASE)


@WITH_DRIVER.rule(
    "GA121",
    "The driver must be recent enough for the GPUs",
    default=Severity.WARN,
    remedy="raise version",
    source="docs.nvidia.com GPU Operator, platform support; github.com/NVIDIA/gpu-operator issues 1361",
    rows=("C-11", "C-12"),
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
            gpus = f"the {need.gpu} GPUs of {the_nodes(without)}"
            text = f'"{written}" does not support {gpus}, which need {need} or later'
            yield Problem(path, text, f"write version: {need} or later")
        mixed = [node for node in nodes if _has_mig_and_whole_gpus(node)] if version.leaves_full_gpus_pending else []
        if mixed:
            text = f'"{written}" leaves pods that request {GPU_RESOURCE} pending on nodes with MIG devices: {the_nodes(mixed)}'
            yield Problem(path, text, "write a later version such as 580.95.05")


def _has_mig_and_whole_gpus(node: Object) -> bool:
    offered = lookup(node, ("status", "allocatable"))
    names = [name for name in offered if isinstance(name, str)] if isinstance(offered, dict) else []
    has_mig = any(name.startswith("nvidia.com/mig-") and allocatable(node, name) != "0" for name in names)
    return has_mig and allocatable(node, GPU_RESOURCE) != "0"


@WITH_DRIVER.rule(
    "GA129",
    "GPUs must be supported by the operator",
    default=Severity.WARN,
    remedy="leave these nodes out with the label nvidia.com/gpu.deploy.driver=false",
    source="docs.nvidia.com GPU Operator, platform support",
    rows=("C-36",),
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
            text = f"is deployed to {the_nodes(embedded)}, whose GPU is part of a Jetson"
            yield Problem(driver.at(), f"{text}; its driver cannot be installed")
        if consumer:
            text = f"is deployed to {the_nodes(consumer)} with GeForce GPUs, which NVIDIA does not support here"
            yield Problem(driver.at(), text, severity=Severity.AUDIT)


@WITH_DRIVER.rule(
    "GA120",
    "The kernel module type must fit the driver and the GPUs",
    remedy="write kernelModuleType: open, or proprietary for GPUs older than Turing",
    source="docs.nvidia.com GPU Operator, getting started: kernelModuleType; platform support; "
    "github.com/NVIDIA/gpu-driver-container ubuntu24.04/nvidia-driver _resolve_kernel_type; "
    "github.com/NVIDIA/gpu-operator api/nvidia/v1/clusterpolicy_types.go OpenKernelModulesEnabled",
    rows=("C-08", "C-09", "C-10", "C-13", "S-12", "S-66"),
)
def kernel_module_type(change: Change) -> Iterator[Problem]:
    """GPUs before Turing need the proprietary modules; Blackwell and the GPUs of Grace need the open ones.

    With the other kind the module does not find the GPU and the driver pod restarts without end. `auto` leaves the choice
    to the driver's container, which can choose since 570.86.15 and 570.124.06; older ones take the modules that are usual
    for their branch: the proprietary ones before 560.
    """
    for driver in drivers_of(change):
        kind, path = driver.text("kernelModuleType"), driver.at("kernelModuleType")
        # Precompiled modules leave no choice. Containers of vGPU drivers are built with the site's own scripts.
        chooses = kind == "auto" and not driver.is_precompiled and not driver.is_for_vgpu
        if chooses and driver.version is not None and not driver.version.knows_auto:
            version = driver.text("version")
            text = f'"auto" needs driver 570.86.15, or 570.124.06 and later, to choose; version is "{version}"'
            remedy = "write kernelModuleType: open, or proprietary for GPUs older than Turing; or raise version"
            yield Problem(path, text, remedy, severity=Severity.WARN)
        yield from _other_modules(driver, kind)
        if driver.value("useOpenKernelModules") is True and kind == "proprietary":
            text = "contradicts kernelModuleType: proprietary, which wins"
            remedy = "remove it, or write kernelModuleType: open for the open modules"
            yield Problem(driver.at("useOpenKernelModules"), text, remedy, severity=Severity.WARN)


def _other_modules(driver: Driver, kind: str) -> Iterator[Problem]:
    """GPUs that need other modules than the chosen kind."""
    path, own = driver.at("kernelModuleType"), "or give these nodes an NVIDIADriver of their own"
    nodes = driver.known_nodes() if kind in ("open", "proprietary") else ()
    old = [node for node in nodes if kind == "open" and needs_proprietary_modules(labels_of(node))]
    new = [node for node in nodes if kind == "proprietary" and needs_open_modules(labels_of(node))]
    if old:
        families = " and ".join(sorted({labels_of(node)[FAMILY_LABEL].capitalize() for node in old}))
        text = f'"open" does not work on {the_nodes(old)} with {families} GPUs, as the open modules begin with Turing'
        yield Problem(path, text, f"write kernelModuleType: proprietary, {own}")
    if new:
        text = f'"proprietary" does not work on {the_nodes(new)}, whose GPUs have open modules only'
        yield Problem(path, text, f"write kernelModuleType: open, {own}")
