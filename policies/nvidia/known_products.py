"""Products that are known by name, whether or not a node has one now.

They expand globs and make suggestions; what is not in the table is never refused for it.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["KNOWN_PRODUCTS", "KnownProduct"]


@dataclass(frozen=True, slots=True)
class KnownProduct:
    """A GPU as the labels of its nodes describe it."""

    label: str
    """The value of `nvidia.com/gpu.product` without any suffix, as drivers since R470 name the GPU."""
    family: str
    """The value of `nvidia.com/gpu.family`."""
    compute_capability: tuple[int, int]
    memory: int
    """The value of `nvidia.com/gpu.memory`, in MiB, under current drivers and the GPU's default for ECC.

    A driver or ECC can change it by up to a tenth: a Tesla T4 has 15109 under old drivers, an A40 without ECC 49140.
    """


_TURING = ("turing", (7, 5))
_AMPERE = ("ampere", (8, 0))
_AMPERE_GRAPHICS = ("ampere", (8, 6))
_ADA = ("ada-lovelace", (8, 9))
_HOPPER = ("hopper", (9, 0))
_BLACKWELL = ("blackwell", (10, 0))
_BLACKWELL_ULTRA = ("blackwell", (10, 3))
_BLACKWELL_GRAPHICS = ("blackwell", (12, 0))

KNOWN_PRODUCTS: tuple[KnownProduct, ...] = (
    KnownProduct("Tesla-P4", "pascal", (6, 1), 7680),
    KnownProduct("Tesla-P40", "pascal", (6, 1), 23040),
    KnownProduct("Tesla-P100-PCIE-16GB", "pascal", (6, 0), 16384),
    KnownProduct("Tesla-P100-SXM2-16GB", "pascal", (6, 0), 16384),
    KnownProduct("Tesla-V100-PCIE-16GB", "volta", (7, 0), 16384),
    KnownProduct("Tesla-V100-PCIE-32GB", "volta", (7, 0), 32768),
    KnownProduct("Tesla-V100-SXM2-16GB", "volta", (7, 0), 16384),
    KnownProduct("Tesla-V100-SXM2-32GB", "volta", (7, 0), 32768),
    KnownProduct("Tesla-V100-SXM3-32GB", "volta", (7, 0), 32768),
    KnownProduct("Tesla-V100S-PCIE-32GB", "volta", (7, 0), 32768),
    KnownProduct("Tesla-T4", *_TURING, 15360),
    KnownProduct("Quadro-RTX-6000", *_TURING, 23040),
    KnownProduct("Quadro-RTX-8000", *_TURING, 46080),
    KnownProduct("NVIDIA-A100-PCIE-40GB", *_AMPERE, 40960),
    KnownProduct("NVIDIA-A100-SXM4-40GB", *_AMPERE, 40960),
    KnownProduct("NVIDIA-A100-80GB-PCIe", *_AMPERE, 81920),
    KnownProduct("NVIDIA-A100-SXM4-80GB", *_AMPERE, 81920),
    KnownProduct("NVIDIA-A800-SXM4-80GB", *_AMPERE, 81920),
    KnownProduct("NVIDIA-A800-80GB-PCIe", *_AMPERE, 81920),
    KnownProduct("NVIDIA-A30", *_AMPERE, 24576),
    KnownProduct("NVIDIA-A2", *_AMPERE_GRAPHICS, 15356),
    KnownProduct("NVIDIA-A10", *_AMPERE_GRAPHICS, 23028),
    KnownProduct("NVIDIA-A10G", *_AMPERE_GRAPHICS, 23028),
    KnownProduct("NVIDIA-A16", *_AMPERE_GRAPHICS, 15356),
    KnownProduct("NVIDIA-A40", *_AMPERE_GRAPHICS, 46068),
    KnownProduct("NVIDIA-RTX-A4000", *_AMPERE_GRAPHICS, 16376),
    KnownProduct("NVIDIA-RTX-A4500", *_AMPERE_GRAPHICS, 20470),
    KnownProduct("NVIDIA-RTX-A5000", *_AMPERE_GRAPHICS, 24564),
    KnownProduct("NVIDIA-RTX-A6000", *_AMPERE_GRAPHICS, 49140),
    KnownProduct("NVIDIA-GeForce-RTX-3090", *_AMPERE_GRAPHICS, 24576),
    KnownProduct("NVIDIA-L4", *_ADA, 23034),
    KnownProduct("NVIDIA-L20", *_ADA, 46068),
    KnownProduct("NVIDIA-L40", *_ADA, 46068),
    KnownProduct("NVIDIA-L40S", *_ADA, 46068),
    KnownProduct("NVIDIA-RTX-4000-Ada-Generation", *_ADA, 20475),
    KnownProduct("NVIDIA-RTX-4000-SFF-Ada-Generation", *_ADA, 20475),
    KnownProduct("NVIDIA-RTX-4500-Ada-Generation", *_ADA, 24570),
    KnownProduct("NVIDIA-RTX-5000-Ada-Generation", *_ADA, 32760),
    KnownProduct("NVIDIA-RTX-6000-Ada-Generation", *_ADA, 49140),
    KnownProduct("NVIDIA-GeForce-RTX-4090", *_ADA, 24564),
    KnownProduct("NVIDIA-H100-PCIe", *_HOPPER, 81559),
    KnownProduct("NVIDIA-H100-80GB-HBM3", *_HOPPER, 81559),
    KnownProduct("NVIDIA-H100-NVL", *_HOPPER, 95830),
    KnownProduct("NVIDIA-H800", *_HOPPER, 81559),
    KnownProduct("NVIDIA-H20", *_HOPPER, 97871),
    KnownProduct("NVIDIA-H20-3e", *_HOPPER, 143771),
    KnownProduct("NVIDIA-H200", *_HOPPER, 143771),
    KnownProduct("NVIDIA-H200-NVL", *_HOPPER, 143771),
    KnownProduct("NVIDIA-GH200-480GB", *_HOPPER, 97871),
    KnownProduct("NVIDIA-GH200-144G-HBM3e", *_HOPPER, 146831),
    KnownProduct("NVIDIA-B200", *_BLACKWELL, 183359),
    KnownProduct("NVIDIA-GB200", *_BLACKWELL, 189471),
    KnownProduct("NVIDIA-B300-SXM6-AC", *_BLACKWELL_ULTRA, 275040),
    KnownProduct("NVIDIA-GB300", *_BLACKWELL_ULTRA, 284208),
    KnownProduct("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", *_BLACKWELL_GRAPHICS, 97887),
    KnownProduct("NVIDIA-RTX-PRO-6000-Blackwell-Workstation-Edition", *_BLACKWELL_GRAPHICS, 97887),
    KnownProduct("NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition", *_BLACKWELL_GRAPHICS, 97887),
    KnownProduct("NVIDIA-GeForce-RTX-5090", *_BLACKWELL_GRAPHICS, 32607),
)
"""Data-centre GPUs and those of workstations that clusters have.

Source: labels and outputs of nvidia-smi that operators publish (issues of github.com/NVIDIA/gpu-operator and
k8s-device-plugin among them); compute capabilities from developer.nvidia.com/cuda-gpus. GB10, whose GPU has no memory
of its own, and names that were seen once only are left out.
"""
