"""A preflight as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.preflight import coverage_json
from webhook.cli.check_reports import check_sections, checks_json
from webhook.cli.text_layout import json_text, paragraph, terminal_width

if TYPE_CHECKING:
    from policies.preflight import Preflight

__all__ = ["as_json", "text"]


def text(preflight: Preflight) -> str:
    """The checks in sections, the worst first, and the conclusion."""
    width = terminal_width()
    conclusion = f"{preflight.conclusion[:1].upper()}{preflight.conclusion[1:]}."
    sections = [*check_sections(preflight.checks, width), paragraph(conclusion, width)]
    return "\n\n".join("\n".join(lines) for lines in sections)


def as_json(preflight: Preflight) -> str:
    """Everything, with the counts of namespaces and pods."""
    step = preflight.step
    return json_text(
        {
            "step": {"verb": step.verb, "from": step.before or None, "to": step.after or None},
            "checks": checks_json(preflight.checks),
            "namespaces": None if preflight.coverage is None else coverage_json(preflight.coverage),
            "conclusion": preflight.conclusion,
        }
    )
