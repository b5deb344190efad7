"""Results for programs: a list with one mapping for each object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from policies.admission import Verdict  # noqa: TC001 - pydantic reads the annotation
from policies.kubernetes.objects import filled_record, name_of
from policies.rules.decision import Severity  # noqa: TC001 - pydantic reads the annotation
from webhook.cli.text_layout import output_text

if TYPE_CHECKING:
    from webhook.cli.review import TextOptions
    from webhook.cli.review.review_report import Review, ReviewedObject


@dataclass(frozen=True, slots=True)
class _ObjectJSON:
    """The reviewed object."""

    api_version: str
    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class _SourceJSON:
    """Where the object is written."""

    file: str
    line: int


@dataclass(frozen=True, slots=True)
class _FindingJSON:
    """A finding, with its place in the file; `known` if a baseline has it."""

    rule: str
    severity: Severity
    path: str
    message: str
    remedy: str
    administrator: str
    waived: str
    line: int
    column: int
    known: bool


@dataclass(frozen=True, slots=True)
class ReviewedObjectJSON:
    """The verdict of admission on one object, with its findings and changes."""

    object: _ObjectJSON
    source: _SourceJSON
    verdict: Verdict
    not_reviewed: str
    findings: tuple[_FindingJSON, ...]
    findings_left_out: int
    warnings: tuple[str, ...]
    patch: tuple[dict[str, Any], ...]
    templates: tuple[dict[str, Any], ...]


ReviewsJSON = list[ReviewedObjectJSON]
"""The output of `gpu-admission review -o json`."""


def show(review: Review, options: TextOptions) -> None:
    """Print everything about every object."""
    click.echo(output_text([_reviewed_object(reviewed) for reviewed in review.objects], ReviewsJSON))


def _reviewed_object(reviewed: ReviewedObject) -> ReviewedObjectJSON:
    result = reviewed.result
    subject = result.subject
    return filled_record(
        ReviewedObjectJSON,
        result,
        object=_ObjectJSON(
            subject.api_version,
            subject.request.kind,
            subject.request.namespace,
            subject.request.name or name_of(subject.document),
        ),
        source=_SourceJSON(click.format_filename(subject.manifest.file), subject.position().line),
        findings=tuple(
            filled_record(
                _FindingJSON, finding, reported, rule=finding.rule.id, path=str(finding.path), known=reported.is_known
            )
            for finding, reported in zip(result.findings, reviewed.findings, strict=False)
        ),
        findings_left_out=result.left_out,
        warnings=tuple(result.warnings),
        patch=tuple(result.patch),
        templates=tuple(template.manifest() for template in result.templates),
    )
