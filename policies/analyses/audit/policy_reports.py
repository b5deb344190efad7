"""Policy reports: the findings of an audit as objects of the report APIs that policy tools read.

Sources: openreports/reports-api apis/openreports.io/v1alpha1; kubernetes-sigs/wg-policy-prototypes
policy-report/apis/wgpolicyk8s.io/v1alpha2.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from policies.analyses.audit.audit_report import MOST_OWNERS
from policies.kubernetes.names import MANAGED, format_count, format_list, shorten
from policies.kubernetes.objects import lookup
from policies.rules.decision import Severity
from policies.rules.messages import advice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from policies.analyses.audit.audit_report import AuditFinding, AuditReport
    from policies.kubernetes.objects import Object


REPORT_NAME = "gpu-admission"
"""The name of every report, and the source and the policy of every result."""
LARGEST_REPORT = 1_000_000
"""Bytes of JSON. etcd accepts requests of up to 1.5 MiB, and the API server adds managed fields."""
_ROOM_BESIDE_RESULTS = 2_000
"""Bytes for metadata, summary and the result that counts what is left out."""
_LONGEST_MESSAGE = 4_000
_LONGEST_PROPERTY = 1_000


@dataclass(frozen=True, slots=True)
class ReportAPI:
    """An API for reports."""

    group: str
    version: str
    kind: str
    """The kind of a report on one namespace."""
    cluster_kind: str
    """The kind of a report on cluster-scoped objects."""
    has_source: bool
    """True if a report has a source, not only its results."""

    @property
    def api_version(self) -> str:
        """The `apiVersion` of reports."""
        return f"{self.group}/{self.version}"


OPEN_REPORTS = ReportAPI("openreports.io", "v1alpha1", "Report", "ClusterReport", has_source=True)
POLICY_REPORTS = ReportAPI("wgpolicyk8s.io", "v1alpha2", "PolicyReport", "ClusterPolicyReport", has_source=False)

_RESULTS = {Severity.DENY: "fail", Severity.WARN: "warn", Severity.AUDIT: "warn"}
# Older versions of wgpolicyk8s.io/v1alpha2 have neither `critical` nor `info`.
_SEVERITIES = {Severity.DENY: "high", Severity.WARN: "medium", Severity.AUDIT: "low"}


def is_our_report(report: Object) -> bool:
    """True if an audit wrote a stored report."""
    return bool(lookup(report, ("metadata", "labels", MANAGED)) == "true")


def policy_reports(
    report: AuditReport, api: ReportAPI, namespace: str = "", redact: Callable[[str, str], str] = lambda _, text: text
) -> tuple[Object, ...]:
    """One report for each namespace with findings, and one on cluster-scoped objects.

    Equal audits give equal reports: results have no time.

    Args:
        report: The audit; its findings are in the order of their severity.
        api: The API of the reports.
        namespace: The only namespace that was audited; empty for all. Its report names the kinds that were not reviewed; for
            all namespaces, the report on cluster-scoped objects does.
        redact: Removes names that readers of a namespace must not see. Its arguments are the namespace, empty for the cluster,
            and a text.
    """
    # First, so that they are never left out: without them, a report would look complete.
    unread = [_remark("not-reviewed", "error", f"not reviewed: {redact(namespace, str(gap))}") for gap in report.gaps]
    found: dict[str, list[dict[str, Any]]] = {namespace: unread} if unread else {}
    for finding in report.findings:
        found.setdefault(finding.namespace, []).append(_result(finding, partial(redact, finding.namespace)))
    return tuple(_report(api, each, found[each], report.left_out if not each else 0) for each in sorted(found))


def _report(api: ReportAPI, namespace: str, results: Sequence[dict[str, Any]], left_out: int) -> Object:
    kept, size = [], _ROOM_BESIDE_RESULTS
    for result in results:
        size += len(json.dumps(result).encode()) + 1
        if size > LARGEST_REPORT:
            break
        kept.append(result)
    hidden = len(results) - len(kept) + left_out
    counts = Counter(result["result"] for result in results)
    return {
        "apiVersion": api.api_version,
        "kind": api.kind if namespace else api.cluster_kind,
        "metadata": {
            "name": REPORT_NAME,
            **({"namespace": namespace} if namespace else {}),
            "labels": {MANAGED: "true"},
        },
        **({"source": REPORT_NAME} if api.has_source else {}),
        "summary": {result: counts[result] for result in ("pass", "fail", "warn", "error", "skip")},
        "results": [*kept, *([_left_out_result(hidden, namespace)] if hidden else [])],
    }


def _result(finding: AuditFinding, redact: Callable[[str], str]) -> dict[str, Any]:
    said = redact(advice(finding.path, finding.message, finding.remedy))
    reference = {
        "apiVersion": finding.api_version,
        "kind": finding.kind,
        "namespace": finding.namespace,
        "name": finding.name,
        "uid": finding.uid,
    }
    properties = {
        "title": finding.rule.title,
        "path": str(finding.path),
        "administrator": redact(finding.administrator),
        "objects": str(finding.count) if finding.count > 1 else "",
        "owners": format_list(finding.owners, MOST_OWNERS) if finding.owners else "",
        "waived": finding.waived,
    }
    return {
        "source": REPORT_NAME,
        "policy": REPORT_NAME,
        "rule": finding.rule.id,
        "result": "skip" if finding.waived else _RESULTS[finding.severity],
        "severity": _SEVERITIES[finding.severity],
        "scored": finding.severity is Severity.DENY,
        "message": shorten(f"{said}; {finding.path}" if finding.path else said, _LONGEST_MESSAGE),
        "resources": [_without_empty(reference.items())],
        "properties": _without_empty((key, shorten(text, _LONGEST_PROPERTY)) for key, text in properties.items()),
    }


def _left_out_result(count: int, namespace: str) -> dict[str, Any]:
    only = f" -n {namespace}" if namespace else ""
    text = f"{format_count(count, 'less severe finding')} left out, because a report has limits; gpu-admission audit{only} -o json"
    return _remark("left-out", "skip", f"{text} has up to a thousand")


def _remark(rule: str, result: str, message: str) -> dict[str, Any]:
    """A result about no object."""
    text = shorten(message, _LONGEST_MESSAGE)
    return {
        "source": REPORT_NAME,
        "policy": REPORT_NAME,
        "rule": rule,
        "result": result,
        "scored": False,
        "message": text,
    }


def _without_empty(texts: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {key: text for key, text in texts if text}
