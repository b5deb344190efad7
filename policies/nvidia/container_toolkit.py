"""NVIDIA's container toolkit: its runtime, and how containers name GPUs that they do not request."""

from __future__ import annotations

from policies.kubernetes.objects import items_at, lookup, mapping_at

VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
RUNTIME_HANDLERS = frozenset({"nvidia", "nvidia-cdi", "nvidia-legacy", "nvidia-experimental"})
"""The names of NVIDIA's runtime in the configuration of container runtimes, unless the ClusterPolicy sets another.

Source: nvidia-container-toolkit cmd/nvidia-ctk-installer/container/operator; gpu-operator assets/pre-requisites;
`nvidia-experimental` existed until toolkit 1.14.
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
    if any(
        key.startswith(("nvidia.cdi.k8s.io", "cdi.k8s.io/")) for key in mapping_at(pod, ("metadata", "annotations"))
    ):
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
