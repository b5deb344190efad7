"""Runtime: `spec.toolkit`, `spec.cdi`, `spec.operator`, `spec.psa`, `spec.hostPaths`."""

from __future__ import annotations
