"""Metrics of the audit: what the last one found. Shown by the replica that made it, as long as it leads."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime

    from prometheus_client.core import Metric

    from policies.audit import AuditReport

__all__ = ["AuditMetrics"]

_LAST = "gpu_admission_audit_last_timestamp_seconds"


class AuditMetrics(Collector):
    """Gauges of the last report; none before the first.

    Labels take only values that the program itself chooses. Which namespaces are not ready, `gpu-admission audit` tells.
    """

    def __init__(self, last: Callable[[], tuple[AuditReport, datetime] | None]) -> None:
        """Args: gives the last report, and when it was made."""
        self._last = last

    def collect(self) -> Iterable[Metric]:
        """What the last audit found."""
        findings = GaugeMetricFamily(
            "gpu_admission_audit_findings",
            "Objects about which the last audit found something, by rule and severity.",
            None,
            ("rule", "severity"),
        )
        namespaces = GaugeMetricFamily(
            "gpu_admission_audit_namespaces",
            "Namespaces that have workloads which ask for GPUs, or that opted in, by their mode and whether all convert.",
            None,
            ("mode", "ready"),
        )
        workloads = GaugeMetricFamily(
            "gpu_admission_audit_workloads",
            "Workloads that ask for GPUs, by the mode of their namespace and what conversion makes of them.",
            None,
            ("mode", "outcome"),
        )
        unknown = GaugeMetricFamily(
            "gpu_admission_audit_kinds_not_reviewed", "Kinds of objects that the last audit could not read."
        )
        moment = GaugeMetricFamily(_LAST, "When the last audit was done.")
        if (last := self._last()) is not None:
            report, now = last
            _fill(findings, {(rule, str(severity)): count for (rule, severity), count in report.found.items()})
            _fill(namespaces, Counter((each.mode.value, str(each.ready).lower()) for each in report.readiness))
            _fill(workloads, _outcomes(report))
            unknown.add_metric((), report.counts["kindsNotReviewed"])
            moment.add_metric((), now.timestamp())
        return (findings, namespaces, workloads, unknown, moment)


def _outcomes(report: AuditReport) -> Counter[tuple[str, str]]:
    outcomes: Counter[tuple[str, str]] = Counter()
    for each in report.readiness:
        outcomes[each.mode.value, "converts"] += each.converts
        outcomes[each.mode.value, "refused"] += each.refused
        outcomes[each.mode.value, "left"] += each.left
    return outcomes


def _fill(family: GaugeMetricFamily, values: Mapping[tuple[str, str], int]) -> None:
    for labels, value in sorted(values.items()):
        family.add_metric(labels, value)
