"""What the API allows of a device selector; apart from the engine, because conversion counts bytes without it."""

from __future__ import annotations

__all__ = ["LONGEST_TEXT"]

LONGEST_TEXT = 10_240
"""Bytes; CELSelectorExpressionMaxLength of resource.k8s.io."""
