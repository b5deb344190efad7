"""The ServiceMonitor and the Service of the DCGM exporter: how Prometheus reaches the metrics."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from policies.checks import Problem, problem
from policies.configuration.checks import COMPONENTS, WITH_OPERANDS
from policies.configuration.cluster_policy.dcgm_exporter import exports_metrics
from policies.decision import Severity
from policies.kubernetes.misspellings import write_closest
from policies.kubernetes.objects import name_of, namespace_of
from policies.kubernetes.paths import items_at, lookup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change, Section
    from policies.kubernetes.objects import Object
    from policies.kubernetes.paths import FieldPath

_CRD = "servicemonitors.monitoring.coreos.com"
_OWN_MONITORS = ("nvidia-dcgm-exporter", "nvidia-dcgm-exporter-dra")
"""The operator's ServiceMonitor and the label `app` of the Service that it selects; the second one for a GPUCluster."""

_DURATION = re.compile(
    r"(?:([0-9]+)y)?(?:([0-9]+)w)?(?:([0-9]+)d)?(?:([0-9]+)h)?(?:([0-9]+)m)?(?:([0-9]+)s)?(?:([0-9]+)ms)?"
)
_MILLISECONDS = (31_536_000_000, 604_800_000, 86_400_000, 3_600_000, 60_000, 1_000, 1)
_USUAL_INTERVAL = 30_000
"""Of Prometheus as the Prometheus operator sets it up."""

_CHOICES = {
    "type": ("ClusterIP", "NodePort", "LoadBalancer", "ExternalName"),
    "internalTrafficPolicy": ("Cluster", "Local"),
}


@COMPONENTS.rule(
    "GA160",
    "Prometheus must be able to scrape the exporter",
    default=Severity.DENY,
    remedy="write an interval that is at least the scrapeTimeout",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go applyServiceMonitorCustomEdits; "
    "github.com/prometheus-operator/prometheus-operator pkg/prometheus; k8s.io/api/core/v1 ServiceType",
    rows=("I-09", "I-10", "I-11", "I-12", "I-13", "I-16"),
    kinds=WITH_OPERANDS,
)
def scrapable(change: Change) -> Iterator[Problem]:
    """The ServiceMonitor is created as it is written, and rejected later.

    The Prometheus operator ignores one whose timeout is longer than its interval, with only a line in its log. Without
    its CRD the GPU Operator creates none. A Service of an unknown type keeps the state of the exporter from becoming
    ready.
    """
    if not exports_metrics(change):
        return
    service, monitor = change.section("dcgmExporter", "service"), change.section("dcgmExporter", "serviceMonitor")
    for field, known in _CHOICES.items():
        value = service.text(field)
        if value and value not in known:
            text = f'"{value}" is not one of {", ".join(known)}; the API server would refuse the exporter\'s Service'
            yield problem(service.at(field), text, write_closest(value, known, f'write "{known[0]}"'))
    for field in ("interval", "scrapeTimeout"):
        yield from _duration_problem(monitor.at(field), monitor.value(field))
    if monitor.flag("enabled"):
        yield from _long_timeout(monitor)
        yield from _unused_monitor(monitor)
        yield from _second_monitor(monitor)


def _duration_problem(path: FieldPath, value: Any) -> Iterator[Problem]:
    if value == "":
        text = "is empty, which counts as not set; Prometheus would use its own"
        yield problem(path, text, "write a duration such as 15s, or remove it", severity=Severity.WARN)
    elif isinstance(value, str) and _milliseconds(value) is None:
        unit = f"write {value}s" if value.isascii() and value.isdigit() else "write a duration such as 15s or 1m30s"
        yield problem(path, f'"{value}" is not a duration of Prometheus; the API server refuses it', unit)


def _long_timeout(monitor: Section) -> Iterator[Problem]:
    """A timeout that is longer than the interval; if no interval is set, than that of Prometheus."""
    path, interval, timeout = monitor.at("scrapeTimeout"), monitor.text("interval"), monitor.text("scrapeTimeout")
    waits, scrapes = _milliseconds(timeout), _milliseconds(interval)
    if waits and scrapes and waits > scrapes:
        error = f'scrapeTimeout "{timeout}" greater than scrapeInterval "{interval}"'
        text = f"{timeout} is longer than the interval; the Prometheus operator would drop the ServiceMonitor: {error}"
        yield problem(path, text, f"write interval: {timeout} or more, or scrapeTimeout: {interval} or less")
    elif waits and not scrapes:
        prometheuses = monitor.change.facts.known_objects("Prometheus")
        own = [lookup(prometheus, ("spec", "scrapeInterval")) or "30s" for prometheus in prometheuses]
        shortest = min((found for text in own if (found := _milliseconds(text))), default=_USUAL_INTERVAL)
        whose = "the interval of Prometheus" if own else "30s, the usual interval of Prometheus"
        if waits > shortest:
            text = f"{timeout} is longer than {whose}, and no interval is set"
            yield problem(path, text, f"write interval: {timeout} beside it", severity=Severity.WARN)


def _unused_monitor(monitor: Section) -> Iterator[Problem]:
    """A ServiceMonitor that is not created, or that no Prometheus selects."""
    facts = monitor.change.facts
    if facts.get("CustomResourceDefinition", _CRD) is None:
        text = f"has no effect, because the cluster has no {_CRD}; the operator creates no ServiceMonitor without it"
        yield problem(monitor.at("enabled"), text, "install the Prometheus operator first", severity=Severity.WARN)
    labels = {"app": _own_name(monitor), **monitor.mapping("additionalLabels")}
    wanted = [_wanted_labels(prometheus) for prometheus in facts.known_objects("Prometheus")]
    if wanted and all(selector and not selector.items() <= labels.items() for selector in wanted):
        missing = ", ".join(f"{key}: {value}" for key, value in wanted[0].items() if labels.get(key) != value)
        text = f"the ServiceMonitor lacks the label {missing}, by which Prometheus here selects ServiceMonitors"
        yield problem(monitor.at(), text, f"write additionalLabels: {{{missing}}}", severity=Severity.WARN)


def _wanted_labels(prometheus: Object) -> dict[str, str]:
    """The labels that a ServiceMonitor needs for a Prometheus; empty if it needs none, or expressions."""
    selector = lookup(prometheus, ("spec", "serviceMonitorSelector"))
    labels = lookup(selector, ("matchLabels",))
    if not isinstance(labels, dict) or lookup(selector, ("matchExpressions",)):
        return {}
    return {key: value for key, value in labels.items() if isinstance(value, str)}


def _second_monitor(monitor: Section) -> Iterator[Problem]:
    for other in monitor.change.facts.known_objects("ServiceMonitor"):
        selects_exporter = lookup(other, ("spec", "selector", "matchLabels", "app")) == _own_name(monitor)
        if selects_exporter and name_of(other) not in _OWN_MONITORS and _selects_here(monitor.change, other):
            name = f"{namespace_of(other)}/{name_of(other)}".strip("/")
            text = f'the ServiceMonitor "{name}" scrapes the exporter already, so every series would exist twice'
            remedy = "delete that ServiceMonitor, or write enabled: false"
            yield problem(monitor.at("enabled"), text, remedy, severity=Severity.WARN)


def _selects_here(change: Change, monitor: Object) -> bool:
    """True if a ServiceMonitor selects Services of the operator's namespace."""
    selector = lookup(monitor, ("spec", "namespaceSelector"))
    namespaces = items_at(selector, ("matchNames",)) or [namespace_of(monitor)]
    operators = change.facts.operator_namespaces
    return lookup(selector, ("any",)) is True or any(each in operators for each in namespaces)


def _own_name(monitor: Section) -> str:
    return _OWN_MONITORS[monitor.change.kind == "GPUCluster"]


def _milliseconds(text: Any) -> int | None:
    """A duration as Prometheus writes it; None if it is not valid."""
    match = _DURATION.fullmatch(text) if isinstance(text, str) and text else None
    if match is None:
        return 0 if text == "0" else None
    return sum(int(number or 0) * unit for number, unit in zip(match.groups(), _MILLISECONDS, strict=True))
