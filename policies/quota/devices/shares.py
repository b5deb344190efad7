"""Shares: how much of a GPU a MIG device is, and a replica of a GPU that several pods share."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from policies.caches import remember_short
from policies.nvidia.mig_geometry import AMPERE, Geometry
from policies.nvidia.mig_products import PRODUCTS, product_named
from policies.nvidia.product_globs import any_matches, fold_name
from policies.quota.charges import DeviceKind
from policies.quota.devices.product_memory import product_memory

if TYPE_CHECKING:
    from policies.nvidia.mig import MIGProfile
    from policies.nvidia.mig_geometry import Layout, Match
    from policies.settings.choices import ReplicaWeight

__all__ = ["GIB", "Sharing", "any_profile", "largest", "mig_share", "of_replica", "unseen_gpu", "unseen_slice"]

GIB = 2**30

_MEMORY_SLICES = {1: 1, 2: 2, 3: 4, 4: 4, 7: 8}
"""Of eight, for so many of seven compute slices, as most profiles have them."""


class Sharing(NamedTuple):
    """How a device plugin hands a device out to several pods at once."""

    replicas: int = 1
    strategy: str = ""
    """`time-slicing` or `mps`, as the label `nvidia.com/gpu.sharing-strategy` says it."""


def of_replica(device: DeviceKind, sharing: Sharing, weights: tuple[ReplicaWeight, ...] = ()) -> DeviceKind:
    """What one replica of a device is: 1/replicas of it, or of its GPU share what the administrator says.

    Memory is divided by replicas whatever the weight: nothing keeps a time-sliced pod from more, so this is its fair
    share of it. Of several weights for a product the last one counts.
    """
    if sharing.replicas <= 1:
        return device
    weight = Fraction(1, sharing.replicas)
    for each in weights:
        if each.sharing == sharing.strategy and _names(each.products, device.product):
            weight = Fraction(each.gpus)
    memory = None if device.memory is None else device.memory // sharing.replicas
    return replace(device, gpus=device.gpus * weight, memory=memory)


def _names(products: tuple[str, ...], product: str) -> bool:
    return any_matches(_folded(products), fold_name(product))


@remember_short(256)
def _folded(products: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(fold_name(glob).removeprefix("nvidia-") for glob in products)


@remember_short(1024)
def mig_share(product: str, profile: MIGProfile, memory: int | None = None) -> Fraction:
    """How much of its GPU a MIG device is: the larger of its shares of compute slices and of memory slices.

    A compute instance that is smaller than its GPU instance is its part of that.

    Args:
        product: of the GPU, in any spelling; where it is not known, all GPUs count that have such a profile.
        profile: of the device.
        memory: of the whole GPU in bytes, where it is known: what a GPU of an unknown name is cut like.
    """
    known = product_named(product)
    if known is not None:
        layout, match = known.layout, known.match(profile)
    else:
        layout, match = AMPERE, None if memory is None else Geometry(-(-memory // GIB)).match(profile)
    share = _share_by_name(profile) if match is None else _share(layout, match)
    return share * profile.compute_slices / profile.gpu_slices if profile.shares_gpu_instance else share


def _share(layout: Layout, match: Match) -> Fraction:
    compute = Fraction(match.shape.compute_slices, layout.compute_slices)
    return max(compute, Fraction(match.shape.memory_slices, layout.memory_slices))


def _share_by_name(profile: MIGProfile) -> Fraction:
    """The most that such a profile is of any GPU that has it; of none that is known: of one cut in seven and eight."""
    shares = [
        _share(each.layout, match) for each in PRODUCTS if (match := each.match(profile)) is not None and match.exact
    ]
    if shares:
        return max(shares)
    memory = _MEMORY_SLICES.get(profile.gpu_slices, 0)
    return min(Fraction(1), max(Fraction(profile.gpu_slices, 7), Fraction(memory, 8)))


def largest(profile: MIGProfile) -> int:
    """The most bytes of memory that a MIG device of this name has: names are rounded to the nearest GiB."""
    return (2 * profile.memory_gb + 1) * GIB // 2


def unseen_slice(profile: MIGProfile, product: str = "") -> DeviceKind:
    """A MIG device that no node shows."""
    return DeviceKind(product, str(profile), mig_share(product, profile), largest(profile))


@remember_short(64)
def any_profile(product: str = "") -> frozenset[DeviceKind]:
    """MIG devices of every profile that a product has, or that any has where it is not known."""
    known = product_named(product)
    return frozenset(
        unseen_slice(match.profile, product)
        for each in (PRODUCTS if known is None else (known,))
        for memory in each.memory
        for match in Geometry(memory, each.layout).matches
    )


def unseen_gpu(product: str = "") -> DeviceKind:
    """A whole GPU that no node shows, with the memory that its product is known for."""
    return DeviceKind(product, memory=product_memory(product) if product else None)
