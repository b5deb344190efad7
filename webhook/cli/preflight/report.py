"""A preflight as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from policies.preflight import coverage_json
from webhook.cli.check_reports import check_sections, checks_json
from webhook.cli.text_layout import json_text, paragraph, terminal_width

if TYPE_CHECKING:
    from policies.preflight import CoverageJSON, Preflight
    from webhook.cli.check_reports import CheckJSON

__all__ = ["PreflightJSON", "as_json", "text"]


def text(preflight: Preflight) -> str:
    """The checks in sections, the worst first, and the conclusion."""
    width = terminal_width()
    conclusion = f"{preflight.conclusion[:1].upper()}{preflight.conclusion[1:]}."
    sections = [*check_sections(preflight.checks, width), paragraph(conclusion, width)]
    return "\n\n".join("\n".join(lines) for lines in sections)


_StepJSON = TypedDict("_StepJSON", {"verb": str, "from": str | None, "to": str | None})
"""The step between two versions; null if there is none. `from` is a keyword."""


class PreflightJSON(TypedDict):
    """The output of `gpu-admission preflight -o json`."""

    step: _StepJSON
    checks: list[CheckJSON]
    namespaces: CoverageJSON | None
    conclusion: str


def as_json(preflight: Preflight) -> str:
    """Everything, with the counts of namespaces and pods."""
    step = preflight.step
    document: PreflightJSON = {
        "step": {"verb": step.verb, "from": step.before or None, "to": step.after or None},
        "checks": checks_json(preflight.checks),
        "namespaces": None if preflight.coverage is None else coverage_json(preflight.coverage),
        "conclusion": preflight.conclusion,
    }
    return json_text(document)
