"""Names under which NVIDIA's device plugin advertises GPUs, and what misspelt ones mean."""

from __future__ import annotations

import re

from policies.kubernetes.names import closest
from policies.nvidia.identifiers import VENDOR_PREFIX
from policies.nvidia.mig import parse_resource

_DOMAIN = VENDOR_PREFIX.removesuffix("/")
_LIKE_DOMAIN = 0.75
"""The minimum likeness of a mistyped domain to `nvidia.com`; `media.com` and other vendors are below it."""
_FORMER = {"alpha.kubernetes.io/nvidia-gpu": "gpu"}
"""Names of GPUs before Kubernetes 1.10; old guides still use them."""
_SLIPS = {
    "gpus": "gpu",
    "gpu.share": "gpu.shared",
    "gpu-shared": "gpu.shared",
    "gpushared": "gpu.shared",
    "gpus.shared": "gpu.shared",
    "shared-gpu": "gpu.shared",
}
_MIG = re.compile(r"mig-?([1-7])g[.-]?([0-9]{1,3})gb?((?:[.+][a-z.]+)?)")
"""The name of a profile has a plus before its attributes, and that of its resource a dot."""


def is_device_plugin_name(resource: str) -> bool:
    """True if NVIDIA's device plugin can advertise GPUs under this name."""
    parsed = parse_resource(resource)
    return parsed is not None and (not parsed.mig or parsed.profile is not None)


def correct_name(resource: str) -> str | None:
    """The device plugin's name for a misspelt resource; None if the name is correct or unclear.

    The domain may be mistyped (`nvdia.com/gpu`, `nvidia/gpu`) or missing (`gpu`, which the API server refuses), or the
    part behind it mistyped (`nvidia.com/gpus`).
    """
    if is_device_plugin_name(resource):
        return None
    domain, _, name = resource.rpartition("/")
    name = _FORMER.get(resource, name).lower().replace("_", "-")
    name = _SLIPS.get(name, name)
    if name.startswith("mig") and (match := _MIG.fullmatch(name)):
        slices, memory, rest = match.groups()
        name = f"mig-{slices}g.{memory}gb{rest.replace('+', '.')}"
    if not is_device_plugin_name(VENDOR_PREFIX + name):
        return None
    is_meant = domain in ("", _DOMAIN) or resource in _FORMER or closest(domain, [_DOMAIN], likeness=_LIKE_DOMAIN)
    return VENDOR_PREFIX + name if is_meant else None
