"""MIG sizes: memory, multiprocessors and engines of MIG devices, as measured on real GPUs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from policies.nvidia.mig import MIGProfile
    from policies.nvidia.mig_products import MIGProduct

__all__ = ["Engines", "MIGSize", "mig_size"]


class Engines(NamedTuple):
    """Multiprocessors and engines of a MIG device; None for a number that is unknown."""

    multiprocessors: int | None = None
    copy: int | None = None
    decoder: int | None = None
    encoder: int | None = None
    jpeg: int | None = None
    ofa: int | None = None


class MIGSize(NamedTuple):
    """The size of a MIG device."""

    memory: int | None
    """In MiB; None if it is unknown."""
    engines: Engines
    is_measured: bool
    """False if the memory is estimated."""


_A100 = {
    (1, 1, ""): Engines(14, 1, 0, 0, 0, 0),
    (1, 1, "+me"): Engines(14, 1, 1, 0, 1, 1),
    (1, 2, ""): Engines(14, 1, 1, 0, 0, 0),
    (2, 2, ""): Engines(28, 2, 1, 0, 0, 0),
    (3, 4, ""): Engines(42, 3, 2, 0, 0, 0),
    (4, 4, ""): Engines(56, 4, 2, 0, 0, 0),
    (7, 8, ""): Engines(98, 7, 5, 0, 1, 1),
}
_H100 = {
    (1, 1, ""): Engines(16, 1, 1, 0, 1, 0),
    (1, 1, "+me"): Engines(16, 1, 1, 0, 1, 1),
    (1, 2, ""): Engines(26, 1, 1, 0, 1, 0),
    (2, 2, ""): Engines(32, 2, 2, 0, 2, 0),
    (3, 4, ""): Engines(60, 3, 3, 0, 3, 0),
    (4, 4, ""): Engines(64, 4, 4, 0, 4, 0),
    (7, 8, ""): Engines(132, 8, 7, 0, 7, 1),
}
_MEASURED: tuple[tuple[re.Pattern[str], dict[tuple[int, int, str], Engines], dict[int, int]], ...] = (
    (re.compile(r"A[18]00.*40GB.*"), _A100, {1: 4864, 2: 9856, 4: 19968, 8: 40192}),
    (re.compile(r"A[18]00.*80GB.*|A100X"), _A100, {}),
    (re.compile(r"H[18]00.*80GB-HBM3"), _H100, {1: 9984, 2: 20096, 4: 40448, 8: 81152}),
)
"""Names of products without `NVIDIA-`; engines by compute slices, memory slices and attribute; memory by memory slices.

Source: NVML's GpuInstanceProfileInfo of an A100-SXM4-40GB (github.com/NVIDIA/go-nvml pkg/nvml/mock) and of an
H100 80GB HBM3 with driver 580.159.04.
"""
_UNIT = 128
"""NVML gives the memory of MIG devices in multiples of 128 MiB, and keeps about one of them for itself."""


def mig_size(product: str, mig: MIGProduct | None, profile: MIGProfile, memory: int | None) -> MIGSize:
    """The size of a MIG device of a product.

    The memory is estimated from that of the whole GPU where it was not measured: up to 2 % more or less.

    Args:
        product: The name as labels spell it.
        mig: The product, if MIG can divide it.
        profile: The profile of the device.
        memory: Of the whole GPU in MiB; None if it is unknown.
    """
    match = mig.match(profile) if mig is not None else None
    if mig is None or match is None:
        return MIGSize(None, Engines(), is_measured=False)
    shape = match.shape
    bare = product.removeprefix("NVIDIA-")
    found = next((each for each in _MEASURED if each[0].fullmatch(bare)), None)
    key = (shape.compute_slices, shape.memory_slices, match.profile.attributes)
    engines = Engines() if found is None or profile.shares_gpu_instance else found[1].get(key, Engines())
    known = found[2].get(shape.memory_slices) if found is not None else None
    if known is not None:
        return MIGSize(known, engines, is_measured=True)
    whole = memory or mig.memory[0] * 1024
    share = whole * shape.memory_slices // mig.layout.memory_slices
    return MIGSize(max(share // _UNIT - 1, 1) * _UNIT, engines, is_measured=False)
