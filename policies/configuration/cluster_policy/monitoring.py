"""Monitoring: `spec.dcgm`, `spec.dcgmExporter`."""

from __future__ import annotations
