"""Explanations as sections of the report model: what text and pages show alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.analyses.explain.explanations import (
    as_sentence,
    notes_of,
    obstacle_sentence,
)
from policies.analyses.wait_reasons import answer
from policies.kubernetes.names import with_capital, with_full_stop
from policies.outcome import Feasibility
from policies.rules.messages import remedy_sentences
from webhook.pages.report_model import Bullets, Paragraph, Section, Tone

if TYPE_CHECKING:
    from policies.analyses.explain import Explanation
    from webhook.pages.report_model import Block


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
    """The verdict, the reason, and what would help; then other obstacles, changes and warnings."""
    found, verdict = answer(explanation), explanation.verdict
    path = next((f"; {each.path}" for each in explanation.warnings if found.rule == each.rule and each.path), "")
    reason = f"{with_capital(found.why)}{path} [{found.rule}]" if found.rule else as_sentence(found.why)
    first = next((each.sentence for each in explanation.obstacles), "")
    changes = (f"{each.sentence}; {each.outcome}" for each in explanation.suggestions)
    others = [
        *([f"Also: {first.partition('; ')[2]}"] if first not in found.why else []),
        *map(obstacle_sentence, explanation.obstacles[1:]),
        *(f"Or {change}" for change in changes if change != found.remedy),
    ]
    told = {found.remedy, *(obstacle.remedy for obstacle in explanation.obstacles)} - {""}
    warnings = [each for each in explanation.warnings if each.rule != found.rule and each.remedy not in told]
    tasks = dict.fromkeys(each.administrator for each in explanation.warnings if each.administrator != found.remedy)
    blocks: list[Block] = [Paragraph(reason)]
    blocks += [Paragraph(f"What would help: {with_full_stop(found.remedy)}")] if found.remedy else []
    blocks += [Bullets(others), *(Paragraph(f"Warning: {each}") for each in warnings)]
    blocks += [Paragraph(f"{each}.") for task in tasks for each in remedy_sentences(administrator=task)]
    return Section(blocks, explanation.label, str(verdict), TONES[verdict])


def answer_texts(explanation: Explanation) -> list[str]:
    """The texts of the answer below its title, in their order."""
    texts: list[str] = []
    for block in answer_section(explanation).blocks:
        texts += block.texts if isinstance(block, Bullets) else [block.text] if isinstance(block, Paragraph) else []
    return texts


def nodes_sentence(explanation: Explanation) -> str:
    """The number of nodes that fit, as a sentence; empty if the answer says so, or nodes were not counted."""
    is_told = explanation.nodes is None or answer(explanation).why == explanation.headline
    return "" if is_told else as_sentence(explanation.headline)


def remarks_section(explanation: Explanation) -> Section:
    """The assumptions and problems beside the result."""
    return Section([Paragraph(f"Note: {note}", Tone.QUIET) for note in notes_of(explanation)])
