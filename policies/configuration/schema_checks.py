"""Schema: what the CRDs allow, in better words than the API server has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.configuration.checks import Checks

if TYPE_CHECKING:
    from policies.configuration.change import Change

__all__ = ["SCHEMA"]

SCHEMA: Checks[Change] = Checks()
