"""NVIDIA_VISIBLE_DEVICES in `env`: which GPUs NVIDIA's container runtime gives a container."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.access.checks import ACCESS, EXEMPT, request_or
from policies.access.environment import EVERY_GPU, parse_device_list
from policies.access.subject import VISIBLE_DEVICES
from policies.checks import problem
from policies.decision import Severity
from policies.kubernetes.paths import lookup
from policies.kubernetes.printable import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.access.subject import Container, Subject
    from policies.checks import Problem
    from policies.kubernetes.paths import FieldPath

_SOURCES = {
    "configMapKeyRef": "from a ConfigMap",
    "secretKeyRef": "from a Secret",
    "fieldRef": "from a field of the pod",
    "resourceFieldRef": "from an amount of resources",
    "fileKeyRef": "from a file",
}


@ACCESS.rule(
    "GA601",
    "A container without a GPU request must not set NVIDIA_VISIBLE_DEVICES",
    default=Severity.WARN,
    setting="access.mode",
    remedy=f"request nvidia.com/gpu: 1 in resources.limits, or set it to void; {EXEMPT}",
    source="nvidia-container-toolkit internal/config/image/cuda_image.go; kubelet makeEnvironmentVariables",
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
            yield subject.problem(what.path, text, request_or(container, "set it to void"))


@ACCESS.rule(
    "GA602",
    "A container with a GPU request must not set NVIDIA_VISIBLE_DEVICES itself",
    default=Severity.WARN,
    setting="access.mode",
    remedy=f"remove the variable; {EXEMPT}",
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
            yield problem(what.path, text, severity=Severity.WARN)
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
