"""A preflight as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence  # noqa: TC003 - pydantic reads the annotation
from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.analyses.installation.cluster_checks import Check  # noqa: TC001 - pydantic reads the annotation
from policies.kubernetes.names import DRA_LABEL, QUOTA_LABEL
from webhook.cli.check_reports import check_sections, printable_checks
from webhook.cli.text_layout import output_text, paragraph, terminal_width

if TYPE_CHECKING:
    from policies.analyses.installation import Coverage, Preflight

__all__ = ["CoverageJSON", "PreflightJSON", "as_json", "coverage_json", "text"]


def text(preflight: Preflight) -> str:
    """The checks in sections, the worst first, and the conclusion."""
    width = terminal_width()
    conclusion = f"{preflight.conclusion[:1].upper()}{preflight.conclusion[1:]}."
    sections = [*check_sections(preflight.checks, width), paragraph(conclusion, width)]
    return "\n\n".join("\n".join(lines) for lines in sections)


@dataclass(frozen=True, slots=True)
class _StepJSON:
    """The step between two versions; null if one is unknown or there is none."""

    verb: str
    from_: str | None
    to: str | None


@dataclass(frozen=True, slots=True)
class _EntryCountJSON:
    """The pods that an entry would review, and their namespaces."""

    namespaces: int
    pods: int


@dataclass(frozen=True, slots=True)
class CoverageJSON:
    """The namespaces and pods that would be reviewed."""

    covered: Sequence[str]
    exempt: Sequence[str]
    converting: Sequence[str]
    preview: Sequence[str]
    quota_enforced: Sequence[str]
    pods: int
    entries: Mapping[str, _EntryCountJSON]


@dataclass(frozen=True, slots=True)
class PreflightJSON:
    """The output of `gpu-admission preflight -o json`."""

    step: _StepJSON
    checks: tuple[Check, ...]
    namespaces: CoverageJSON | None
    conclusion: str


def as_json(preflight: Preflight) -> str:
    """Everything, with the counts of namespaces and pods."""
    step, coverage = preflight.step, preflight.coverage
    document = PreflightJSON(
        step=_StepJSON(step.verb, step.before or None, step.after or None),
        checks=printable_checks(preflight.checks),
        namespaces=None if coverage is None else coverage_json(coverage),
        conclusion=preflight.conclusion,
    )
    return output_text(document, PreflightJSON)


def coverage_json(coverage: Coverage) -> CoverageJSON:
    """The counts as JSON has them."""
    return CoverageJSON(
        covered=[namespace.name for namespace in coverage.covered],
        exempt=coverage.exempt,
        converting=coverage.namespaces_with(DRA_LABEL, "enabled"),
        preview=coverage.namespaces_with(DRA_LABEL, "preview"),
        quota_enforced=coverage.namespaces_with(QUOTA_LABEL, "enforced"),
        pods=coverage.pods,
        entries={entry: _EntryCountJSON(len(count.namespaces), count.pods) for entry, count in coverage.counts.items()},
    )
