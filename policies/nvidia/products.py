"""Products: the label `nvidia.com/gpu.product`, globs such as `H100*`, driver versions, known GPUs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import filter as _matching
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from policies.kubernetes.bounds import remember_short
from policies.nvidia.identifiers import FAMILY_LABEL, PRODUCT_LABEL
from policies.nvidia.mig import MIGProfile

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping


_SHARED = "-SHARED"
_MIG = "-MIG-"
_INVALID = "INVALID"


@dataclass(frozen=True, slots=True)
class Product:
    """A value of `nvidia.com/gpu.product` taken apart.

    Source: github.com/NVIDIA/k8s-device-plugin internal/lm (`<product>[-MIG-<profile>][-SHARED]`, and
    `<product>-MIG-INVALID` on nodes whose MIG devices differ under the single strategy).
    """

    name: str
    """The GPU's name as labels spell it: `NVIDIA-A100-SXM4-40GB`."""
    profile: MIGProfile | None = None
    """The MIG profile that the node hands out as `nvidia.com/gpu` (single strategy)."""
    shared: bool = False
    invalid: bool = False

    @staticmethod
    def parse(label: str) -> Product:
        """Take a label value apart; what is no suffix belongs to the name."""
        return _parse(label)


@remember_short(4096)
def _parse(label: str) -> Product:
    """Remembered, because every wish is compared with every product that there is."""
    base = label.removesuffix(_SHARED)
    shared = base != label
    name, separator, suffix = base.rpartition(_MIG)
    if separator and suffix == _INVALID:
        return Product(name, shared=shared, invalid=True)
    profile = MIGProfile.from_label(suffix) if separator else None
    return Product(name, profile, shared) if profile else Product(base, shared=shared)


BRAND = "nvidia-"
"""The prefix that drivers since R470 put before most names; globs are written without it and match names with and without it."""

_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_ANY = "\0"


def lower_ascii(text: str) -> str:
    """A text as CEL's `lowerAscii` leaves it."""
    return text.lower() if text.isascii() else text.translate(_LOWER)


def fold_name(name: str) -> str:
    """A name as globs are matched against: ASCII letters in lower case, dashes for blanks."""
    return lower_ascii(name).replace(" ", "-")


def any_matches(globs: Collection[str], name: str) -> bool:
    """True if some glob matches the whole name.

    Args:
        globs: in lower case and without `nvidia-`.
        name: folded.
    """
    return any(matching_texts(glob, spellings(name)) for glob in globs)


def matching_texts(glob: str, texts: Iterable[str]) -> list[str]:
    """Those of many spellings of names that a glob matches."""
    return _matching(texts, glob)


def spellings(name: str) -> tuple[str, ...]:
    """The texts of a folded name that a glob can match: all of it, and the part after `nvidia-`."""
    bare = name.removeprefix(BRAND)
    return (name,) if bare == name else (name, bare)


def regular_expression(globs: Collection[str]) -> str:
    """A regular expression in the syntax of RE2 that matches exactly the names that `any_matches` accepts."""
    alternatives = (glob.replace(".", "[.]").replace("*", ".*").replace("?", ".") for glob in sorted(set(globs)))
    return f"(?s)^({BRAND})?({'|'.join(alternatives)})$"


def is_within(inner: str, outer: str) -> bool:
    """True if it is certain that `outer` matches every name that `inner` matches.

    The inner glob is matched as if it were a name: its `*` can be any text, so only a `*` of the outer one takes it in;
    its `?` is one character that no letter of the outer one is.
    """
    return fnmatchcase(inner.replace("*", _ANY), outer.replace("?", f"[!{_ANY}]"))


_VERSION = re.compile(r"[0-9]{3,4}(\.[0-9]{1,4}){0,2}")

_FIRST_WITH_AUTO = (570, 86, 15)
_ALL_WITH_AUTO = (570, 124, 6)
_PENDING_FULL_GPUS = {(570, 124, 6), (570, 133, 20), (570, 148, 8), (570, 158, 1)}

_OLD_FAMILIES = {"kepler", "maxwell", "pascal", "volta"}
_OPEN_FAMILIES = {"blackwell", "rubin"}
_GRACE = re.compile(r"G[HB](200|300)(-|$)")


@dataclass(frozen=True, slots=True, order=True)
class DriverVersion:
    """A version of the NVIDIA driver: `580` is a branch, `580.65.06` a full version."""

    numbers: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> DriverVersion | None:
        """Read a version; None for digests, tags with a suffix and other text."""
        return cls(tuple(map(int, text.split(".")))) if _VERSION.fullmatch(text) else None

    @property
    def is_branch(self) -> bool:
        """True if only the branch is given."""
        return len(self.numbers) == 1

    @property
    def branch(self) -> int:
        """The release branch, 580."""
        return self.numbers[0]

    def is_below(self, *least: int) -> bool:
        """True if it is certainly older. A branch is not older than a version of the branch."""
        return self.numbers < least[: len(self.numbers)]

    @property
    def knows_auto(self) -> bool:
        """True if its container chooses between open and proprietary modules by itself.

        Source: docs.nvidia.com GPU Operator, getting started: "570.86.15 and 570.124.06 or later driver containers".
        """
        return self.numbers == _FIRST_WITH_AUTO or not self.is_below(*_ALL_WITH_AUTO)

    @property
    def leaves_full_gpus_pending(self) -> bool:
        """True if pods that request whole GPUs stay pending on nodes that have MIG devices too.

        Source: github.com/NVIDIA/gpu-operator issues 1361, release notes of GPU Operator 25.3.
        """
        return self.numbers in _PENDING_FULL_GPUS


@dataclass(frozen=True, slots=True)
class Need:
    """The oldest driver that knows a GPU."""

    gpu: str
    """The name of the GPU in messages."""
    version: tuple[int, ...]

    def __str__(self) -> str:
        branch, *rest = self.version
        return ".".join([str(branch), *(f"{number:02}" for number in rest)])


_PRODUCT_NEEDS = (
    (re.compile(r"(.*-)?B200(-.*)?"), Need("HGX B200", (570, 133, 20))),
    (re.compile(r"RTX-PRO-6000(-.*)?"), Need("RTX PRO 6000", (575, 57, 8))),
    (re.compile(r"H200(-.*)?"), Need("H200", (550,))),
)
_FAMILY_NEEDS = {"blackwell": Need("Blackwell", (570,)), "hopper": Need("Hopper", (525,))}


def driver_needs(labels: Mapping[str, str]) -> Need | None:
    """The oldest driver for the GPUs of a node, by its labels; None if every supported driver works.

    Source: docs.nvidia.com GPU Operator, platform support; the branches of whole families are those that their first
    GPUs were released with.
    """
    product = _product(labels)
    named = next((need for pattern, need in _PRODUCT_NEEDS if pattern.fullmatch(product)), None)
    return named or _FAMILY_NEEDS.get(_family(labels))


def needs_proprietary_modules(labels: Mapping[str, str]) -> bool:
    """True if a node's GPUs are older than Turing, which the open kernel modules begin with."""
    return _family(labels) in _OLD_FAMILIES


def needs_open_modules(labels: Mapping[str, str]) -> bool:
    """True if a node's GPUs need the open kernel modules: Blackwell and later, and those of Grace."""
    return _family(labels) in _OPEN_FAMILIES or _GRACE.match(_product(labels)) is not None


def _family(labels: Mapping[str, str]) -> str:
    return labels.get(FAMILY_LABEL, "")


def _product(labels: Mapping[str, str]) -> str:
    return Product.parse(labels.get(PRODUCT_LABEL, "")).name.removeprefix("NVIDIA-")


KNOWN_PRODUCTS: tuple[str, ...] = (
    "Tesla-P4",
    "Tesla-P40",
    "Tesla-P100-PCIE-16GB",
    "Tesla-P100-SXM2-16GB",
    "Tesla-V100-PCIE-16GB",
    "Tesla-V100-PCIE-32GB",
    "Tesla-V100-SXM2-16GB",
    "Tesla-V100-SXM2-32GB",
    "Tesla-V100-SXM3-32GB",
    "Tesla-V100S-PCIE-32GB",
    "Tesla-T4",
    "Quadro-RTX-6000",
    "Quadro-RTX-8000",
    "NVIDIA-A100-PCIE-40GB",
    "NVIDIA-A100-SXM4-40GB",
    "NVIDIA-A100-80GB-PCIe",
    "NVIDIA-A100-SXM4-80GB",
    "NVIDIA-A800-SXM4-80GB",
    "NVIDIA-A800-80GB-PCIe",
    "NVIDIA-A30",
    "NVIDIA-A2",
    "NVIDIA-A10",
    "NVIDIA-A10G",
    "NVIDIA-A16",
    "NVIDIA-A40",
    "NVIDIA-RTX-A4000",
    "NVIDIA-RTX-A4500",
    "NVIDIA-RTX-A5000",
    "NVIDIA-RTX-A6000",
    "NVIDIA-GeForce-RTX-3090",
    "NVIDIA-L4",
    "NVIDIA-L20",
    "NVIDIA-L40",
    "NVIDIA-L40S",
    "NVIDIA-RTX-4000-Ada-Generation",
    "NVIDIA-RTX-4000-SFF-Ada-Generation",
    "NVIDIA-RTX-4500-Ada-Generation",
    "NVIDIA-RTX-5000-Ada-Generation",
    "NVIDIA-RTX-6000-Ada-Generation",
    "NVIDIA-GeForce-RTX-4090",
    "NVIDIA-H100-PCIe",
    "NVIDIA-H100-80GB-HBM3",
    "NVIDIA-H100-NVL",
    "NVIDIA-H800",
    "NVIDIA-H20",
    "NVIDIA-H20-3e",
    "NVIDIA-H200",
    "NVIDIA-H200-NVL",
    "NVIDIA-GH200-480GB",
    "NVIDIA-GH200-144G-HBM3e",
    "NVIDIA-B200",
    "NVIDIA-GB200",
    "NVIDIA-B300-SXM6-AC",
    "NVIDIA-GB300",
    "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition",
    "NVIDIA-RTX-PRO-6000-Blackwell-Workstation-Edition",
    "NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition",
    "NVIDIA-GeForce-RTX-5090",
)
"""Data-centre GPUs and those of workstations that clusters have: values of `nvidia.com/gpu.product` without any suffix,
as drivers since R470 name the GPUs.

Source: labels and outputs of nvidia-smi that operators publish (issues of github.com/NVIDIA/gpu-operator and
k8s-device-plugin among them). GB10, whose GPU has no memory of its own, and names that were seen once only are left out.
"""

SXM_PRODUCTS = (
    "H100-80GB-HBM3",
    "H800",
    "H20",
    "H20-3e",
    "H200",
    "B200",
    "GB200",
    "GB300",
    "GH200-480GB",
    "GH200-144G-HBM3e",
)
"""Known products that are modules without a form factor in their names; the others without one are PCIe cards.

Source: NVIDIA's data sheets, and the boards of pci-ids.ucw.cz that `policies.nvidia.mig_products` names.
"""
MEMORY_SIZES = {
    "P4": 8,
    "P40": 24,
    "T4": 16,
    "RTX-6000": 24,
    "RTX-8000": 48,
    "A2": 16,
    "A10": 24,
    "A10G": 24,
    "A16": 16,
    "A40": 48,
    "RTX-A4000": 16,
    "RTX-A4500": 20,
    "RTX-A5000": 24,
    "RTX-A6000": 48,
    "RTX-3090": 24,
    "RTX-4090": 24,
    "RTX-5090": 32,
    "L4": 24,
    "L20": 48,
    "L40": 48,
    "L40S": 48,
    "RTX-4000-Ada-Generation": 20,
    "RTX-4000-SFF-Ada-Generation": 20,
    "RTX-4500-Ada-Generation": 24,
    "RTX-5000-Ada-Generation": 32,
    "RTX-6000-Ada-Generation": 48,
}
"""The memory in GB of known products that MIG does not divide and whose names lack it, by name without the brand.

Source: NVIDIA's data sheets; aws.amazon.com/ec2/instance-types/g5 for the A10G.
"""

GKE_ACCELERATORS = {
    "nvidia-tesla-p4": "Tesla-P4",
    "nvidia-tesla-p100": "Tesla-P100-PCIE-16GB",
    "nvidia-tesla-v100": "Tesla-V100-SXM2-16GB",
    "nvidia-tesla-t4": "Tesla-T4",
    "nvidia-tesla-a100": "NVIDIA-A100-SXM4-40GB",
    "nvidia-a100-80gb": "NVIDIA-A100-SXM4-80GB",
    "nvidia-l4": "NVIDIA-L4",
    "nvidia-h100-80gb": "NVIDIA-H100-80GB-HBM3",
    "nvidia-h100-mega-80gb": "NVIDIA-H100-80GB-HBM3",
    "nvidia-h200-141gb": "NVIDIA-H200",
    "nvidia-b200": "NVIDIA-B200",
    "nvidia-gb200": "NVIDIA-GB200",
    "nvidia-rtx-pro-6000": "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition",
}
"""The values of GKE's label `cloud.google.com/gke-accelerator`, with the products of their GPUs.

Source: cloud.google.com/kubernetes-engine/docs/concepts/gpus.
"""
