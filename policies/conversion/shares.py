"""Shares: what a GPU that several claims can hold at once means to a pod.

Where NVIDIA's driver publishes devices with `allowMultipleAllocations` and a capacity `shares`, a request that does not
name the capacity gets one share. A pod that asked for a whole GPU must therefore ask for all shares of it.

Source: github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/consumable_shares.go; KEP-5075.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.conversion.meaning import GPU
from policies.conversion.rules import SHARED
from policies.dra.deviceclasses import MIG_CLASS
from policies.dra.inventory import inventory
from policies.nvidia.predicates import DRIVER
from policies.nvidia.resources import parse_resource
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from policies.conversion.asked import Asked
    from policies.decision import Finding
    from policies.kubernetes.paths import FieldPath
    from policies.view import ClusterView

__all__ = ["shares_asked"]

_SHARES = f"{DRIVER}/shares"


def shares_asked(
    asked: Asked, places: dict[str, FieldPath], view: ClusterView, *, shared_gpu: bool
) -> tuple[dict[str, int], tuple[Finding, ...]]:
    """How many shares of a device each resource stands for, and which resources cannot be told in shares.

    `shared_gpu` says that `nvidia.com/gpu` is a share on every node that the pod could have run on.
    """
    shares: dict[str, int] = {}
    findings: list[Finding] = []
    for resource, path in places.items():
        parsed = parse_resource(resource)
        wants_share = parsed is not None and (parsed.shared or (resource == GPU and shared_gpu))
        offered = _offered(view, "mig" if asked.device_class(resource) == MIG_CLASS else "gpu")
        whole = next(iter(offered)) if len(offered) == 1 else None
        if wants_share and any(offered):
            shares[resource] = 1
        elif wants_share:
            what = "every node that hands it out shares its GPUs" if resource == GPU else "is a share of a GPU"
            findings.append(SHARED.finding(path, f"{what}, and no ResourceSlice offers shares"))
        elif whole is None and offered:
            text = "is a whole device, and the DRA driver shares some devices between pods"
            remedy = "keep this pod on device-plugin nodes, or share all devices alike (consumableShares of the driver)"
            findings.append(SHARED.finding(path, text, remedy))
        elif whole:
            shares[resource] = whole
    return shares, tuple(findings)


def _offered(view: ClusterView, device_type: str) -> set[int | None]:
    """The numbers of shares of devices of one type: 0 for one that is held alone, None for one shared without limit."""
    groups = view.derive(inventory)
    if groups is UNKNOWN:
        return set()
    devices = [group.device for group in groups if group.type == device_type]
    return {
        0 if not device.shareable else int(device.capacity[_SHARES]) if _SHARES in device.capacity else None
        for device in devices
    }
