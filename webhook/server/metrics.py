"""Creates the metrics of gpu-admission in a registry."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, TypeVar

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from policies.admission import ENTRIES
from policies.quota.outcomes import OUTCOMES
from webhook.ledger import ANSWERS
from webhook.server.guarded_connection import CLOSED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from prometheus_client.metrics_core import Metric

    from policies.rules.decision import Decision
    from policies.rules.request import Concern


L = TypeVar("L", bound=str)


@dataclass(frozen=True, slots=True)
class MetricFactory:
    """Creates metrics whose names begin with `gpu_admission_`."""

    registry: CollectorRegistry

    def counter(self, name: str, meaning: str, *labels: str) -> Counter:
        """A counter; `_total` is appended to its name."""
        return Counter(f"gpu_admission_{name}_total", meaning, labels, registry=self.registry)

    def counters(self, name: str, meaning: str, label: str, values: Iterable[L]) -> dict[L, Counter]:
        """A counter for each value of its one label.

        They are made once, because looking one up costs more than counting. So zeros are shown from the start.
        """
        counter = self.counter(name, meaning, label)
        return {value: counter.labels(value) for value in values}

    def gauge(self, name: str, meaning: str, *labels: str) -> Gauge:
        """A gauge."""
        return Gauge(f"gpu_admission_{name}", meaning, labels, registry=self.registry)

    def histogram(self, name: str, meaning: str, buckets: Sequence[float], *labels: str) -> Histogram:
        """A histogram."""
        return Histogram(f"gpu_admission_{name}", meaning, labels, buckets=buckets, registry=self.registry)


@dataclass(frozen=True, slots=True)
class Exposition(Collector):
    """The metrics of one moment, which can be encoded in a thread."""

    families: tuple[Metric, ...]
    is_open_metrics: bool
    """False for the text format of Prometheus."""

    def collect(self) -> Iterable[Metric]:
        """The metrics of that moment."""
        return self.families

    @property
    def content_type(self) -> str:
        """The media type of the format."""
        return openmetrics.CONTENT_TYPE_LATEST if self.is_open_metrics else CONTENT_TYPE_LATEST

    def text(self) -> bytes:
        """The metrics in their format."""
        encode: Callable[[Collector], bytes] = openmetrics.generate_latest if self.is_open_metrics else generate_latest
        return encode(self)


def accepts_open_metrics(accepted: str) -> bool:
    """True if a header `Accept` names OpenMetrics 1.0.0.

    The client's own negotiation raises an error for a malformed version, and claims any later version.
    Source: https://prometheus.io/docs/instrumenting/content_negotiation.
    """
    for choice in accepted.split(","):
        media_type, *parameters = (each.strip() for each in choice.split(";"))
        named = dict(each.partition("=")[::2] for each in parameters)
        if media_type == "application/openmetrics-text" and named.get("version", "1.0.0") == "1.0.0":
            return named.get("q") not in ("0", "0.0", "0.00", "0.000")
    return False


VERDICTS = ("allowed", "changed", "denied", "failed", "turned_down")
"""Results of a call: a decision (the first three), a failure, or refused before any review."""

_WITHOUT_REVIEW = ("failed", "turned_down")

EXPLAINED = ("answered", "unavailable", "failed", "turned_down")
"""Results of a call for an explanation; unavailable if too many were waiting or the time was up."""

EXPLAIN_CALLERS = ("allowed", "unauthenticated", "forbidden", "unavailable")
"""Results of checking the caller of an explanation; unavailable if the API server did not answer."""

TEMPLATES = ("created", "found", "unmarked", "foreign", "failed", "limited", "unmatched")
"""Results of ensuring a template; unmarked if it was about to be swept, foreign if it has another spec."""

PORTS = ("webhook", "probes", "peers", "explain", "ui")

UI_CALLS = ("page", "report", "explanation")
"""The calls of the page's port: for its files, for the live report, and for explanations."""

STREAM_ENDS = ("closed", "unauthenticated", "forbidden", "unavailable", "changed", "stopping", "slow", "failed")
"""The reason why a stream of the live report ends: the user closed it; the token, the right or the report is not there
any more; the rights changed; the replica stops; the user does not read; an error."""

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_LAG_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_QUOTAS = tuple(entry.name for entry in ENTRIES.values() if "quota" in entry.concerns)
_MOST_UNCOUNTED = 256


@dataclass(frozen=True)
class _Before(Collector):
    """Calls a function before the metrics that were registered after it are read."""

    act: Callable[[], None]

    def collect(self) -> Iterable[Metric]:
        self.act()
        return ()


class Metrics:
    """The metrics of one server, in a registry of their own."""

    def __init__(self) -> None:
        # A timestamp for every counter would double the page, and Prometheus does not use it.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._uncounted: list[tuple[str, str, float]] = []
        """Entry, verdict and seconds of answers that are not in the metrics yet."""
        # Registered first, so that every reader of the registry finds all answers counted.
        self.registry.register(_Before(self._count_answers))
        ProcessCollector(registry=self.registry)
        self._new = new = MetricFactory(self.registry)
        requests = new.counter("requests", "Calls of webhook entries, by how they ended.", "webhook", "verdict")
        self._requests = {
            (entry, verdict): requests.labels(entry, verdict) for entry in ENTRIES for verdict in VERDICTS
        }
        unreviewed = new.counter(
            "unreviewed",
            "Calls of webhooks that fail open which ended without a review, so that their objects pass unchecked.",
            "webhook",
        )
        self._unreviewed = {
            name: unreviewed.labels(name) for name, entry in ENTRIES.items() if entry.failure_policy == "Ignore"
        }
        skipped = new.counter(
            "concerns_skipped", "Concerns that fail open and have not answered, by webhook.", "webhook", "concern"
        )
        self._skipped = {
            (name, concern): skipped.labels(name, concern)
            for name, entry in ENTRIES.items()
            for concern, policy in entry.concerns.items()
            if policy == "Ignore"
        }
        duration = new.histogram(
            "request_duration_seconds", "Time from the arrival of a call to its answer.", _BUCKETS, "webhook"
        )
        self._duration = {entry: duration.labels(entry) for entry in ENTRIES}
        self._findings = new.counter(
            "findings", "Findings of rules, by webhook, rule and severity.", "webhook", "rule", "severity"
        )
        self._exempted = new.counter("exempted", "Findings whose severity an exemption lowered.", "webhook", "rule")
        self._waived = new.counter("waived", "Findings that an annotation of the object waives.", "webhook", "rule")
        converted = "Pods that requested conversion, by outcome; dry runs are not counted."
        kinds = ("converted", "unconverted", "refused")
        self._conversions = new.counters("conversions", converted, "outcome", kinds)
        templates = "ResourceClaimTemplates that answers waited for, by outcome."
        self._templates = new.counters("templates", templates, "outcome", TEMPLATES)
        outcomes = new.counter(
            "quota_outcomes", "Charges to quotas, by outcome; dry runs are not counted.", "webhook", "outcome"
        )
        self._quota_outcomes = {
            (entry, outcome): outcomes.labels(entry, outcome) for entry in _QUOTAS for outcome in OUTCOMES
        }
        forwarded = "Charges that were sent to the owner of a ledger, by its answer."
        self._forwarded = new.counters("forwarded_charges", forwarded, "answer", ANSWERS)
        explained = "Calls for explanations, by how they ended."
        self._explanations = new.counters("explanations", explained, "outcome", EXPLAINED)
        callers = "Calls for explanations and reports, by whether their caller may have them."
        self._explain_callers = new.counters("explanation_callers", callers, "outcome", EXPLAIN_CALLERS)
        self.time_explanation = new.histogram(
            "explanation_duration_seconds",
            "Time from the arrival of a call for an explanation to its answer.",
            _BUCKETS,
        ).observe
        ui_calls = new.counter("ui_calls", "Calls of the page's port, by how they ended.", "call", "outcome")
        self._ui_calls = {(call, outcome): ui_calls.labels(call, outcome) for call in UI_CALLS for outcome in EXPLAINED}
        ended = "Streams of the live report that have ended, by reason."
        self._stream_ends = new.counters("ui_streams_ended", ended, "reason", STREAM_ENDS)
        self._streams = new.gauge("ui_streams", "Streams of the live report that are open.")
        self.time_report = new.histogram(
            "ui_report_duration_seconds", "Time to make a live report, with its pauses for reviews.", _BUCKETS
        ).observe
        self.observe_loop_lag = new.histogram(
            "event_loop_lag_seconds", "Delay of the event loop, measured ten times a second.", _LAG_BUCKETS
        ).observe
        self.count_review_aside = new.counter(
            "reviews_aside", "Reviews that were too long for the event loop and ran in a thread."
        ).inc
        self.count_review_refused = new.counter(
            "reviews_refused", "Reviews that were refused because they could not wait for their turn."
        ).inc
        self._in_flight = new.gauge("requests_in_flight", "Calls that are being answered.")
        self._certificate = new.gauge(
            "certificate_expiry_timestamp_seconds", "When the serving certificate, or one of its chain, expires."
        )
        build = new.gauge("build_info", "Always 1; the label has the version.", "version")
        build.labels(version("gpu-admission")).set(1)
        closed = new.counter(
            "connections_closed", "Connections that a limit closed, by port and reason.", "port", "reason"
        )
        self._closed = {(port, reason): closed.labels(port, reason) for port in PORTS for reason in CLOSED}
        self._connections = new.gauge("connections", "Open connections, by port.", "port")

    def count_call(self, entry: str, verdict: str) -> None:
        """Count a call of an entry by how it ended, one of `VERDICTS`."""
        self._requests[entry, verdict].inc()
        if verdict in _WITHOUT_REVIEW and entry in self._unreviewed:
            self._unreviewed[entry].inc()

    def count_answer(self, entry: str, verdict: str, seconds: float) -> None:
        """Count a call that was answered with a review, and how long that took.

        Counted later, many at once, which takes a tenth of the time; always before the metrics are read.
        """
        self._uncounted.append((entry, verdict, seconds))
        if len(self._uncounted) >= _MOST_UNCOUNTED:
            self._count_answers()

    def _count_answers(self) -> None:
        answers, self._uncounted = self._uncounted, []
        for entry, verdict, seconds in answers:
            self.count_call(entry, verdict)
            self._duration[entry].observe(seconds)

    def count_decision(self, entry: str, decision: Decision) -> None:
        """Count the findings of a decision."""
        for finding in decision.findings:
            self._findings.labels(entry, finding.rule.id, finding.severity.value).inc()
            if finding.exempt:
                self._exempted.labels(entry, finding.rule).inc()
            if finding.waived:
                self._waived.labels(entry, finding.rule).inc()

    def count_skipped(self, entry: str, concern: Concern) -> None:
        """Count a concern that fails open and has not answered."""
        self._skipped[entry, concern].inc()

    def count_conversion(self, decision: Decision) -> None:
        """Count the outcome of a conversion."""
        if outcome := _outcome(decision):
            self._conversions[outcome].inc()

    def count_refused_conversion(self) -> None:
        """Count a pod that is refused because its template cannot be created."""
        self._conversions["refused"].inc()

    def count_template(self, outcome: str) -> None:
        """Count a template that was requested from the API server, by outcome, one of `TEMPLATES`."""
        self._templates[outcome].inc()

    def count_quota_outcome(self, entry: str, outcome: str) -> None:
        """Count a charge by entry and outcome, one of `policies.quota.outcomes.OUTCOMES`."""
        self._quota_outcomes[entry, outcome].inc()

    def count_forwarded_charge(self, answer: str) -> None:
        """Count a charge that was sent to the owner of a ledger by its answer, one of `ANSWERS`."""
        self._forwarded[answer].inc()

    def count_explanation(self, outcome: str) -> None:
        """Count a call for an explanation by how it ended, one of `EXPLAINED`."""
        self._explanations[outcome].inc()

    def count_explain_caller(self, outcome: str) -> None:
        """Count the check of an explanation's caller by outcome, one of `EXPLAIN_CALLERS`."""
        self._explain_callers[outcome].inc()

    def count_ui_call(self, call: str, outcome: str) -> None:
        """Count a call of the page's port, one of `UI_CALLS`, by how it ended, one of `EXPLAINED`."""
        self._ui_calls[call, outcome].inc()

    def count_stream_end(self, reason: str) -> None:
        """Count a stream of the live report that has ended, by one of `STREAM_ENDS`."""
        self._stream_ends[reason].inc()

    def watch_streams(self, count: Callable[[], int]) -> None:
        """Export the number of open streams of the live report, counted at every scrape."""
        self._streams.set_function(count)

    def closed_by(self, port: str) -> Callable[[str], None]:
        """A counter of closed connections of a port, one of `PORTS`; call it with one of `CLOSED`."""
        return lambda reason: self._closed[port, reason].inc()

    def watch_connections(self, open_of: Mapping[str, Callable[[], int]]) -> None:
        """Export the number of open connections of each port, counted at every scrape."""
        for port, count in open_of.items():
            self._connections.labels(port).set_function(count)

    def watch_peers(self, connected: Callable[[], int]) -> None:
        """Export the number of other replicas that this one can send charges to, counted at every scrape."""
        self._new.gauge("peers", "Other replicas that this one is connected to.").set_function(connected)

    def watch_calls(self, under_way: Callable[[], int]) -> None:
        """Export the number of calls that are being answered, counted at every scrape."""
        self._in_flight.set_function(under_way)

    def watch_certificate(self, expiry: Callable[[], float]) -> None:
        """Export the expiry of the certificate in seconds since 1970, read at every scrape."""
        self._certificate.set_function(expiry)

    def watch_readiness(self, ready: Callable[[], bool]) -> None:
        """Export whether this replica is ready, checked at every scrape."""
        self._new.gauge("ready", "1 if this replica is ready for calls.").set_function(ready)

    def watch_settings(self, accepted: Callable[[], bool]) -> None:
        """Export whether the stored settings are in effect, checked at every scrape."""
        gauge = self._new.gauge(
            "settings_accepted",
            "1 if the stored GPUAdmissionPolicy is in effect or none is stored; 0 if it is invalid.",
        )
        gauge.set_function(accepted)

    def exposition(self, accepted: str = "") -> Exposition:
        """All metrics as they are now.

        Args:
            accepted: The header `Accept` of the scraper, which chooses the format: the text format of Prometheus by default,
                or OpenMetrics.
        """
        return Exposition(tuple(self.registry.collect()), is_open_metrics=accepts_open_metrics(accepted))


def _outcome(decision: Decision) -> str:
    if not decision.allowed:
        return "refused"
    if decision.templates and decision.patch:
        return "converted"
    return "unconverted" if decision.findings else ""
