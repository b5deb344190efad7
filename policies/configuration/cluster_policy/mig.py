"""MIG: `spec.mig`, `spec.migManager`."""

from __future__ import annotations
