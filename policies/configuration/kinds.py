"""Kinds: objects of kinds and versions that do not exist, and shapes that lost their indentation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.configuration.checks import Checks

if TYPE_CHECKING:
    from policies.configuration.change import Change

__all__ = ["ANY_KIND"]

ANY_KIND: Checks[Change] = Checks()
