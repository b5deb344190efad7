"""RDMA, GPUDirect Storage and GDRCopy: `spec.driver.rdma`, `spec.gds`, `spec.gdrcopy`."""

from __future__ import annotations
