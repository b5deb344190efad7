"""Results for machines: JSON, YAML, JSON Patch."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from policies.kubernetes.objects import name_of
from webhook.cli.dump import dump_all

if TYPE_CHECKING:
    from collections.abc import Iterable

    from webhook.cli.admit import Result

__all__ = ["as_json", "as_patch", "as_yaml"]


def as_json(results: Iterable[Result]) -> str:
    """All results, one mapping each."""
    return _json([_result(result) for result in results])


def as_yaml(results: Iterable[Result]) -> str:
    """The objects that are not refused, each followed by the templates that it refers to, unless they are written."""
    results = list(results)
    documents = []
    written = {
        (result.subject.request.namespace, result.subject.name)
        for result in results
        if result.subject.request.kind == "ResourceClaimTemplate"
    }
    for result in results:
        if not result.is_refused and result.after is not None:
            documents.append(result.after)
            for template in result.templates:
                if (template.namespace, template.name) not in written:
                    documents.append(template.manifest())
                    written.add((template.namespace, template.name))
    return dump_all(documents)


def as_patch(result: Result) -> str:
    """The JSON Patch of one object."""
    return _json(list(result.patch))


def _result(result: Result) -> dict[str, Any]:
    subject = result.subject
    findings = []
    for finding in result.findings:
        place = subject.position_of(finding)
        findings.append(
            {
                "rule": finding.rule.id,
                "severity": str(finding.severity),
                "path": str(finding.path),
                "message": finding.message,
                "remedy": finding.remedy,
                "line": place.line,
                "column": place.column,
            }
        )
    return {
        "object": {
            "apiVersion": subject.api_version,
            "kind": subject.request.kind,
            "namespace": subject.request.namespace,
            "name": subject.request.name or name_of(subject.document),
        },
        "source": {"file": subject.manifest.file, "line": subject.position().line},
        "verdict": result.verdict,
        "notReviewed": result.not_reviewed,
        "findings": findings,
        "findingsLeftOut": result.left_out,
        "warnings": list(result.warnings),
        "patch": list(result.patch),
        "templates": [template.manifest() for template in result.templates],
    }


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
