"""Each module has a `THEME` that describes it, and a function `measure` that returns its figures."""

from __future__ import annotations

__all__ = ["THEMES"]

THEMES = (
    "webhook_calls",
    "clients",
    "first_answers",
    "end_to_end",
    "quotas",
    "selectors",
    "allocation",
    "explanation",
    "audits",
    "report",
    "reviews",
    "claims",
    "startup",
    "manifests",
    "crowded_pods",
    "hostile_objects",
    "neighbours",
    "silent_connections",
)
"""All modules, in the order of the page."""
