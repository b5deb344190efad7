"""NVIDIA's container toolkit: its runtime, and how containers name GPUs that they do not request."""

from __future__ import annotations

from typing import Any

from policies.kubernetes.objects import items_at, lookup, mapping_at, mappings_at

VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
RUNTIME_HANDLERS = frozenset({"nvidia", "nvidia-cdi", "nvidia-legacy", "nvidia-experimental"})
"""The names of NVIDIA's runtime in the configuration of container runtimes, unless the ClusterPolicy sets another.

Source: nvidia-container-toolkit cmd/nvidia-ctk-installer/container/operator; gpu-operator assets/pre-requisites;
`nvidia-experimental` existed until toolkit 1.14.
"""

CDI_ANNOTATIONS = ("nvidia.cdi.k8s.io", "cdi.k8s.io/")
"""Prefixes of the annotations by which pods name devices; the first one is a key as well.

Source: nvidia-container-toolkit cmd/nvidia-ctk-installer/container/runtime/nri/plugin.go, internal/modifier/cdi.go
getAnnotationDevices.
"""
EVERY_GPU = ("all",)
_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
"""The characters that Go's strings.TrimSpace removes; `str.strip` removes more, so it would change some names."""


def parse_device_list(value: str) -> tuple[str, ...]:
    """The devices that a value of NVIDIA_VISIBLE_DEVICES names: none, every GPU, or a list.

    Spaces around names and empty names are ignored. `void` anywhere means no device. Otherwise the first of `all` and
    `none` decides, and other names are ignored.

    Source: nvidia-container-toolkit internal/config/image/cuda_image.go devicesFromEnvvars, devices.go.
    """
    named = tuple(name for part in value.split(",") if (name := part.strip(_SPACE)))
    if "void" in named:
        return ()
    for name in named:
        if name == "all":
            return EVERY_GPU
        if name == "none":
            return ()
    return named


def names_gpus(pod: object) -> bool:
    """True if a pod can use GPUs that no container requests.

    By NVIDIA's runtime, which follows the image or NVIDIA_VISIBLE_DEVICES, by an annotation for CDI, or by the device
    files of the node.
    """
    if any(key.startswith(CDI_ANNOTATIONS) for key in mapping_at(pod, ("metadata", "annotations"))):
        return True
    paths = (lookup(each, ("hostPath", "path")) for each in items_at(pod, ("spec", "volumes")))
    if any(isinstance(path, str) and path.startswith("/dev/nvidia") for path in paths):
        return True
    is_runtime = lookup(pod, ("spec", "runtimeClassName")) in RUNTIME_HANDLERS
    for listed in ("initContainers", "containers"):
        for container in items_at(pod, ("spec", listed)):
            values = [
                str(lookup(each, ("value",)) or "")
                for each in items_at(container, ("env",))
                if lookup(each, ("name",)) == VISIBLE_DEVICES
            ]
            if parse_device_list(values[-1]) if values else is_runtime:
                return True
    return False


SET_AS_DEFAULT = ("NVIDIA_RUNTIME_SET_AS_DEFAULT", "CONTAINERD_SET_AS_DEFAULT", "CRIO_SET_AS_DEFAULT")
"""The variables of the toolkit's container that make NVIDIA's runtime the default of a node."""
_OBEYS_VARIABLE = "ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED"


def is_true(value: str | None) -> bool:
    """True if a variable of the toolkit's container is true."""
    return (value or "").lower() in ("true", "1", "yes")


def images_choose_gpus(cluster_policy: Any) -> bool | None:
    """True if a ClusterPolicy makes NVIDIA's runtime the default, so that images choose GPUs.

    With CDI, the default, the operator leaves the node's default runtime, and `toolkit.env` can override that. The NRI plugin
    changes no runtime. None if the operator installs no toolkit: the nodes have their own configuration.

    Source: gpu-operator controllers/object_controls.go transformToolkitCtrForCDI; nvidia-container-toolkit
    cmd/nvidia-ctk-installer/container/runtime (set-as-default) and internal/config/image/cuda_image.go.
    """
    if lookup(cluster_policy, ("spec", "toolkit", "enabled")) is False:
        return None
    uses_cdi = lookup(cluster_policy, ("spec", "cdi", "enabled")) is not False
    if uses_cdi and lookup(cluster_policy, ("spec", "cdi", "nriPluginEnabled")) is True:
        return False
    variables = {
        str(each.get("name")): str(each.get("value") or "")
        for each in mappings_at(cluster_policy, ("spec", "toolkit", "env"))
    }
    if _OBEYS_VARIABLE in variables and not is_true(variables[_OBEYS_VARIABLE]):
        return False
    chosen = [is_true(variables[name]) for name in SET_AS_DEFAULT if name in variables]
    return any(chosen) if chosen else not uses_cdi
