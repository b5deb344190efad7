"""Tags of images: what the operator appends to them, and which do not exist."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.configuration.checks import COMPONENTS, WITH_DRIVER
from policies.configuration.components.component import Component, components_with
from policies.configuration.components.driver import Driver, os_of
from policies.configuration.components.images import IMAGE, usual_image
from policies.decision import Severity
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change

_OS_SUFFIX = re.compile(
    r"-(ubuntu|debian|rhel|rhcos|centos|rocky|ol|sles|sl-micro|amzn|fedora|flatcar|ubi)[0-9][0-9.]*(-.*)?"
)

_SUFFIXED = {
    "dcgm": (re.compile(r"[0-9]+\.[0-9]+\.[0-9]+-[0-9]+"), "-ubuntu24.04"),
    "dcgm-exporter": (re.compile(r"[0-9]+\.[0-9]+\.[0-9]+-[0-9]+\.[0-9]+\.[0-9]+"), "-distroless"),
    "container-toolkit": (re.compile(r"v1\.(?:[0-9]|1[0-6])\.[0-9]+"), "-ubuntu20.04"),
}
"""Tags of NVIDIA's registry that exist only with a suffix, by image: their pattern without it, and a suffix."""

_FALLBACKS = {
    "driver": "DRIVER_IMAGE",
    "driver.manager": "DRIVER_MANAGER_IMAGE",
    "toolkit": "CONTAINER_TOOLKIT_IMAGE",
    "devicePlugin": "DEVICE_PLUGIN_IMAGE",
    "dcgm": "DCGM_IMAGE",
    "dcgmExporter": "DCGM_EXPORTER_IMAGE",
    "gfd": "GFD_IMAGE",
    "migManager": "MIG_MANAGER_IMAGE",
}
"""The variable of the operator that holds the image to use where a component names none.

Not of what contains other kernel modules: GPUDirect Storage, GDRCopy and vGPU have rules of their own.
"""


@COMPONENTS.rule(
    "GA112",
    "A driver version must not contain the operating system, which the operator adds",
    default=Severity.DENY,
    remedy="write the version alone",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go resolveDriverTag",
    rows=("B-05", "B-06", "B-10", "B-11"),
    kinds=WITH_DRIVER,
)
def operating_system_added(change: Change) -> Iterator[Problem]:
    """Images with kernel modules are built for an operating system, which the operator appends.

    If the tag has it already, it is appended twice and the tag does not exist. Nothing is appended to a digest, so every
    node gets the image of one operating system. Precompiled drivers need the kernel in the tag, which a digest cannot
    have.
    """
    for component in components_with(change, *IMAGE):
        version = component.text("version") if component.gets_os else ""
        if version.startswith("sha256:"):
            yield from _digest(component)
        elif match := _OS_SUFFIX.search(version):
            os, bare = match.group().lstrip("-"), version[: match.start()]
            # Precompiled tags have the kernel before the operating system: 580-5.15.0-102-generic-ubuntu22.04.
            bare = bare.partition("-")[0] if component.is_driver else bare
            text = f'"{version}" has the operating system, which the operator appends: the tag "{version}-{os}" does not exist'
            yield problem(component.at("version"), text, f'write version: "{bare}"')


def _digest(component: Component) -> Iterator[Problem]:
    change, path = component.change, component.at("version")
    if component.is_driver and component.flag("usePrecompiled"):
        text = "is a digest, and precompiled drivers are found by branch and kernel"
        if change.kind == "NVIDIADriver":
            text += "; the operator would report: specifying image digest is not supported when precompiled is enabled"
        yield problem(path, text, 'write a driver branch such as version: "580", or set usePrecompiled: false')
        return
    nodes = Driver(change, component.steps).nodes() if component.is_driver else change.facts.gpu_nodes()
    every_node = "is a digest, so every node gets the image of one operating system"
    if nodes is UNKNOWN:
        # On OpenShift, and if each pool has an NVIDIADriver, all nodes have one operating system by design.
        if change.kind != "NVIDIADriver" and not change.flag("operator", "use_ocp_driver_toolkit"):
            text = f"{every_node}; the operating systems of the GPU nodes are not known here"
            remedy = "write a tag where GPU nodes differ in their operating system"
            yield problem(path, text, remedy, severity=Severity.WARN)
        return
    systems = sorted({os for node in nodes if (os := os_of(node))})
    if len(systems) > 1:
        text = f"{every_node}, and GPU nodes have {' and '.join(systems)}"
        yield problem(path, text, "write a tag; the operator adds the operating system of each node")


@COMPONENTS.rule(
    "GA113",
    "Images must be named by tags that exist",
    default=Severity.WARN,
    remedy="write a tag that the registry has",
    source="github.com/NVIDIA/gpu-operator deployments/gpu-operator/values.yaml; tags on nvcr.io",
    rows=("B-02", "B-07", "B-08"),
)
def existing_tag(change: Change) -> Iterator[Problem]:
    """A tag that the registry does not have leaves the component's pods in ImagePullBackOff on every node.

    `latest` does not exist for drivers. For other images it changes from day to day without a change that the operator
    sees, so nothing is upgraded. A component without an image gets the operator's default, which the Helm chart sets for
    few components only.
    """
    variables = change.facts.operator_variables()
    for component in components_with(change, *IMAGE):
        version, image = component.text("version"), component.text("image").rpartition("/")[2]
        suffixed, suffix = _SUFFIXED.get(image, (None, ""))
        variable = _FALLBACKS.get(component.name)
        if version == "latest":
            text = '"latest" changes from day to day, and the operator sees no change to upgrade to'
            if component.gets_os:
                text = '"latest" is not a version of a driver, and the operator would look for "latest-<os>"'
            yield problem(component.at("version"), text, "write a version")
        elif suffixed and component.text("repository").startswith("nvcr.io/nvidia") and suffixed.fullmatch(version):
            text = f'"{version}" lacks the suffix of the tags of {image}, so nodes would not find the image'
            yield problem(component.at("version"), text, f"write version: {version}{suffix}")
        elif any(component.text(field) for field in IMAGE) or variables is UNKNOWN:
            continue
        elif variable is not None and variable not in variables:
            text = f"has no image; the operator would report: empty image path provided through both ClusterPolicy CR and ENV {variable}"
            yield problem(component.at(), text, usual_image(component))
