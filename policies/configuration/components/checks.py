"""The registry that the modules beside this one add their checks to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Checks

if TYPE_CHECKING:
    from policies.configuration.change import Change

__all__ = ["COMPONENTS"]

COMPONENTS: Checks[Change] = Checks(cluster_scoped=True)
