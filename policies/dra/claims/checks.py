"""The checks of claims, in the order in which they are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Checks

if TYPE_CHECKING:
    from policies.dra.claims.subject import Subject

__all__ = ["CLAIMS"]

CLAIMS: Checks[Subject] = Checks()
