"""Explanations as sections of the report model: what text and pages show alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.analyses.explain.explanations import (
    as_sentence,
    notes_of,
    obstacle_sentence,
    suggestion_sentence,
)
from policies.outcome import Feasibility
from policies.rules.messages import remedy_sentences
from webhook.pages.report_model import Bullets, Paragraph, Section, Tone

if TYPE_CHECKING:
    from policies.analyses.explain import Explanation


TONES = {
    Feasibility.FITS: Tone.GOOD,
    Feasibility.FULL: Tone.WARN,
    Feasibility.IMPOSSIBLE: Tone.BAD,
    Feasibility.BLOCKED: Tone.BAD,
    Feasibility.UNKNOWN: Tone.WARN,
    Feasibility.SCHEDULED: Tone.GOOD,
    Feasibility.STUCK: Tone.BAD,
}


def answer_section(explanation: Explanation) -> Section:
    """The verdict, the reason for it, obstacles and warnings."""
    headline, obstacles = Paragraph(as_sentence(explanation.headline)), map(obstacle_sentence, explanation.obstacles)
    warnings = [Paragraph(f"Warning: {warning}") for warning in explanation.warnings]
    tasks = dict.fromkeys(each.administrator for each in explanation.warnings)
    warnings += [Paragraph(f"{each}.") for task in tasks for each in remedy_sentences(administrator=task)]
    verdict = explanation.verdict
    return Section([headline, Bullets([*obstacles]), *warnings], explanation.label, str(verdict), TONES[verdict])


def help_sections(explanation: Explanation) -> tuple[Section, Section]:
    """The suggestions, and the remarks."""
    suggestions = Bullets([*map(suggestion_sentence, explanation.suggestions)])
    remarks = [Paragraph(f"Note: {note}", Tone.QUIET) for note in notes_of(explanation)]
    return Section([suggestions], "What would help:"), Section(remarks)
