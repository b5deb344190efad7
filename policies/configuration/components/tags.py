"""Tags: what the operator adds to them, and which do not exist."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.configuration.checks import COMPONENTS
from policies.configuration.components.component import Component, components_with
from policies.configuration.components.driver import Driver, os_of
from policies.configuration.components.images import IMAGE, usual_image
from policies.decision import Severity
from policies.kubernetes.paths import lookup
from policies.view import UNKNOWN, Unknown

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
"""Tags of NVIDIA's registry that exist only with a suffix, by image: what they look like without, and a suffix."""

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
)
def operating_system_added(change: Change) -> Iterator[Problem]:
    """Images with kernel modules are built for each operating system, and the operator appends that of the node.

    A tag that has it already gets it twice and is not found. To a digest nothing is appended, so every node gets the
    image of one operating system; and precompiled drivers need the kernel in the tag, for which a digest leaves no
    room.
    """
    for component in components_with(change, *IMAGE):
        if not component.gets_os:
            continue
        version = component.text("version")
        if version.startswith("sha256:"):
            yield from _digest(component)
        elif match := _OS_SUFFIX.search(version):
            os = match.group().lstrip("-")
            bare = version[: match.start()]
            if not component.steps or component.steps == ("driver",):
                # Precompiled tags have the kernel before the operating system: 580-5.15.0-102-generic-ubuntu22.04.
                bare = bare.partition("-")[0]
            yield problem(
                component.at("version"),
                f'"{version}" has the operating system, which the operator appends, so nodes would look for the tag '
                f'"{version}-{os}"',
                f'write version: "{bare}"',
            )


def _digest(component: Component) -> Iterator[Problem]:
    change, path = component.change, component.at("version")
    is_driver = not component.steps or component.steps == ("driver",)
    if is_driver and change.flag(*component.steps, "usePrecompiled"):
        text = "is a digest, and precompiled drivers are found by branch and kernel"
        if change.kind == "NVIDIADriver":
            text += "; the operator would report: specifying image digest is not supported when precompiled is enabled"
        yield problem(path, text, 'write a driver branch such as version: "580", or set usePrecompiled: false')
        return
    nodes = Driver(change, component.steps).nodes() if is_driver else change.facts.gpu_nodes()
    if nodes is UNKNOWN:
        if not _is_for_one_system(change):
            yield problem(
                path,
                "is a digest, so every node gets the image of one operating system; which ones the GPU nodes have is "
                "not known here",
                "write a tag where GPU nodes differ in their operating system",
                severity=Severity.WARN,
            )
        return
    systems = sorted({os for node in nodes if (os := os_of(node))})
    if len(systems) > 1:
        yield problem(
            path,
            f"is a digest, so every node gets the image of one operating system, and GPU nodes have {_listed(systems)}",
            "write a tag; the operator adds the operating system of each node",
        )


def _is_for_one_system(change: Change) -> bool:
    """Whether all nodes have one operating system by design: on OpenShift, and where each pool has an NVIDIADriver."""
    return change.kind == "NVIDIADriver" or change.flag("operator", "use_ocp_driver_toolkit")


def _listed(words: list[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}"


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

    `latest` does not exist for drivers, and for the others it means another image from day to day: the operator sees no
    change, so nothing is upgraded. A component without an image gets the one that the operator was installed with, which
    the Helm chart leaves out for most.
    """
    for component in components_with(change, *IMAGE):
        version, image = component.text("version"), component.text("image").rpartition("/")[2]
        suffixed, suffix = _SUFFIXED.get(image, (None, ""))
        if version == "latest":
            text = '"latest" is another image from day to day, and the operator sees no change to upgrade to'
            if component.gets_os:
                text = '"latest" is no version of a driver, and the operator would look for "latest-<os>"'
            yield problem(component.at("version"), text, "write a version")
        elif suffixed and component.text("repository").startswith("nvcr.io/nvidia") and suffixed.fullmatch(version):
            yield problem(
                component.at("version"),
                f'"{version}" lacks the suffix that tags of {image} have, so nodes would not find the image',
                f"write version: {version}{suffix}",
            )
        elif not any(component.text(field) for field in IMAGE):
            yield from _no_image(component)


def _no_image(component: Component) -> Iterator[Problem]:
    variable = _FALLBACKS.get(component.name)
    installed = _images_installed_with(component.change)
    if variable is None or installed is UNKNOWN or variable in installed:
        return
    yield problem(
        component.at(),
        "has no image, and the operator was installed without one; it would report: empty image path provided through "
        f"both ClusterPolicy CR and ENV {variable}",
        usual_image(component),
    )


def _images_installed_with(change: Change) -> set[str] | Unknown:
    """The environment of the operator, by name, where its Deployment is known."""
    deployment = change.facts.operator_object("Deployment", "gpu-operator")
    if not isinstance(deployment, dict):
        return UNKNOWN
    variables = lookup(deployment, ("spec", "template", "spec", "containers", 0, "env"))
    names = [lookup(variable, ("name",)) for variable in (variables if isinstance(variables, list) else [])]
    return {name for name in names if isinstance(name, str)}
