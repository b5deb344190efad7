"""Results for programs: a list with one mapping for each object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import click

from policies.decision import Severity
from policies.kubernetes.objects import name_of
from webhook.cli.text_layout import json_text

if TYPE_CHECKING:
    from policies.admission.objects import Verdict
    from webhook.cli.review_outputs import TextOptions
    from webhook.cli.review_report import Review, ReviewedObject

__all__ = ["ReviewedObjectJSON", "ReviewsJSON", "show"]


class _ObjectJSON(TypedDict):
    """The reviewed object."""

    apiVersion: str
    kind: str
    namespace: str
    name: str


class _SourceJSON(TypedDict):
    """Where the object is written."""

    file: str
    line: int


class _FindingJSON(TypedDict):
    """A finding, with its place in the file; `known` if a baseline has it."""

    rule: str
    severity: Annotated[str, Severity]
    path: str
    message: str
    remedy: str
    waived: str
    line: int
    column: int
    known: bool


class ReviewedObjectJSON(TypedDict):
    """What admission would do with one object."""

    object: _ObjectJSON
    source: _SourceJSON
    verdict: Verdict
    notReviewed: str
    findings: list[_FindingJSON]
    findingsLeftOut: int
    warnings: list[str]
    patch: list[dict[str, Any]]
    templates: list[dict[str, Any]]


ReviewsJSON = list[ReviewedObjectJSON]
"""The output of `gpu-admission review -o json`."""


def show(review: Review, options: TextOptions) -> None:
    """Print everything about every object."""
    document: ReviewsJSON = [_fields(reviewed) for reviewed in review.objects]
    click.echo(json_text(document))


def _fields(reviewed: ReviewedObject) -> ReviewedObjectJSON:
    result = reviewed.result
    subject = result.subject
    findings: list[_FindingJSON] = [
        {
            "rule": finding.rule.id,
            "severity": str(finding.severity),
            "path": str(finding.path),
            "message": finding.message,
            "remedy": finding.remedy,
            "waived": finding.waived,
            "line": reported.line,
            "column": reported.column,
            "known": reported.is_known,
        }
        for finding, reported in zip(result.findings, reviewed.findings, strict=False)
    ]
    return {
        "object": {
            "apiVersion": subject.api_version,
            "kind": subject.request.kind,
            "namespace": subject.request.namespace,
            "name": subject.request.name or name_of(subject.document),
        },
        "source": {"file": click.format_filename(subject.manifest.file), "line": subject.position().line},
        "verdict": result.verdict,
        "notReviewed": result.not_reviewed,
        "findings": findings,
        "findingsLeftOut": result.left_out,
        "warnings": list(result.warnings),
        "patch": list(result.patch),
        "templates": [template.manifest() for template in result.templates],
    }
