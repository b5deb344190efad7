"""Driver: `spec.driver`, where most clusters go wrong."""

from __future__ import annotations
