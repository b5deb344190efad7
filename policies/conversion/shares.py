"""Shares: what a GPU that several claims can hold at once means to a pod.

Where NVIDIA's driver publishes devices with `allowMultipleAllocations` and a capacity `shares`, a request that does not
name the capacity gets one share. A pod that requests a whole GPU must therefore request all shares of it.

The pod's wish (gpu-admission.io/sharing) has precedence over the nodes: `exclusive` is all shares even if every node is
time-sliced, and `shared` is one share even if none is.

Source: github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/consumable_shares.go; KEP-5075.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.conversion.device_layout import most_at_once
from policies.decision import Severity
from policies.dra.deviceclasses import MIG_CLASS
from policies.dra.published_devices import gpu_groups
from policies.kubernetes.printable import printable
from policies.nvidia.identifiers import DRIVER, GPU_RESOURCE
from policies.nvidia.resources import parse_resource
from policies.rules import rule
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from policies.conversion.record import ConversionRecord
    from policies.decision import Finding
    from policies.kubernetes.paths import FieldPath
    from policies.kubernetes.resourceslices import Device
    from policies.nvidia.wishes import Wish
    from policies.view import ClusterView

__all__ = ["requested_shares", "shares_of"]

_SHARES = f"{DRIVER}/shares"


SHARED = rule(
    "GA306",
    "Shared GPUs must be converted only where the DRA driver offers shares",
    default=Severity.WARN,
    why="""
    Time-slicing and MPS replicas of the device plugin have no equivalent in DRA unless the driver publishes devices
    with a consumable capacity `shares` (ConsumableShares). Converting anyway would give the pod a whole GPU that up to
    a dozen pods shared before. The pod is left as it is and runs through the device plugin.""",
    remedy="keep this pod on device-plugin nodes, or enable ConsumableShares in the DRA driver",
    source="github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/consumable_shares.go",
)


def requested_shares(
    record: ConversionRecord, places: dict[str, FieldPath], view: ClusterView, *, shared_gpu: bool
) -> tuple[dict[str, int], tuple[Finding, ...]]:
    """The number of shares that each resource stands for, and findings for resources without one.

    `shared_gpu` says that `nvidia.com/gpu` is a share on every node that the pod could have run on. While ResourceSlices
    are unknown, a wish for a share is granted: the claim waits, and does not get a whole device.
    """
    shares: dict[str, int] = {}
    findings: list[Finding] = []
    for resource, path in places.items():
        mig = record.device_class(resource) == MIG_CLASS
        offered = _share_counts(view, "mig" if mig else "gpu")
        whole = next(iter(offered)) if len(offered) == 1 else None
        is_share = _is_share(resource, record.wish, shared_gpu=shared_gpu)
        if is_share or record.wish.sharing == "shared":
            if any(offered) or (not is_share and gpu_groups(view) is UNKNOWN):
                shares[resource] = 1
            else:
                findings.append(_no_shares(resource, record, path, view, is_share=is_share))
        elif whole is None and offered:
            text = "is a whole device, and the DRA driver shares some devices between pods"
            remedy = "keep this pod on device-plugin nodes, or share all devices alike (consumableShares of the driver)"
            findings.append(SHARED.finding(path, text, remedy))
        elif whole:
            shares[resource] = whole
    return shares, tuple(findings)


def shares_of(device: Device) -> int | None:
    """The shares of a device: 0 if one claim holds it alone, None if it is shared without limit."""
    if not device.is_shareable:
        return 0
    return int(device.capacity[_SHARES]) if _SHARES in device.capacity else None


def _is_share(resource: str, wish: Wish, *, shared_gpu: bool) -> bool:
    """True if the device plugin hands out shares under this name, and the pod does not wish otherwise."""
    parsed = parse_resource(resource)
    return (parsed is not None and parsed.shared) or (
        resource == GPU_RESOURCE and shared_gpu and wish.sharing != "exclusive"
    )


NO_SHARES = rule(
    "GA327",
    "A shared GPU must be wished for only where the DRA driver offers shares",
    default=Severity.DENY,
    why="""
    The pod wishes a GPU that it shares with others (gpu-admission.io/sharing: shared). A claim can request one share
    of a device only where the driver publishes the consumable capacity `shares` (ConsumableShares). Without it the pod
    would hold a whole GPU, which it does not need; a claim for one share would stay Pending.""",
    remedy='write gpu-admission.io/sharing: "any", keep this pod on device-plugin nodes (label gpu-admission.io/dra: disabled), '
    "or enable ConsumableShares in the DRA driver",
    source="github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/consumable_shares.go; KEP-5075",
)


def _no_shares(
    resource: str, record: ConversionRecord, path: FieldPath, view: ClusterView, *, is_share: bool
) -> Finding:
    mig, wish, groups = record.device_class(resource) == MIG_CLASS, record.wish, gpu_groups(view)
    if not is_share:
        device = "MIG device" if mig else "GPU"
        text = f"the pod wishes a shared {device}, and no ResourceSlice offers shares of {device}s"
        return NO_SHARES.finding(path, text)
    if resource != GPU_RESOURCE:
        return SHARED.finding(path, "is a share of a GPU, and no ResourceSlice offers shares")
    text = "every node that hands it out shares its GPUs, and no ResourceSlice offers shares"
    wanted = most_at_once(record.containers, resource)
    whole = [
        group.product
        for group in (() if groups is UNKNOWN else groups)
        if group.type == "gpu" and shares_of(group.first) == 0 and group.most_on_a_node >= wanted
        if wish.products is None or wish.products.admits(group.product, None)
    ]
    if mig or wish.sharing == "shared" or any(record.constraints.places()) or not (whole or groups is UNKNOWN):
        return SHARED.finding(path, text)
    remedy = 'write gpu-admission.io/sharing: "exclusive" to get a whole GPU by DRA'
    if whole and wish.products is None:
        remedy += f', or choose one that is not shared, such as gpu-admission.io/product: "{printable(min(whole))}"'
    return SHARED.finding(path, text, f"{remedy}; or keep this pod on device-plugin nodes")


def _share_counts(view: ClusterView, device_type: str) -> set[int | None]:
    """The distinct numbers of shares per device of one type, as `shares_of` counts them."""
    groups = gpu_groups(view)
    if groups is UNKNOWN:
        return set()
    return {shares_of(group.first) for group in groups if group.type == device_type}
