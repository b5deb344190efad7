"""Mounts of GPUs of the node, of their driver, and of the paths by which GPUs are handed out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from policies.access.checks import ACCESS, EXEMPT, request_or
from policies.access.node_places import OPEN_FILES, leads_to_open_file, normalised_path, shown_path
from policies.rules.decision import Severity
from policies.rules.registry import problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.access.node_places import HostMount, NodePlace
    from policies.access.subject import Container, Subject
    from policies.rules.registry import Problem

_DEVICE_LIST = normalised_path("/var/run/nvidia-container-devices")

_OF_GPUS = re.compile(r"/dev(?P<one>/nvidia[0-9]+|/char/195:(?!25[45]\Z)[0-9]+)?\Z")
"""The end of the path of one GPU's device node, or of the folder of all device nodes of a driver.

Source: Linux Documentation/admin-guide/devices.txt (195:254 and 195:255 belong to the driver and to no GPU).
"""


@ACCESS.rule(
    "GA604",
    "A container must not mount GPUs of the node, nor their driver without a GPU request",
    default=Severity.WARN,
    setting="access.mode",
    remedy=f"request nvidia.com/gpu: 1 in resources.limits, or remove the mount; {EXEMPT}",
    source="gpu-operator assets and controllers/object_controls.go",
)
def unrequested_mounts(subject: Subject) -> Iterator[Problem]:
    """Device nodes and driver come with a GPU; a pod that mounts them uses GPUs of other pods.

    A container that requests a GPU may need more of the driver, but gets the GPU itself: a mount of one or all GPUs is a
    warning in every mode. If the request is a claim, which can be replaced before the pod starts, or may give no GPU,
    such a mount is refused in mode `deny`. Paths count as the node resolves them, with `subPath` and `subPathExpr`.
    `/proc/<pid>/fd` and similar links count as GPUs, because only the process knows their targets. `/dev/vfio` has
    devices of every kind and is audited. A folder far above, such as `/` or `/dev`, is mounted for many reasons and is
    reported only beside another finding (GA609).
    """
    for container, mount in subject.host_mounts:
        place = _place_of_gpus(subject, mount)
        if place is None:
            continue
        if place.common:
            text = f"{container.title} mounts {mount.text} of the node: {place.what}"
            yield problem(mount.path, text, f"remove the mount; {EXEMPT}", severity=Severity.AUDIT)
        elif container.requests_gpu:
            severity = Severity.WARN if container.gets_gpu_whatever_changes else subject.severity
            yield from _other_gpus(container, mount, place, severity)
        else:
            text = f"{container.title} {container.lack} and mounts {mount.text} of the node: {place.what}"
            yield subject.problem(mount.path, text, request_or(container, "remove the mount"))


def _place_of_gpus(subject: Subject, mount: HostMount) -> NodePlace | None:
    if leads_to_open_file(mount.source):
        return OPEN_FILES
    return next((place for place in subject.node_places.gpus if place.covers(mount.source)), None)


def _other_gpus(container: Container, mount: HostMount, place: NodePlace, severity: Severity) -> Iterator[Problem]:
    """Mounts of other GPUs by a container that gets a GPU."""
    nodes = _OF_GPUS.search(mount.source)
    if place is OPEN_FILES or (nodes is not None and nodes["one"]):
        what = "it may be another pod's GPU"
    elif nodes is not None or (place.holds_device_nodes and mount.source == place.path):
        what = "other pods' GPUs may be among its device nodes"
    else:
        return
    text = f"{container.title} requests a GPU and mounts {mount.text} of the node: {what}"
    remedy = f"remove the mount: the GPU that it requests comes without one; {EXEMPT}"
    yield problem(mount.path, text, remedy, severity=severity)


@ACCESS.rule(
    "GA605",
    "Only components that hand out GPUs must mount the paths by which GPUs are handed out",
    default=Severity.WARN,
    setting="access.mode",
    remedy=(
        "remove the mount; exempt device plugins and drivers in access.exemptServiceAccounts or access.exemptNamespaces"
    ),
    source="k8s.io/kubelet pkg/apis/deviceplugin/v1beta1; tags.cncf.io/container-device-interface; gpu-operator assets",
)
def distribution(subject: Subject) -> Iterator[Problem]:
    """Containers get the GPUs that CDI specs, device plugins and drivers give them.

    A program that writes these specs or uses these sockets decides who gets GPUs. Reading CDI specs gives no access, so
    a mount of them with `readOnly: true` is allowed, as is `/var/lib/kubelet/pod-resources`, which is only informative.
    CSI drivers mount `plugins_registry`, many also `plugins` or all of `/var/lib/kubelet`, which contains the sockets, and
    agents of many kinds mount the sockets of container runtimes: these mounts are only audited.
    """
    for container, mount in subject.host_mounts:
        for place in subject.node_places.distribution:
            if place.covers(mount.source) and not (place.harmless_read_only and mount.read_only):
                text = f"{container.title} mounts {mount.text} of the node: {place.what}"
                severity = Severity.AUDIT if place.common else subject.severity
                yield problem(mount.path, text, severity=severity)
                break


@ACCESS.rule(
    "GA606",
    "A container must not name GPUs by volume mounts",
    default=Severity.WARN,
    setting="access.mode",
    remedy=f"request nvidia.com/gpu: 1 in resources.limits, and remove the mount; {EXEMPT}",
    source="nvidia-container-toolkit internal/config/image/cuda_image.go requestsFromMounts",
)
def device_list(subject: Subject) -> Iterator[Problem]:
    """The device plugin can name GPUs by mounts of `/dev/null` instead of NVIDIA_VISIBLE_DEVICES.

    NVIDIA's container runtime reads the names below /var/run/nvidia-container-devices, and any pod can
    mount it.
    """
    for container in subject.containers:
        for index, mount in container.items("volumeMounts"):
            target = mount.get("mountPath")
            if not isinstance(target, str) or "nvidia-container-devices" not in target:
                continue
            # The runtime compares texts, so `/var/run/nvidia-container-devicesall` names "all" too.
            listed = normalised_path(target)
            if listed.startswith(_DEVICE_LIST) and listed != _DEVICE_LIST:
                text = (
                    f"{container.title} mounts something at {shown_path(target)}: where NVIDIA's container runtime "
                    "accepts device lists as volume mounts, it gives the container what the path names"
                )
                path = container.path / "volumeMounts" / index / "mountPath"
                yield subject.problem(path, text, request_or(container, "remove the mount"))
