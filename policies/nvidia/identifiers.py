"""Names that NVIDIA's components define, and names as the device plugin reads them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from policies.kubernetes.names import closest, shown

if TYPE_CHECKING:
    from collections.abc import Iterator


VENDOR_PREFIX = "nvidia.com/"
"""The prefix of the resources of NVIDIA's device plugins, and of their labels."""

GPU_RESOURCE = "nvidia.com/gpu"
"""The resource of whole GPUs, and of MIG devices or shares where the device plugin advertises them under this name."""

DRIVER = "gpu.nvidia.com"
"""Publishes GPUs and MIG devices. Source: github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin."""

HEALTH_TAINTS = {
    f"{DRIVER}/xid": "the GPU reported XID {value}",
    f"{DRIVER}/gpu-lost": "the driver has lost the GPU",
}
"""The keys of the taints by which the driver marks unhealthy devices, and what they say. With the effect `None` the device is
usable: an XID that applications cause, or a device whose health is not monitored.

Source: there, device_health.go.
"""

COMPUTE_DOMAIN_DRIVER = "compute-domain.nvidia.com"
"""Publishes the channels and daemons of ComputeDomains. Source: there, cmd/compute-domain-kubelet-plugin."""
IMEX_MODE, IMEX_OF_HOST = "IMEX_MODE", "hostManaged"
"""The variable of the DRA driver's parts for ComputeDomains, and its value if hosts run the IMEX daemons. Source: there,
pkg/imex."""
CHANNEL_CLASS = "compute-domain-default-channel.nvidia.com"
"""The DeviceClass of the channel that a ComputeDomain gives its pods. Source: there, cmd/compute-domain-controller."""

# Labels of GPU Feature Discovery. Source: github.com/NVIDIA/k8s-device-plugin docs/gpu-feature-discovery.
CLOUD_LABELS = (
    "cloud.google.com/gke-accelerator",
    "eks.amazonaws.com/instance-gpu-name",
    "karpenter.k8s.aws/instance-gpu-name",
)
"""Labels by which GKE, EKS Auto Mode and Karpenter name the GPUs of a node; each uses its own names."""
PRODUCT_LABEL = "nvidia.com/gpu.product"
"""The product of a node's GPUs, or of its MIG devices under the single strategy."""
FAMILY_LABEL = "nvidia.com/gpu.family"
MEMORY_LABEL = "nvidia.com/gpu.memory"
COUNT_LABEL = "nvidia.com/gpu.count"
COMPUTE_LABELS = ("nvidia.com/gpu.compute.major", "nvidia.com/gpu.compute.minor")
MIG_CAPABLE_LABEL = "nvidia.com/mig.capable"
MIG_STRATEGY_LABEL = "nvidia.com/mig.strategy"
DRIVER_VERSION_LABEL = "nvidia.com/cuda.driver-version.full"
CUDA_VERSION_LABEL = "nvidia.com/cuda.runtime-version.full"
CLIQUE_LABEL = "nvidia.com/gpu.clique"
"""The NVLink domain of a node; the driver of ComputeDomains sets it too."""

# Labels of the GPU Operator.
PRESENT_LABEL = "nvidia.com/gpu.present"
"""On nodes with a GPU, before any component hands the GPUs out."""
MIG_CONFIG_LABEL = "nvidia.com/mig.config"
"""The configuration of the MIG manager that a node is to have."""
MIG_STATE_LABEL = "nvidia.com/mig.config.state"
"""The progress of the MIG manager: `pending`, `rebooting`, `success` or `failed`."""
PLUGIN_CONFIG_LABEL = "nvidia.com/device-plugin.config"
"""The key of the ConfigMap that the device plugin of a node reads."""
DEPLOY_PREFIX = "nvidia.com/gpu.deploy."
"""The prefix of labels with which the operator runs a component on a node, unless the value is `false`."""
DEPLOY_OPERANDS_LABEL = f"{DEPLOY_PREFIX}operands"
"""`false` keeps all components of the operator away from a node."""
DEPLOY_PLUGIN_LABEL = f"{DEPLOY_PREFIX}device-plugin"
DEPLOY_DRIVER_LABEL = f"{DEPLOY_PREFIX}driver"


UNPARSED = "unable to parse config file"
"""The error of the device plugin for a value of another type; Go's encoding/json adds the rest of the message."""


_LONGEST = 63
_LONGEST_SHOWN = 100
_LABEL = "[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_INDEX = re.compile(r"[0-9]{1,19}(?::[0-9]{1,19})?")
_UUID = r"(?:[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9a-fA-F]{32})"
_DEVICE_ID = re.compile(rf"GPU-{_UUID}|MIG-{_UUID}|MIG-GPU-{_UUID}/[0-9]{{1,19}}/[0-9]{{1,19}}")
_EXITS = "the device plugin would exit with"
_DEVICES = 'write "all", or remove it'


def full_resource_name(name: str) -> str:
    """A resource's name, with the prefix that the device plugin adds to names without it."""
    return name if name.startswith(VENDOR_PREFIX) else VENDOR_PREFIX + name


def brief(text: str) -> str:
    """A text, shortened for messages."""
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."


def guess_resource(name: str) -> str | None:
    """The resource that was probably meant, compared without the common prefix; None if none is similar."""
    guess = closest(full_resource_name(name).removeprefix(VENDOR_PREFIX), ["gpu"])
    return full_resource_name(guess) if guess else None


def name_exit(value: Any) -> str:
    """The message with which the device plugin exits at a resource name; empty if the name is valid.

    Source: github.com/NVIDIA/k8s-device-plugin api/config/v1/resources.go NewResourceName.
    """
    if value is not None and not isinstance(value, str):
        return UNPARSED
    name = full_resource_name(value or "")
    if len(name) > _LONGEST:
        return f"fully-qualified resource name must be 63 characters or less: {brief(name)}"
    is_valid = _SUBDOMAIN.fullmatch(name.removeprefix(VENDOR_PREFIX))
    return "" if is_valid else f"incorrect format for resource name '{name}'"


def name_error(value: Any) -> tuple[str, str] | None:
    """The problem of a resource name, and the remedy; None if the name is valid."""
    exit_words = name_exit(value)
    if not exit_words:
        return None
    if value is not None and not isinstance(value, str):
        text = f"is {shown(value)}, not a string; the device plugin would exit, unable to parse its config file"
        return text, _NAME
    name = full_resource_name(value or "")
    if len(name) > _LONGEST:
        return f"is {len(name)} characters long; {_EXITS}: {exit_words}", "shorten it"
    said = "is empty" if not value else f"is {shown(value)}"
    guess = name.replace("+", ".") if "+" in name else guess_resource(name)
    return f"{said}; {_EXITS}: {exit_words}", f'write "{guess}"' if guess else _NAME


_NAME = "write the name of a resource, such as nvidia.com/gpu"


def device_errors(value: Any) -> Iterator[tuple[tuple[int, ...], str, str]]:
    """The problems of the devices of a shared resource: steps to the item, message and remedy.

    Source: github.com/NVIDIA/k8s-device-plugin api/config/v1/replicas.go ReplicatedDevices.UnmarshalJSON.
    """
    match value:
        case "all":
            return
        case str() | None:
            text = f"devices set as '{brief(value or '')}' but the only valid string input is 'all'"
            yield (), f"is {shown(value)}; {_EXITS}: {text}", _DEVICES
        case bool() | float() | dict():
            yield (), f"is {shown(value)}; {_EXITS}: unrecognized type for devices spec: {shown(value)}", _DEVICES
        case int():
            if value <= 0:
                text = f"devices set as '{value}' but a count of devices must be > 0"
                yield (), f"is {value}; {_EXITS}: {text}", _DEVICES
        case list():
            for index, item in enumerate(value):
                if not _is_device(item):
                    said = brief(item) if isinstance(item, str) else ""
                    text = f"{_EXITS}: unsupported type for device in devices list: {said}, string"
                    remedy = "write an index (0), a MIG index (0:1) or a UUID (GPU-..., MIG-...)"
                    yield (index,), f"is {shown(item)}, which is not a device; {text}", remedy


def _is_device(item: Any) -> bool:
    if isinstance(item, int) and not isinstance(item, bool):
        return item >= 0
    return isinstance(item, str) and bool(_INDEX.fullmatch(item) or _DEVICE_ID.fullmatch(item))


GKE_PARTITION = "cloud.google.com/gke-gpu-partition-size"
GKE_SHARING = "cloud.google.com/gke-gpu-sharing-strategy"
GKE_CLIENTS = "cloud.google.com/gke-max-shared-clients-per-gpu"
GKE_LABELS = (GKE_PARTITION, GKE_SHARING, GKE_CLIENTS)
"""The labels of nodes on which GKE hands out MIG devices, or shares of a GPU, as `nvidia.com/gpu`.

Source: cloud.google.com/kubernetes-engine/docs/how-to/gpus-multi and how-to/timesharing-gpus.
"""
