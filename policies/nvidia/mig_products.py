"""MIG sizes: memory, multiprocessors and engines of MIG devices, measured or estimated."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from policies.kubernetes.names import format_list
from policies.nvidia.identifiers import COUNT_LABEL, MEMORY_LABEL, MIG_CAPABLE_LABEL, PRODUCT_LABEL
from policies.nvidia.mig import AMPERE, AMPERE_SMALL, BLACKWELL_GRAPHICS, Geometry, Layout, Match, MIGProfile
from policies.nvidia.products import Product

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class MIGProduct:
    """GPUs of one kind and size."""

    name: str
    """As people call it."""
    memory: tuple[int, ...]
    """In GiB, rounded up; more than one where drivers differ in what they report."""
    devices: tuple[str, ...] = ()
    """PCI device ids, four hexadecimal digits in capitals."""
    pattern: str = r"(?!)"
    """A regular expression of its names in the label `nvidia.com/gpu.product`, without `NVIDIA-`."""
    layout: Layout = AMPERE

    def match(self, profile: MIGProfile) -> Match | None:
        """The profile of the GPU that is meant by another, under the driver that comes nearest to it."""
        return _match(self, profile)

    @property
    def geometries(self) -> tuple[Geometry, ...]:
        """Its geometry under each driver, of which all but the names of profiles are the same."""
        return tuple(Geometry(memory, self.layout) for memory in self.memory)

    def profiles(self) -> list[str]:
        """The names of all its profiles, the small ones first."""
        return [str(match.profile) for match in self.geometries[0].matches]


@lru_cache(maxsize=1024)
def _match(product: MIGProduct, profile: MIGProfile) -> Match | None:
    found = [match for geometry in product.geometries if (match := geometry.match(profile))]
    return min(found, key=lambda match: not match.exact, default=None)


PRODUCTS = (
    MIGProduct("A100 40GB", (40,), ("20B0", "20B1", "20F1", "20F6"), r"A[18]00.*40GB.*"),
    MIGProduct("A100 80GB", (80,), ("20B2", "20B5", "20F3", "20F5"), r"A[18]00.*80GB.*|A100X"),
    MIGProduct("A30", (24,), ("20B7",), r"A30", AMPERE_SMALL),
    MIGProduct("H100 80GB", (80,), ("2330", "2331", "2322", "2324"), r"H[18]00(-PCIe|.*80GB.*)?"),
    MIGProduct("H100 NVL", (94,), ("2321", "233A"), r"H[18]00-NVL.*"),
    MIGProduct(
        "H100 96GB", (96,), ("2342", "233D", "20B6", "2329"), r"H100.*96GB.*|GH200-(480GB|96G.*)|H20|PG506-96.*"
    ),
    MIGProduct("H200", (141,), ("2335", "233B"), r"H200(-.*)?|H20-3e"),
    MIGProduct("GH200 144GB", (144,), ("2348",), r"GH200-144G.*"),
    MIGProduct("B200", (180,), ("2901",), r"B200(-.*)?"),
    MIGProduct("GB200", (186, 189), ("2941",), r"GB200(-.*)?"),
    MIGProduct("B300", (269,), ("3182",), r"B300(-.*)?"),
    MIGProduct("GB300", (278,), ("31C2",), r"GB300(-.*)?"),
    MIGProduct("RTX PRO 6000", (96,), ("2BB5",), r"RTX-PRO-6000-Blackwell.*", BLACKWELL_GRAPHICS),
)
"""The GPUs whose profiles are known; an A800 or H800 is cut like the A100 or H100 of its size.

Source: github.com/NVIDIA/mig-parted deployments/systemd/config-default.yaml.
"""

_BOARDS = {
    "20B0": r"A100-SXM4?-40GB",
    "20B1": r"A100-PCIE-40GB",
    "20F1": r"A100-PCIE-40GB",
    "20F6": r"A800-40GB.*",
    "20B2": r"A100-SXM4?-80GB",
    "20B5": r"A100-80GB-PCIe",
    "20F3": r"A800-SXM4?-80GB",
    "20F5": r"A800-80GB-PCIe",
    "2330": r"H100-80GB-HBM3",
    "2331": r"H100-PCIe",
    "2322": r"H800-PCIe",
    "2324": r"H800",
    "2321": r"H100-NVL",
    "233A": r"H800-NVL",
    "2342": r"GH200-480GB",
    "233D": r"H100-.*96GB.*",
    "20B6": r"PG506-96.*",
    "2329": r"H20",
    "2335": r"H200",
    "233B": r"H200-NVL",
}
"""The names of the boards of one product, by their PCI device ids.

Source: pci-ids.ucw.cz, vendor 10de.
"""

_INCAPABLE = re.compile(
    r"Tesla-[KMPTV]\d.*|[TPV]\d+.*|A(2|10|10G|10M|16|40)(-.*)?|L(2|4|20|40|40S|40G)(-.*)?|(GeForce|Quadro|TITAN)-.*|"
    r"RTX-(A\d|\d).*"
)
_ALTERNATIVE = 3
"""By how many GiB the memory that a driver reports differs at most from what is sold."""


def product_named(name: str) -> MIGProduct | None:
    """The product of a name such as `NVIDIA-A100-SXM4-40GB`, with or without the brand, spaces or dashes."""
    bare = _bare(name)
    return next((product for product in PRODUCTS if re.fullmatch(product.pattern, bare)), None)


def _bare(name: str) -> str:
    """A name as labels spell it, without the brand."""
    return name.strip().replace(" ", "-").removeprefix("NVIDIA-")


def has_profile(name: str, profile: MIGProfile) -> bool:
    """True if the GPU of a product is known to have a MIG profile of exactly this name."""
    product = product_named(name)
    match = product.match(profile) if product else None
    return match is not None and match.exact


def product_of_device(device: str) -> MIGProduct | None:
    """The product of a PCI device id of four hexadecimal digits."""
    return _BY_DEVICE.get(device.upper())


def device_ids(name: str) -> frozenset[str]:
    """The PCI device ids that a GPU of this name may have: that of its board, or all of its product."""
    product, bare = product_named(name), _bare(name)
    if product is None:
        return frozenset()
    own = frozenset(device for device in product.devices if re.fullmatch(_BOARDS.get(device, r"(?!)"), bare))
    return own or frozenset(product.devices)


def node_product(labels: Mapping[str, str]) -> MIGProduct | None:
    """The product on a node, also by the memory that its driver reports if the label is of whole GPUs."""
    product, reported = product_named(Product.parse(labels.get(PRODUCT_LABEL, "")).name), _reported_memory(labels)
    if product is None or reported is None:
        return product
    near = any(abs(reported - known) <= _ALTERNATIVE for known in product.memory)
    return replace(product, memory=(reported,)) if near else product


def _reported_memory(labels: Mapping[str, str]) -> int | None:
    """The memory of a GPU by its driver, in GiB rounded up; None if the labels are not of whole GPUs."""
    label, memory = Product.parse(labels.get(PRODUCT_LABEL, "")), labels.get(MEMORY_LABEL, "")
    if label.profile is not None or label.invalid or not re.fullmatch(r"[0-9]{1,9}", memory):
        return None
    return -(-int(memory) // 1024)


def is_lacking(profile: str, labels: Mapping[str, str]) -> bool:
    """True if the GPUs of a node certainly have no profile of this name, so that mig-parted ignores it.

    Names that are a little off are certain only where the node shows the memory that its driver reports.

    Source: github.com/NVIDIA/mig-parted pkg/types/mig_config.go Flatten, mig_profile.go ParseMigProfile.
    """
    product, parsed = node_product(labels), MIGProfile.parse(profile)
    if product is None:
        return False
    match = product.match(parsed) if parsed is not None else None
    return match is None or (not match.exact and product.memory == (_reported_memory(labels),))


def gpu_count(labels: Mapping[str, str]) -> int | None:
    """The number of GPUs of a node; None where its labels do not tell.

    Under the single strategy they count MIG devices. Where GPUs of several models share a node, the label counts those of one.
    """
    label = Product.parse(labels.get(PRODUCT_LABEL, ""))
    count = labels.get(COUNT_LABEL, "")
    if label.profile is not None or label.invalid or not re.fullmatch(r"[0-9]{1,9}", count):
        return None
    return int(count) or None


def is_capable(labels: Mapping[str, str]) -> bool | None:
    """True if MIG can divide the GPUs of a node; None where its labels do not tell.

    Source: github.com/NVIDIA/gpu-operator controllers/state_manager.go hasMIGCapableGPU.
    """
    if labels.get("nvidia.com/vgpu.host-driver-version"):
        return False
    if (told := labels.get(MIG_CAPABLE_LABEL)) in ("true", "false"):
        return told == "true"
    name = Product.parse(labels.get(PRODUCT_LABEL, "")).name.removeprefix("NVIDIA-")
    if product_named(name):
        return True
    return False if _INCAPABLE.fullmatch(name) else None


@cache
def shipped_configs() -> frozenset[str]:
    """The names of the configurations that the GPU Operator brings: `all-disabled`, `all-1g.10gb.me`.

    Since 26.3 the MIG manager makes them for each node, from what its driver reports.
    """
    profiles = {
        match.profile.label for product in PRODUCTS for geometry in product.geometries for match in geometry.matches
    }
    return frozenset({"all-disabled", "all-enabled", "all-balanced", *(f"all-{profile}" for profile in profiles)})


_BY_DEVICE = {device: product for product in PRODUCTS for device in product.devices}


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


@lru_cache(maxsize=1024)
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


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """The memory of MIG devices of one profile, in MiB."""

    profile: str
    memory: int
    least: int
    """The least that is possible."""
    most: int
    """The most that is possible."""

    @classmethod
    def of(cls, sizes: Mapping[MIGProfile, MIGSize]) -> tuple[MemoryEstimate, ...]:
        """The estimates among sizes."""
        return tuple(
            cls(str(profile), size.memory, *size.bounds)
            for profile, size in sizes.items()
            if size.memory is not None and size.bounds is not None
        )

    def __str__(self) -> str:
        """`MIG 1g.10gb (8.6 to 10 GiB)`."""
        least, most = (f"{amount / 1024:.1f}".removesuffix(".0") for amount in (self.least, self.most))
        return f"MIG {self.profile} ({least} to {most} GiB)"


def estimates_clause(estimates: Iterable[MemoryEstimate]) -> str:
    """The estimates as a clause; empty if there are none."""
    found = sorted(set(map(str, estimates)))
    return f"the memory of {format_list(found, 3)} is estimated" if found else ""
