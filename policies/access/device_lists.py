"""Lists of devices in NVIDIA_VISIBLE_DEVICES, as NVIDIA's container runtime reads them."""

from __future__ import annotations

__all__ = ["EVERY_GPU", "devices_given"]

EVERY_GPU = ("all",)

_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
"""What Go's strings.TrimSpace takes away; `str.strip` takes more, and would find names where the runtime finds none."""


def devices_given(value: str) -> tuple[str, ...]:
    """The devices that a value gives a container: none, every GPU, or those that it names.

    Spaces around names and empty names do not count. `void` anywhere gives nothing. Otherwise the first of `all` and
    `none` decides, and whatever else is named does not count.

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
