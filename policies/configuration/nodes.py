"""Nodes: labels that steer the GPU Operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.configuration.checks import Checks

if TYPE_CHECKING:
    from policies.configuration.change import Change

__all__ = ["NODE"]

NODE: Checks[Change] = Checks()
