"""MIG sizes: memory, multiprocessors and engines of MIG devices, measured or estimated."""

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
    bounds: tuple[int, int] | None = None
    """The least and the most memory that is possible if it is estimated; None if it was measured, or is unknown."""


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
_LEAST = {1: 86, 2: 91}
_LEAST_OF_MORE = 96
"""The least part of its share of the GPU's memory that a MIG device has, in percent, by its memory slices.

Most is kept of devices of one slice: 20.00 of 23.1 GiB on a GB200, 16.00 of 17.5 GiB on an H200. It depends on the driver: a
B200 had 20.50 GiB with one and 22.00 GiB with another.

Source: `nvidia-smi mig -lgip` in github.com/NVIDIA/mig-parted issues 120 and 227, pull requests 139, 166 and 187, and
github.com/NVIDIA/gpu-operator pull requests 903 and 1303.
"""


def mig_size(product: str, mig: MIGProduct | None, profile: MIGProfile, memory: int | None) -> MIGSize:
    """The size of a MIG device of a product.

    The memory is estimated from that of the whole GPU where it was not measured.

    Args:
        product: The name as labels spell it.
        mig: The product, if MIG can divide it.
        profile: The profile of the device.
        memory: Of the whole GPU in MiB; None if it is unknown.
    """
    match = mig.match(profile) if mig is not None else None
    if mig is None or match is None:
        return MIGSize(None, Engines())
    shape = match.shape
    bare = product.removeprefix("NVIDIA-")
    found = next((each for each in _MEASURED if each[0].fullmatch(bare)), None)
    key = (shape.compute_slices, shape.memory_slices, match.profile.attributes)
    engines = Engines() if found is None or profile.shares_gpu_instance else found[1].get(key, Engines())
    known = found[2].get(shape.memory_slices) if found is not None else None
    if known is not None:
        return MIGSize(known, engines)
    wholes = [memory] if memory else [each * 1024 for each in mig.memory]
    least, share, most = (
        whole * shape.memory_slices // mig.layout.memory_slices for whole in (min(wholes), wholes[0], max(wholes))
    )
    percent = _LEAST.get(shape.memory_slices, _LEAST_OF_MORE)
    return MIGSize(max(share // _UNIT - 1, 1) * _UNIT, engines, (least * percent // 100, most))
