"""Explanations as pages, parts of pages, and pictures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.analyses.explain.explanations import (
    as_sentence,
    left_out_sentence,
    notes_of,
    obstacle_sentence,
    replicas_text,
    suggestion_sentence,
)
from policies.kubernetes.names import format_count
from webhook.pages.explanation_columns import BADGES, blockers_of, columns_of, states_in
from webhook.pages.rendering import render_page, render_part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.analyses.explain import Explanation
    from webhook.pages.explanation_columns import Blocker, NodeColumn, ShownState

__all__ = ["render_explanation", "render_explanations"]


def render_explanation(explanation: Explanation) -> str:
    """One explanation as a part of a page: a section with a heading of the second level.

    The picture has nodes as columns and devices as cells, and everything in it is in tables and sentences too. The page
    around it has the style `page.css`.
    """
    return render_part("explanation", part=_Part.of(explanation))


def render_explanations(explanations: Sequence[Explanation]) -> str:
    """A page of explanations that needs nothing but itself."""
    title = explanations[0].label if len(explanations) == 1 else format_count(len(explanations), "explanation")
    return render_page("explanations", title=f"Where it fits: {title}", parts=[*map(_Part.of, explanations)])


@dataclass(frozen=True, slots=True)
class _Part:
    """One explanation in texts, as the template shows it."""

    label: str
    verdict: str
    badge: str
    headline: str
    obstacles: Sequence[str]
    warnings: Sequence[str]
    counts: Sequence[tuple[str, str]]
    """The numbers of nodes and replicas, each with what it counts; empty if no node was checked."""
    columns: Sequence[NodeColumn]
    states: Sequence[ShownState]
    """Those of the legend."""
    left_out: str
    blockers: Sequence[Blocker]
    blockers_left_out: int
    suggestions: Sequence[str]
    notes: Sequence[str]

    @classmethod
    def of(cls, explanation: Explanation) -> _Part:
        columns = columns_of(explanation)
        blockers, blockers_left_out = blockers_of(explanation, columns)
        return cls(
            label=explanation.label,
            verdict=str(explanation.verdict),
            badge=BADGES[explanation.verdict],
            headline=as_sentence(explanation.headline),
            obstacles=[*map(obstacle_sentence, explanation.obstacles)],
            warnings=[*map(str, explanation.warnings)],
            counts=_counts(explanation),
            columns=columns,
            states=states_in(columns),
            left_out=left_out_sentence(explanation),
            blockers=blockers,
            blockers_left_out=blockers_left_out,
            suggestions=[*map(suggestion_sentence, explanation.suggestions)],
            notes=notes_of(explanation),
        )


def _counts(explanation: Explanation) -> list[tuple[str, str]]:
    if explanation.nodes is None:
        return []
    return [
        ("nodes", f"{explanation.nodes:,}"),
        ("fit now", f"{explanation.fit_now:,}"),
        ("fit if nothing were in use", f"{explanation.fit_if_empty:,}"),
        *([("unknown", f"{explanation.unknown_nodes:,}")] if explanation.unknown_nodes else []),
        ("replicas fit now", replicas_text(explanation)),
    ]
