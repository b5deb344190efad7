"""The periodic audit by the leader, and the metrics of its last report."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from policies.analyses.audit import AuditCounts, KeptProofs, Survey, audit
from policies.analyses.usage import device_states, usage_report
from policies.analyses.wait_list import missing_counts
from policies.kubernetes.bounds import Work, bounded_by, check_cancelled
from policies.kubernetes.objects import json_document
from webhook.cluster.clockwork import Clockwork, rfc3339
from webhook.cluster.garbage_collection import CollectionPause
from webhook.cluster.kind_reads import read_pages
from webhook.cluster.lists import workload_resources
from webhook.cluster.resources import RESOURCES
from webhook.cluster.watched_kinds import Watched
from webhook.server.turns import run_spread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
    from datetime import datetime

    from policies.analyses.audit import AuditReport
    from policies.analyses.wait_reasons import WaitReason
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.rules.settings import GPUAdmissionPolicy
    from webhook.cluster.client import APIClient


_logger = logging.getLogger("gpu_admission.controllers")

AUDIT_SECONDS = 600.0
"""Between two audits, of the leader and of a replica that shows the page."""
_COUNT_MISSING_SECONDS = 60.0
"""Between two counts of the pods that workloads lack."""
_MISSING_SECONDS, _LONGEST_MISSING_SECONDS = 5.0, 15.0
"""The time after which no further workload is explained, and the limit for all of them."""
_SECONDS = 600.0
"""The limit for one step of a round. A page takes milliseconds, the audit of a large cluster seconds."""


@dataclass(slots=True)
class AuditRound:
    """Audits the cluster, and keeps the last report for metrics and the status of the settings."""

    client: APIClient
    view: ClusterView
    settings: Callable[[], GPUAdmissionPolicy]
    """Returns the administrator's current settings."""
    clockwork: Clockwork = field(default_factory=Clockwork)
    _last: tuple[AuditReport, datetime] | None = field(default=None, init=False)
    _kept: KeptProofs = field(default_factory=KeptProofs, init=False)
    _next_count: float = field(default=0.0, init=False)
    _missing: Counter[WaitReason] = field(default_factory=Counter, init=False)

    @property
    def metrics(self) -> AuditMetrics:
        """The collector to register with the metrics of the server."""
        return AuditMetrics(lambda: self._last)

    @property
    def report(self) -> AuditReport | None:
        """The report of the last round; None before the first."""
        return None if self._last is None else self._last[0]

    def summary(self) -> dict[str, Any] | None:
        """`status.audit` of the GPUAdmissionPolicy, by the last round; None before the first."""
        if self._last is None:
            return None
        report, now = self._last
        return {"time": rfc3339(now), "summary": report.summary, "counts": json_document(report.counts, AuditCounts)}

    def forget(self) -> None:
        """Drop the last report and its proofs, because another replica leads now."""
        self._last, self._kept = None, KeptProofs()
        self._next_count, self._missing = 0.0, Counter()

    def count_missing_pods(self) -> Counter[WaitReason]:
        """The pods that workloads of the last audit still lack, by reason.

        Counted anew once a minute, in a thread.
        """
        began = self.clockwork.clock()
        if self._last is None or began < self._next_count:
            return self._missing
        self._next_count = began + _COUNT_MISSING_SECONDS

        def check_time() -> None:
            if self.clockwork.clock() >= began + _LONGEST_MISSING_SECONDS:
                raise TimeoutError

        def has_time() -> bool:
            return self.clockwork.clock() < began + _MISSING_SECONDS

        workloads, now = self._last[0].short_workloads, self.clockwork.now()
        try:
            with bounded_by(Work(check=check_time)):
                self._missing = missing_counts(self.view, self.settings(), now, workloads, has_time)
        except TimeoutError:
            _logger.warning("the pods that workloads lack were not counted in %g seconds", _LONGEST_MISSING_SECONDS)
        except Exception:
            check_cancelled()
            # A defect that one workload meets must not end the counts of pods.
            _logger.exception("the pods that workloads lack were not counted")
        return self._missing

    async def round(self) -> None:
        """Audit the cluster once.

        Raises:
            ClusterError: The API server did not answer, or stopped within a list.
        """
        settings = self.settings()
        survey = Survey(self.view, settings)
        await survey_cluster(self.client, survey, lambda page: run_spread(partial(survey.add, page), _SECONDS))
        report = await run_spread(partial(audit, self.view, settings, survey, kept=self._kept), _SECONDS)
        self._last = report, self.clockwork.now()
        _logger.info("audited: %s", report.summary)


_LAST = "gpu_admission_audit_last_timestamp_seconds"


class AuditMetrics(Collector):
    """Gauges of the last report, exported by the leader; none before the first audit.

    The label values are fixed by the program. `gpu-admission audit` lists the namespaces that are not ready.
    """

    def __init__(self, last: Callable[[], tuple[AuditReport, datetime] | None]) -> None:
        """`last` returns the last report and its time."""
        self._last = last

    def collect(self) -> Iterable[Metric]:
        """The metrics of the last audit."""
        findings = GaugeMetricFamily(
            "gpu_admission_audit_findings",
            "Objects with findings in the last audit, by rule and severity.",
            None,
            ("rule", "severity"),
        )
        waived = GaugeMetricFamily(
            "gpu_admission_audit_waived_findings",
            "Objects with findings in the last audit that an annotation waives, by rule and severity.",
            None,
            ("rule", "severity"),
        )
        namespaces = GaugeMetricFamily(
            "gpu_admission_audit_namespaces",
            "Namespaces with workloads that request GPUs, or that opted in, by mode and by whether all workloads convert; "
            "unknown if pods cannot be read.",
            None,
            ("mode", "ready"),
        )
        workloads = GaugeMetricFamily(
            "gpu_admission_audit_workloads",
            "Workloads that request GPUs, by the mode of their namespace and the outcome of conversion.",
            None,
            ("mode", "outcome"),
        )
        unknown = GaugeMetricFamily(
            "gpu_admission_audit_kinds_not_reviewed", "Kinds that the last audit could not read."
        )
        moment = GaugeMetricFamily(_LAST, "When the last audit was done.")
        if (last := self._last()) is not None:
            report, now = last
            _fill(findings, {(rule.id, str(severity)): count for (rule, severity), count in report.found.items()})
            _fill(waived, {(rule.id, str(severity)): count for (rule, severity), count in report.waived.items()})
            _fill(namespaces, Counter((each.mode.value, _READY[each.is_ready]) for each in report.readiness))
            _fill(workloads, _outcomes(report))
            unknown.add_metric((), report.counts.kinds_not_reviewed)
            moment.add_metric((), now.timestamp())
        return (findings, waived, namespaces, workloads, unknown, moment)


_READY = {True: "true", False: "false", None: "unknown"}


def _outcomes(report: AuditReport) -> Counter[tuple[str, str]]:
    outcomes: Counter[tuple[str, str]] = Counter()
    for each in report.readiness:
        of_mode = {"converts": each.converts, "refused": each.refused, "left": each.left}
        of_mode |= {"loses": each.loses, "unknown": each.unknown}
        outcomes.update({(each.mode.value, outcome): count for outcome, count in of_mode.items()})
    return outcomes


def _fill(family: GaugeMetricFamily, values: Mapping[tuple[str, str], int]) -> None:
    for labels, value in sorted(values.items()):
        family.add_metric(labels, value)


_POD = RESOURCES["Pod"]
_NODE_POOL = RESOURCES["NodePool"]


async def survey_cluster(client: APIClient, survey: Survey, take: Callable[[list[Object]], Awaitable[None]]) -> None:
    """Read all objects that a survey needs, page by page.

    A kind that is not installed has no objects. A kind that is forbidden is reported to the survey.

    Args:
        client: Reads from the API server.
        survey: Names the namespace to read, and records unknown kinds.
        take: Adds a page of objects to the survey.

    Raises:
        ClusterError: The API server did not answer, or stopped within a list.
    """
    workloads = await workload_resources(client, survey.settings)
    makers = [each for each in workloads if (each.group, each.kind) in survey.kinds]
    for resource in (_POD, *makers, _NODE_POOL):
        wanted = Watched(resource, survey.namespace if resource.namespaced else "")
        unreadable = await read_pages(client, wanted, take)
        if unreadable is not None:
            survey.miss(resource.kind, unreadable.redacted_text(resource))


MOST_ROWS = 10_000
"""The limit for nodes times kinds of devices, each with up to four series; beyond it, devices are summed over all nodes."""
_COUNT_SECONDS = 300.0
"""The limit for one count, which takes seconds in a cluster of 5,000 nodes."""
_NAME = "gpu_admission_devices"
_LABELS = ("node", "product", "profile", "replicas", "state")


@dataclass(eq=False)
class DeviceRound(Collector):
    """Counts the devices, and exports the last counts.

    There are none before the first round, and none after the lead is lost.
    """

    view: ClusterView
    settings: Callable[[], GPUAdmissionPolicy]
    """Returns the administrator's current settings."""
    most_rows: int = MOST_ROWS
    _last: _Counted | None = field(default=None, init=False)

    def collect(self) -> Iterable[Metric]:
        """The last counts."""
        devices = Metric(
            _NAME,
            "Devices by node, kind and state: held, free, unusable, over (held beyond those that exist) or missing (held, but not "
            "shown by their node); unknown amounts are missing.",
            "gauge",
        )
        summed = GaugeMetricFamily(
            f"{_NAME}_summed_nodes",
            "Nodes whose devices are exported as sums over all nodes, because they are too many; 0 if each has its own.",
        )
        if self._last is not None:
            devices.samples = self._last.series
            summed.add_metric((), self._last.summed_nodes)
        return devices, summed

    async def round(self) -> None:
        """Count the devices once, in a thread."""
        self._last = await run_spread(self._count, _COUNT_SECONDS)

    def forget(self) -> None:
        """Drop the last counts, because another replica leads now."""
        self._last = None

    def _count(self) -> _Counted:
        # The report on a large cluster has hundreds of thousands of Python objects.
        with CollectionPause():
            report = usage_report(self.view, settings=self.settings().quota)
            series, counts = _Series(), device_states(report, self.most_rows)
            for row in counts.rows:
                kind = row.kind.product, row.kind.profile, str(row.kind.replicas)
                for state, amount in row.amounts.items():
                    series.extend((row.node, *kind, state.value, float(amount)))
            return _Counted(series, counts.summed_nodes)


class _Counted(NamedTuple):
    series: _Series
    summed_nodes: int


class _Series(list[Any]):
    """The labels and the value of each series, all in one list.

    They become samples one by one when they are encoded. Stored samples would take ten times the memory, and garbage
    collections would traverse them.
    """

    def __iter__(self) -> Iterator[Sample]:
        fields = super().__iter__()
        for *labels, value in zip(*[fields] * (len(_LABELS) + 1), strict=True):
            yield Sample(_NAME, dict(zip(_LABELS, labels, strict=True)), value)
