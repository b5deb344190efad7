"""DRA drivers of NVIDIA, by the names under which they publish devices."""

from __future__ import annotations

__all__ = ["DRIVER"]

DRIVER = "gpu.nvidia.com"
"""Publishes GPUs and MIG devices. Source: github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin."""
