"""DRA drivers of NVIDIA, by the names under which they publish devices."""

from __future__ import annotations

__all__ = ["COMPUTE_DOMAIN_DRIVER", "DRIVER"]

DRIVER = "gpu.nvidia.com"
"""Publishes GPUs and MIG devices. Source: github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin."""

COMPUTE_DOMAIN_DRIVER = "compute-domain.nvidia.com"
"""Publishes the channels and daemons of ComputeDomains. Source: there, cmd/compute-domain-kubelet-plugin."""
