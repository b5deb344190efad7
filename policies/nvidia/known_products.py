"""Known products: the GPUs of clusters, by the names in their labels."""

from __future__ import annotations

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
