"""GPUs that MIG can divide: by product name, by PCI device id, by the labels of a node."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from policies.nvidia.identifiers import COUNT_LABEL, MEMORY_LABEL, MIG_CAPABLE_LABEL, PRODUCT_LABEL
from policies.nvidia.mig_geometry import AMPERE, AMPERE_SMALL, BLACKWELL_GRAPHICS, Geometry, Layout, Match
from policies.nvidia.products import Product

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.nvidia.mig import MIGProfile

__all__ = [
    "PRODUCTS",
    "MIGProduct",
    "device_ids",
    "gpu_count",
    "is_capable",
    "node_product",
    "product_named",
    "product_of_device",
    "shipped_configs",
]


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
        """What the GPU has that is meant by a profile, under the driver that comes nearest to it."""
        found = [match for geometry in self.geometries if (match := geometry.match(profile))]
        return min(found, key=lambda match: not match.exact, default=None)

    @property
    def geometries(self) -> tuple[Geometry, ...]:
        """Its geometry under each driver, of which all but the names of profiles are the same."""
        return tuple(Geometry(memory, self.layout) for memory in self.memory)

    def profiles(self) -> list[str]:
        """The names of all its profiles, the small ones first."""
        return [str(match.profile) for match in self.geometries[0].matches]


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
    label = Product.parse(labels.get(PRODUCT_LABEL, ""))
    product = product_named(label.name)
    memory = labels.get(MEMORY_LABEL, "")
    whole = label.profile is None and not label.invalid
    if product is None or not whole or not re.fullmatch(r"[0-9]{1,9}", memory):
        return product
    reported = -(-int(memory) // 1024)
    near = any(abs(reported - known) <= _ALTERNATIVE for known in product.memory)
    return replace(product, memory=(reported,)) if near else product


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
