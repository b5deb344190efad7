"""Analyses of selectors as pages and parts of pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.analyses.selectors import DeviceVerdict, Truth
from webhook.pages.rendering import render_page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.analyses.selectors import Analysis


_FACTS = {
    "badges": {
        DeviceVerdict.MATCHES: "good",
        DeviceVerdict.FAILS: "bad",
        DeviceVerdict.EXCLUDED: "warn",
        DeviceVerdict.NOT_EVALUATED: "warn",
    },
    "signs": {
        Truth.TRUE: ("yes", "✓", "true"),
        Truth.FALSE: ("no", "✕", "false"),
        Truth.FAILS: ("unknown", "!", "fails"),
        Truth.SKIPPED: ("quiet", "·", "skipped"),
    },
    "change_badges": {"gained": "good", "lost": "warn", "fails now": "bad"},
}


def render_analyses(analyses: Sequence[Analysis]) -> str:
    """A page of analyses that needs nothing but itself."""
    title = analyses[0].label if len(analyses) == 1 else f"{len(analyses):,} requests and classes"
    return render_page("selector_analyses", title=f"Selectors: {title}", analyses=analyses, **_FACTS)
