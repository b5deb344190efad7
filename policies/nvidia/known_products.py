"""Products that are known by name, whether or not a node has one now.

They expand globs and make suggestions; what is not in the table is never refused for it.
"""

from __future__ import annotations

__all__ = ["KNOWN_PRODUCTS"]

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
