"""NVIDIA_VISIBLE_DEVICES in `env`, `envFrom` and images: GPUs that NVIDIA's runtime gives."""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.access.container_runtime import nvidia_handler
from policies.access.subject import EXEMPT, RECREATE, request_or
from policies.kubernetes.names import shown
from policies.kubernetes.objects import FieldPath, lookup
from policies.nvidia.container_toolkit import EVERY_GPU, VISIBLE_DEVICES, parse_device_list
from policies.rules.checks import PODS, Problem
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.access.subject import Container, Subject


_SOURCES = {
    "configMapKeyRef": "from a ConfigMap",
    "secretKeyRef": "from a Secret",
    "fieldRef": "from a field of the pod",
    "resourceFieldRef": "from an amount of resources",
    "fileKeyRef": "from a file",
}


@PODS.rule(
    "GA601",
    "A container without a GPU request must not set NVIDIA_VISIBLE_DEVICES",
    default=Severity.WARN,
    setting="access.mode",
    remedy="request nvidia.com/gpu: 1 in resources.limits, or set NVIDIA_VISIBLE_DEVICES to void",
    administrator=EXEMPT,
    source="nvidia-container-toolkit internal/config/image/cuda_image.go VisibleDevices; k8s.io/kubernetes "
    "pkg/kubelet/kubelet_pods.go makeEnvironmentVariables",
)
def unrequested_devices(subject: Subject) -> Iterator[Problem]:
    """NVIDIA's container runtime gives a container the GPUs that NVIDIA_VISIBLE_DEVICES names.

    The device plugin sets it for containers that request GPUs. A container that sets it itself gets GPUs that the
    scheduler gave to other pods, with their memory. `void`, `none` and an empty value name no GPU. In a list, `void` has
    precedence, then the first of `all` and `none`. A value from another source is unknown before the container starts,
    and counts as one that names GPUs. Of several entries, the last counts.
    """
    for container, what in _named_devices(subject):
        if not container.requests_gpu:
            text = f"{what.text} in {container.title}, which {container.lack}: {_consequence(what, 'it')}"
            yield subject.problem(what.path, text, request_or(container, f"set {VISIBLE_DEVICES} to void"))


@PODS.rule(
    "GA602",
    "A container with a GPU request must not set NVIDIA_VISIBLE_DEVICES itself",
    default=Severity.WARN,
    setting="access.mode",
    remedy="remove the variable",
    administrator=EXEMPT,
    source="k8s.io/kubernetes pkg/kubelet/kubelet_pods.go GenerateRunContainerOptions; containerd oci.WithEnv",
)
def replaced_devices(subject: Subject) -> Iterator[Problem]:
    """The device plugin passes the GPUs of a container to the runtime in NVIDIA_VISIBLE_DEVICES.

    The kubelet writes the container's own variables after those of the device plugin, and the runtime uses the last
    value: that of the pod. The GPUs of claims are injected by CDI, which sets the variable to void at the end. So if an
    extended resource of a DeviceClass certainly gives a GPU, the variable has no effect, and this is a warning in every
    mode. If it may give another device, or if the class is missing or cannot be seen, the variable counts as if nothing
    was requested. The same holds if no scheduler makes a claim for the resource (`spec.nodeName`, or a scheduler that
    `conversion.schedulers` does not list), and for a claim: until the pod starts, its author can replace a claim or
    template by one without devices.
    """
    for container, what in _named_devices(subject):
        if container.uses_device_plugin:
            text = f"{what.text} in {container.title}, and wins over the device plugin's: {_consequence(what, 'it')}"
            yield subject.problem(what.path, text)
        elif container.gets_gpu_whatever_changes:
            text = f"{what.text} in {container.title}, whose GPUs come from a claim: the variable has no effect"
            yield Problem(what.path, text, severity=Severity.WARN)
        elif container.requests_gpu:
            text = f"{what.text} in {container.title}, {container.doubt}: {_consequence(what, 'it')}"
            yield subject.problem(what.path, text)


class _Named:
    """The last entry of `env` for NVIDIA_VISIBLE_DEVICES, which counts."""

    def __init__(self, container: Container) -> None:
        variable = container.environment[VISIBLE_DEVICES]
        entry: dict[str, Any] = container.fields["env"][variable.entry]
        self.value = variable.value
        field = "value" if entry.get("value") not in (None, "") else "valueFrom"
        self.path: FieldPath = container.path / "env" / variable.entry / field
        self.text = f"{VISIBLE_DEVICES} " + (
            f"comes {_origin(entry)}" if self.value is None else f"is {shown(self.value)}"
        )


def _named_devices(subject: Subject) -> Iterator[tuple[Container, _Named]]:
    for container in subject.containers:
        variable = container.variable(VISIBLE_DEVICES)
        if variable is not None and (variable.value is None or parse_device_list(variable.value)):
            yield container, _Named(container)


def _origin(entry: dict[str, Any]) -> str:
    value_from = entry.get("valueFrom")
    known = (text for key, text in _SOURCES.items() if lookup(value_from, (key,)) is not None)
    return "from other variables" if entry.get("value") else next(known, "from elsewhere")


def _consequence(named: _Named, who: str) -> str:
    if named.value is None:
        return f"its value is not known here, and unless it is void or none {who} gets GPUs that others were given"
    if parse_device_list(named.value) == EVERY_GPU:
        return f"NVIDIA's container runtime gives {who} every GPU of the node"
    return f"NVIDIA's container runtime gives {who} these GPUs of the node, which other pods may have"


_KINDS = {"configMapRef": "ConfigMap", "secretRef": "Secret"}


class SourcedVariable(NamedTuple):
    """A variable from a ConfigMap or Secret."""

    path: FieldPath
    """Of the reference in the container."""
    kind: str
    """`ConfigMap` or `Secret`."""
    source: str
    """Its name."""
    value: str


def sourced_variable(container: Container, variable: str, subject: Subject) -> SourcedVariable | None:
    """A variable by the last visible source of `envFrom` that sets it; None if no source does.

    Source: k8s.io/kubernetes pkg/kubelet/kubelet_pods.go makeEnvironmentVariables.
    """
    for index, source in reversed(list(container.items("envFrom"))):
        for field, kind in _KINDS.items():
            name, prefix = lookup(source, (field, "name")), source.get("prefix")
            start = prefix if isinstance(prefix, str) else ""
            if not isinstance(name, str) or not variable.startswith(start):
                continue
            document = subject.view.get(kind, name, subject.namespace)
            value = _value(kind, document, variable.removeprefix(start))
            if value is not None:
                return SourcedVariable(container.path / "envFrom" / index / field, kind, name, value)
    return None


def _value(kind: str, document: Any, key: str) -> str | None:
    value = lookup(document, ("data", key))
    if kind == "Secret":
        plain = lookup(document, ("stringData", key))
        value = plain if isinstance(plain, str) else _decoded_text(value)
    return value if isinstance(value, str) else None


def _decoded_text(value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    try:
        return base64.b64decode(value).decode(errors="replace")
    except (binascii.Error, ValueError):
        return value


@PODS.rule(
    "GA607",
    "NVIDIA_VISIBLE_DEVICES must not come from a ConfigMap or Secret",
    default=Severity.WARN,
    remedy="remove the variable there, or set it to void in the container's env, which wins",
    administrator=EXEMPT,
    source="k8s.io/kubernetes pkg/kubelet/kubelet_pods.go makeEnvironmentVariables",
)
def devices_from_elsewhere(subject: Subject) -> Iterator[Problem]:
    """`envFrom` sets every key of a ConfigMap or Secret as a variable, also NVIDIA_VISIBLE_DEVICES.

    The values at the start of the container count. They can change after the review, and a webhook may not see them at
    all, so this only warns, in every mode. `env` has precedence over `envFrom`, and a later source over an earlier one.
    """
    for container in subject.containers:
        if "envFrom" not in container.fields or container.variable(VISIBLE_DEVICES) is not None:
            continue
        found = sourced_variable(container, VISIBLE_DEVICES, subject)
        if found is not None and parse_device_list(found.value):
            who = "" if container.requests_gpu else f", which {container.lack}"
            text = f"{found.kind} {shown(found.source)} sets NVIDIA_VISIBLE_DEVICES in {container.title}{who}"
            yield Problem(found.path, text)


CUDA_VERSION = "CUDA_VERSION"
CUDA_REQUIREMENT = "NVIDIA_REQUIRE_CUDA"


@PODS.rule(
    "GA610",
    "A container that sets CUDA_VERSION must say which GPUs are visible",
    default=Severity.WARN,
    setting="access.legacyRuntime",
    remedy="request nvidia.com/gpu: 1 in resources.limits, or set NVIDIA_VISIBLE_DEVICES to void",
    administrator=EXEMPT,
    source="nvidia-container-toolkit internal/config/image/cuda_image.go IsLegacy",
)
def legacy_image(subject: Subject) -> Iterator[Problem]:
    """CUDA_VERSION without NVIDIA_REQUIRE_CUDA marks CUDA images older than NVIDIA_VISIBLE_DEVICES.

    For such images, NVIDIA's container runtime gives every GPU of the node to a container that has CUDA_VERSION and
    neither of the two others, whether the image or the pod sets it. Builds set CUDA_VERSION for other reasons, so this
    only warns. `access.mode` decides if that runtime certainly starts the container: with `access.legacyRuntime: true`, or
    under a RuntimeClass of NVIDIA's.
    """
    for container in subject.containers:
        version = _setting(container, CUDA_VERSION, subject)
        if version is None or version.value == "" or container.requests_gpu:
            continue
        if _setting(container, VISIBLE_DEVICES, subject) is not None:
            continue
        require = _setting(container, CUDA_REQUIREMENT, subject)
        # A value from another source may be empty, or missing, when the container starts.
        if require is None or not require.value:
            text = (
                f"{container.title} {container.lack} and has CUDA_VERSION{version.origin}, but neither "
                "NVIDIA_REQUIRE_CUDA nor NVIDIA_VISIBLE_DEVICES: NVIDIA's container runtime takes it for an old CUDA "
                "image and gives it every GPU of the node, unless the image says otherwise"
            )
            remedy = request_or(container, f"set {VISIBLE_DEVICES} to void")
            yield Problem(version.path, text, remedy, severity=_runtime_severity(subject, Severity.WARN))


def _runtime_severity(subject: Subject, otherwise: Severity) -> Severity:
    """The severity of `access.mode` if NVIDIA's runtime certainly starts the containers under review.

    If the pod's RuntimeClass says so and no container requests a GPU, GA603 reports that.
    """
    is_certain = subject.settings.access.legacy_runtime or (
        nvidia_handler(subject) is not None and any(each.requests_gpu for each in subject.pod_containers)
    )
    return subject.severity if is_certain else otherwise


class _Setting(NamedTuple):
    """A variable of a container."""

    path: FieldPath
    value: str | None
    """None if it is known only on the node."""
    origin: str = ""
    """For messages: the source of the variable, if it is not the pod itself."""


def _setting(container: Container, name: str, subject: Subject) -> _Setting | None:
    variable = container.variable(name)
    if variable is not None:
        return _Setting(container.path / "env" / variable.entry, variable.value)
    found = sourced_variable(container, name, subject) if "envFrom" in container.fields else None
    if found is None:
        return None
    return _Setting(found.path, found.value, f" from {found.kind} {shown(found.source)}")


NVIDIA_IMAGE = re.compile(
    r"(?:(?:.*/)?nvcr\.io(?::443)?/|(?:(?:index\.|registry-1\.)?docker\.io(?::443)?/)?)nvidia/",
    re.IGNORECASE,
)
"""Names of NVIDIA's images, in its registry, in a mirror named after it, and in Docker Hub.

The name of a registry may have capital letters and the usual port.
"""


@PODS.rule(
    "GA608",
    "A container with a CUDA image must request a GPU, or see none",
    default=Severity.AUDIT,
    setting="access.legacyRuntime",
    remedy="request nvidia.com/gpu: 1 in resources.limits, or set NVIDIA_VISIBLE_DEVICES to void",
    administrator=EXEMPT,
    source="gitlab.com/nvidia/container-images/cuda dist/*/base/Dockerfile (ENV NVIDIA_VISIBLE_DEVICES)",
)
def visible_by_image(subject: Subject) -> Iterator[Problem]:
    """NVIDIA's images set NVIDIA_VISIBLE_DEVICES to all.

    Where NVIDIA's container runtime is the default, a container with such an image gets every GPU of the node without a
    request. But a name does not prove what an image contains, and many builds use these images, so this is audited.
    `access.mode` decides if that runtime certainly starts the container: with `access.legacyRuntime: true`, or under a
    RuntimeClass of NVIDIA's. The image of a container can be changed later, and is reviewed then.
    """
    for container in subject.images:
        image = container.fields.get("image")
        if not isinstance(image, str) or "nvidia/" not in image or not NVIDIA_IMAGE.match(image):
            continue
        if container.variable(VISIBLE_DEVICES) is None and not container.requests_gpu:
            text = (
                f"{container.title} {container.lack} and runs {shown(image)}: NVIDIA's images set NVIDIA_VISIBLE_DEVICES "
                "to all, so where NVIDIA's container runtime is the default it gets every GPU of the node"
            )
            remedy = request_or(container, f"set {VISIBLE_DEVICES} to void") if subject.containers else RECREATE
            severity = _runtime_severity(subject, Severity.AUDIT)
            yield Problem(container.path / "image", text, remedy, severity=severity)
