"""Kinds with rules that begin with what is written so far."""

from __future__ import annotations

from typing import TYPE_CHECKING

import policies.admission  # noqa: F401 - registers all rules
from policies.rules.registry import ruled_kinds
from webhook.cli.completion_values.items import items_of

if TYPE_CHECKING:
    from webhook.cli.completion_values.items import Items

__all__ = ["kinds"]


def kinds(incomplete: str) -> Items:
    """The kinds that have rules."""
    return items_of(kind for kind in ruled_kinds() if kind.lower().startswith(incomplete.lower()))
