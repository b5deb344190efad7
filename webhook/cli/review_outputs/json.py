"""Results for programs: a list with one mapping for each object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from policies.kubernetes.objects import name_of
from webhook.cli.text_layout import json_text

if TYPE_CHECKING:
    from webhook.cli.review_outputs import TextOptions
    from webhook.cli.review_report import Review, ReviewedObject

__all__ = ["show"]


def show(review: Review, options: TextOptions) -> None:
    """Print everything about every object."""
    click.echo(json_text([_fields(reviewed) for reviewed in review.objects]))


def _fields(reviewed: ReviewedObject) -> dict[str, Any]:
    result = reviewed.result
    subject = result.subject
    findings = [
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
