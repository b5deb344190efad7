"""Sandbox workloads: vGPU, KubeVirt, Kata, confidential computing."""

from __future__ import annotations
