"""Other ways to GPUs: mounts of a node's paths, and NVIDIA's container runtime and CDI."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from policies.access.node_places import OPEN_FILES, PROCESS_ROOTS, leads_to_open_file, normalised_path, shown_path
from policies.access.subject import EXEMPT, RECREATE, request_or
from policies.fleet import GPUAccess
from policies.kubernetes.names import shown
from policies.kubernetes.objects import FieldPath, lookup, name_of
from policies.kubernetes.view import UNKNOWN, ClusterView
from policies.nvidia.container_toolkit import RUNTIME_HANDLERS
from policies.nvidia.identifiers import VENDOR_PREFIX
from policies.rules.checks import PODS, Problem
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.access.node_places import HostMount, NodePlace
    from policies.access.subject import Container, Subject
    from policies.kubernetes.objects import Object


_DEVICE_LIST = normalised_path("/var/run/nvidia-container-devices")

_OF_GPUS = re.compile(r"/dev(?P<one>/nvidia[0-9]+|/char/195:(?!25[45]\Z)[0-9]+)?\Z")
"""The end of the path of one GPU's device node, or of the folder of all device nodes of a driver.

Source: Linux Documentation/admin-guide/devices.txt (195:254 and 195:255 belong to the driver and to no GPU).
"""

ONE_DEVICE = "/dev(?:/nvidia[0-9]+)?$"
"""The same without links, in the syntax of RE2."""
DEVICE_LIST = f"(?s)^{PROCESS_ROOTS}(?:/var)?{_DEVICE_LIST}."
"""The paths below the folder of the device list, in the syntax of RE2, as `node_places.paths_expression` has them."""


@PODS.rule(
    "GA604",
    "A container must not mount GPUs of the node, nor their driver without a GPU request",
    default=Severity.WARN,
    setting="access.mode",
    remedy="request nvidia.com/gpu: 1 in resources.limits, or remove the mount",
    administrator=EXEMPT,
    source="github.com/NVIDIA/gpu-operator assets/state-driver/0500_daemonset.yaml, controllers/object_controls.go "
    "transformForDriverInstallDir, TransformToolkit",
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
            yield Problem(mount.path, text, "remove the mount", severity=Severity.AUDIT)
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
    remedy = "remove the mount: the GPU that it requests comes without one"
    yield Problem(mount.path, text, remedy, severity=severity)


@PODS.rule(
    "GA605",
    "Only components that hand out GPUs must mount the paths by which GPUs are handed out",
    default=Severity.WARN,
    setting="access.mode",
    remedy="remove the mount",
    administrator="exempt device plugins and drivers in access.exemptServiceAccounts or access.exemptNamespaces",
    source="k8s.io/kubelet pkg/apis/deviceplugin/v1beta1/constants.go DevicePluginPath; "
    "tags.cncf.io/container-device-interface pkg/cdi/spec-dirs.go DefaultSpecDirs; github.com/NVIDIA/gpu-operator "
    "assets/state-device-plugin/0500_daemonset.yaml",
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
                yield Problem(mount.path, text, severity=severity)
                break


@PODS.rule(
    "GA606",
    "A container must not name GPUs by volume mounts",
    default=Severity.WARN,
    setting="access.mode",
    remedy="request nvidia.com/gpu: 1 in resources.limits, and remove the mount",
    administrator=EXEMPT,
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


@PODS.rule(
    "GA603",
    "A pod without a GPU request must not use NVIDIA's container runtime",
    default=Severity.WARN,
    setting="access.mode",
    remedy=(
        "request nvidia.com/gpu: 1 in resources.limits, remove runtimeClassName, or set NVIDIA_VISIBLE_DEVICES to void "
        "in every container"
    ),
    administrator=EXEMPT,
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go transformRuntimeClass; nvidia-container-toolkit "
    "internal/config/image/cuda_image.go VisibleDevices",
)
def unrequested_runtime(subject: Subject) -> Iterator[Problem]:
    """NVIDIA's container runtime gives GPUs to containers that name them, and images can.

    CUDA images set NVIDIA_VISIBLE_DEVICES to all. Under NVIDIA's runtime a container of such an image gets every GPU of
    the node, unless it requests some and the device plugin chooses them. In a pod that requests GPUs, the other
    containers, and those whose request may give no GPU, are only audited: most are sidecars whose images set nothing, and
    the RuntimeClass applies to every container of a pod; GA608 and GA610 refuse those that certainly get GPUs. If an
    update changes the image of a container, or adds an ephemeral container, that container is reviewed.
    """
    name, handler = subject.spec.get("runtimeClassName"), nvidia_handler(subject)
    if handler is None:
        return
    left_to_images = [each for each in subject.images if _is_left_to_its_image(each)]
    runtime = f"is {shown(name)}" if handler == name else f"is {shown(name)} with the handler {shown(handler)}"
    path = FieldPath(("spec", "runtimeClassName"))
    if any(container.requests_gpu for container in subject.pod_containers):
        for container in left_to_images:
            text = (
                f"{runtime}, NVIDIA's container runtime, also for {container.title}, {container.doubt}: if its image "
                "sets NVIDIA_VISIBLE_DEVICES, as CUDA images do, it gets every GPU of the node"
            )
            remedy = f"set NVIDIA_VISIBLE_DEVICES to void in {container.title}" if subject.containers else RECREATE
            yield Problem(path, text, remedy, severity=Severity.AUDIT)
    elif left_to_images:
        who, remedy = "no container requests a GPU", None
        if not subject.is_created:
            added = "set NVIDIA_VISIBLE_DEVICES to void in the debug container: it cannot request GPUs"
            remedy = added if subject.containers else RECREATE
        for container in subject.pod_containers:
            if container.loss is not None:
                who = f"{container.title} {container.lack}"
                if subject.is_created:
                    remedy = (
                        f"remove {container.loss.field} or runtimeClassName, or set NVIDIA_VISIBLE_DEVICES to void in "
                        "every container"
                    )
                break
        text = (
            f"{runtime}, NVIDIA's container runtime, and {who}: an image that sets "
            "NVIDIA_VISIBLE_DEVICES, as CUDA images do, gets every GPU of the node"
        )
        yield subject.problem(path, text, remedy)


def _is_left_to_its_image(container: Container) -> bool:
    """True if its image may choose its GPUs: neither a claim nor the device plugin certainly does."""
    return not (container.access is GPUAccess.CERTAIN or container.uses_device_plugin or container.sees_nothing)


def nvidia_handler(subject: Subject) -> str | None:
    """The handler of the pod's RuntimeClass if it is NVIDIA's container runtime, otherwise None.

    If the RuntimeClass is unknown, its name counts as its handler.
    """
    name = subject.spec.get("runtimeClassName")
    if not isinstance(name, str) or not name:
        return None
    found = lookup(subject.view.get("RuntimeClass", name), ("handler",))
    handler = found if isinstance(found, str) else name
    return handler if handler in RUNTIME_HANDLERS or handler in subject.view.derive(_configured_handlers) else None


def runtime_class_names(view: ClusterView) -> list[str]:
    """The RuntimeClasses of NVIDIA's container runtime; unknown ones count by their names."""
    handlers = RUNTIME_HANDLERS | view.derive(_configured_handlers)
    known = {name_of(each): lookup(each, ("handler",)) for each in view.known_objects("RuntimeClass")}
    return sorted({*(handlers - known.keys()), *(name for name, handler in known.items() if handler in handlers)})


def _configured_handlers(view: ClusterView) -> frozenset[str]:
    """The names of NVIDIA's runtime in ClusterPolicies, `spec.operator.runtimeClass`."""
    names = (lookup(policy, ("spec", "operator", "runtimeClass")) for policy in view.known_objects("ClusterPolicy"))
    return frozenset(name for name in names if isinstance(name, str) and name)


@PODS.rule(
    "GA611",
    "A pod must not name GPUs by annotations that NVIDIA's NRI plugin or container runtime reads",
    default=Severity.WARN,
    setting="access.mode",
    remedy="request nvidia.com/gpu: 1 in resources.limits, and remove the annotation",
    administrator=EXEMPT,
    source="nvidia-container-toolkit cmd/nvidia-ctk-installer/container/runtime/nri/plugin.go "
    "CreateContainer, internal/modifier/cdi.go getAnnotationDevices",
)
def injecting_annotations(subject: Subject) -> Iterator[Problem]:
    """Containers get the CDI devices that an annotation names, without a request to the scheduler.

    The NRI plugin of the container toolkit reads `nvidia.cdi.k8s.io` and `nvidia.cdi.k8s.io/...`. NVIDIA's container runtime reads
    `cdi.k8s.io/...` in mode `cdi` under CRI-O, which passes it the annotations of pods; containerd does not. If no node
    reads an annotation, it is allowed. If that is unknown, it is a warning in every mode. Annotations are read when a
    container starts, so those that an update adds or changes are reviewed too.
    """
    for key, value in subject.annotations.items():
        reader = _READERS.get(key.partition("/")[0]) if isinstance(key, str) else None
        if reader is None or not isinstance(value, str) or VENDOR_PREFIX not in value:
            continue
        what, runs_here = reader
        is_read = subject.view.derive(runs_here)
        if is_read is False:
            continue
        text = f"names GPUs, {shown(value)}, that {what} injects without a request to the scheduler"
        severity = subject.severity if is_read else Severity.WARN
        remedy = None if subject.is_created else RECREATE
        yield Problem(FieldPath(("metadata", "annotations", key)), text, remedy, severity=severity)


def _runs_nri_plugin(view: ClusterView) -> bool | None:
    """True if a ClusterPolicy enables the plugin; None if no ClusterPolicy exists."""
    policies = view.list("ClusterPolicy")
    if policies is UNKNOWN or not policies:
        return None
    return any(lookup(policy, ("spec", "cdi", "nriPluginEnabled")) is True for policy in policies)


def _runs_crio(view: ClusterView) -> bool | None:
    """True if a node runs CRI-O; None if the nodes are unknown."""
    nodes = view.derive_each("Node", _is_crio)
    return None if nodes is UNKNOWN else any(nodes)


def _is_crio(node: Object) -> bool:
    runtime = lookup(node, ("status", "nodeInfo", "containerRuntimeVersion"))
    return isinstance(runtime, str) and runtime.startswith("cri-o://")


_READERS = {
    "nvidia.cdi.k8s.io": ("NVIDIA's NRI plugin", _runs_nri_plugin),
    "cdi.k8s.io": ("NVIDIA's container runtime, in mode cdi under CRI-O,", _runs_crio),
}
"""By the prefix of an annotation: the software that reads it, and a function that returns whether it runs here."""


def read_annotations(view: ClusterView) -> list[str]:
    """The prefixes of the annotations that nodes of the cluster certainly read."""
    return [prefix for prefix, (_, runs_here) in _READERS.items() if view.derive(runs_here)]


_START_WITHOUT = "start the debug container without it, or recreate the pod where it runs already"
_POD_KEEPS = "start the debug container without what the other findings name, or recreate the pod without hostPID"
"""Ephemeral containers cannot be removed or changed, nor can the privileges of a pod that runs."""

_TAKEN_FOR_PRIVILEGED = ("SYS_ADMIN", "CAP_SYS_ADMIN", "ALL", "CAP_ALL")
"""Source: nvidia-container-toolkit internal/config/image/privileged.go."""


@PODS.rule(
    "GA609",
    "Privileges must not give a container more GPUs than it requests",
    default=Severity.WARN,
    setting="access.mode",
    remedy="remove it, or what the other findings on this pod name",
    source="nvidia-container-toolkit internal/config/image/privileged.go IsPrivileged; Pod Security Standards",
)
def privileges(subject: Subject) -> Iterator[Problem]:
    """`privileged`, `hostPID` and mounts of `/` or `/dev` often have nothing to do with GPUs.

    In a pod that takes GPUs without a request, they remove the last barriers, so they are reported then. The severity is
    that of the gravest other finding; if all of these are off, nothing is reported. On a running pod, only the new debug
    container can still be changed.
    """
    if subject.spec.get("hostPID") is True:
        text = "is true as well: the pod sees every process of the node, and through /proc/PID/root what they see"
        yield Problem(FieldPath(("spec", "hostPID")), text, None if subject.is_created else _POD_KEEPS)
    for container in subject.containers:
        yield from _of_container(container)
    for container, mount in subject.host_mounts:
        place = subject.node_places.parents.get(mount.source)
        if place is not None:
            text = f"{container.title} mounts all of {mount.text} of the node as well, and in it {place.what}"
            yield Problem(mount.path, text, _remedy(container, "the mount"))


def _of_container(container: Container) -> Iterator[Problem]:
    path = container.path / "securityContext"
    if lookup(container.fields, ("securityContext", "privileged")) is True:
        text = (
            f"{container.title} is privileged as well: it may use every device node of the node, whatever NVIDIA's "
            "container runtime injects, and its NVIDIA_VISIBLE_DEVICES counts where that of others is ignored"
        )
        yield Problem(path / "privileged", text, _remedy(container, "privileged"))
    added = lookup(container.fields, ("securityContext", "capabilities", "add"))
    for index, capability in enumerate(added if isinstance(added, list) else ()):
        if capability in _TAKEN_FOR_PRIVILEGED:
            text = (
                f"{container.title} has the capability {shown(capability)} as well: NVIDIA's container runtime takes it "
                "for privileged, and its NVIDIA_VISIBLE_DEVICES counts where that of others is ignored"
            )
            yield Problem(path / "capabilities" / "add" / index, text, _remedy(container, capability))


def _remedy(container: Container, what: str) -> str:
    if container.list_name == "ephemeralContainers":
        return _START_WITHOUT
    return f"remove {what}, or what the other findings on this pod name"
