"""The ServiceMonitor and the Service of the DCGM exporter: how Prometheus reaches the metrics."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from policies.checks import Problem, problem
from policies.configuration.checks import COMPONENTS
from policies.configuration.cluster_policy.dcgm_exporter import exports_metrics
from policies.decision import Severity
from policies.kubernetes.misspellings import closest
from policies.kubernetes.objects import name_of, namespace_of
from policies.kubernetes.paths import lookup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change
    from policies.kubernetes.objects import Object
    from policies.kubernetes.paths import FieldPath

_MONITOR = ("dcgmExporter", "serviceMonitor")
_SERVICE = ("dcgmExporter", "service")
_CRD = "servicemonitors.monitoring.coreos.com"
_OWN_MONITORS = ("nvidia-dcgm-exporter", "nvidia-dcgm-exporter-dra")
"""What the operator calls its ServiceMonitor, and the label `app` of what it selects; the second for a GPUCluster."""

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
)
def scrapable(change: Change) -> Iterator[Problem]:
    """The ServiceMonitor is made as it is written, and rejected later by somebody else.

    The Prometheus operator drops one whose timeout is longer than its interval, with a line in its log and nothing
    else; without its CRD the GPU Operator makes none. A Service of a type that does not exist keeps the whole state of
    the exporter from becoming ready.
    """
    if not exports_metrics(change):
        return
    for field, known in _CHOICES.items():
        value = change.text(*_SERVICE, field)
        if value and value not in known:
            guess = closest(value, known)
            text = f'"{value}" is none of {", ".join(known)}; the API server would refuse the exporter\'s Service'
            yield problem(change.at(*_SERVICE, field), text, f"write {guess or known[0]}")
    durations = {field: change.value(*_MONITOR, field) for field in ("interval", "scrapeTimeout")}
    for field, value in durations.items():
        yield from _malformed(change.at(*_MONITOR, field), value)
    if change.flag(*_MONITOR, "enabled"):
        yield from _slow(change, durations["interval"], durations["scrapeTimeout"])
        yield from _unseen(change)
        yield from _doubled(change)


def _malformed(path: FieldPath, value: Any) -> Iterator[Problem]:
    if value == "":
        text = "is empty, which counts as not set; Prometheus would use its own"
        yield problem(path, text, "write a duration such as 15s, or remove it", severity=Severity.WARN)
    elif isinstance(value, str) and _milliseconds(value) is None:
        unit = f"write {value}s" if value.isascii() and value.isdigit() else "write a duration such as 15s or 1m30s"
        yield problem(path, f'"{value}" is no duration of Prometheus; the API server refuses it', unit)


def _slow(change: Change, interval: Any, timeout: Any) -> Iterator[Problem]:
    """A timeout that is longer than the interval; where no interval is set, than Prometheus' own."""
    path, waits = change.at(*_MONITOR, "scrapeTimeout"), _milliseconds(timeout)
    scrapes = _milliseconds(interval)
    if not waits or not isinstance(timeout, str):
        return
    if scrapes:
        if waits > scrapes:
            error = f'scrapeTimeout "{timeout}" greater than scrapeInterval "{interval}"'
            text = (
                f"{timeout} is longer than the interval; the Prometheus operator would drop the ServiceMonitor: {error}"
            )
            yield problem(path, text, f"write interval: {timeout} or more, or scrapeTimeout: {interval} or less")
        return
    own = [lookup(prometheus, ("spec", "scrapeInterval")) or "30s" for prometheus in change.facts.known("Prometheus")]
    shortest = min((found for text in own if (found := _milliseconds(text))), default=_USUAL_INTERVAL)
    if waits > shortest:
        whose = (
            "the interval of Prometheus"
            if own
            else "30s, the usual interval of Prometheus, whose own is not known here"
        )
        text = f"{timeout} is longer than {whose}, and no interval is set"
        yield problem(path, text, f"write interval: {timeout} beside it", severity=Severity.WARN)


def _unseen(change: Change) -> Iterator[Problem]:
    """A ServiceMonitor that is not made, or that no Prometheus looks for."""
    if change.facts.get("CustomResourceDefinition", _CRD) is None:
        text = f"has no effect, because the cluster has no {_CRD}; the operator makes no ServiceMonitor without it"
        remedy = "install the Prometheus operator first"
        yield problem(change.at(*_MONITOR, "enabled"), text, remedy, severity=Severity.WARN)
    labels = {"app": _own(change), **change.mapping(*_MONITOR, "additionalLabels")}
    wanted = [_wanted_labels(prometheus) for prometheus in change.facts.known("Prometheus")]
    if wanted and all(selector and not selector.items() <= labels.items() for selector in wanted):
        missing = ", ".join(f"{key}: {value}" for key, value in wanted[0].items() if labels.get(key) != value)
        text = f"the ServiceMonitor lacks the label {missing}, by which Prometheus here selects ServiceMonitors"
        remedy = f"write additionalLabels: {{{missing}}}"
        yield problem(change.at(*_MONITOR), text, remedy, severity=Severity.WARN)


def _wanted_labels(prometheus: Object) -> dict[str, str]:
    """The labels that a ServiceMonitor needs for a Prometheus; empty where it wants none, or something else."""
    selector = lookup(prometheus, ("spec", "serviceMonitorSelector"))
    labels = lookup(selector, ("matchLabels",))
    if not isinstance(labels, dict) or lookup(selector, ("matchExpressions",)):
        return {}
    return {key: value for key, value in labels.items() if isinstance(value, str)}


def _doubled(change: Change) -> Iterator[Problem]:
    for monitor in change.facts.known("ServiceMonitor"):
        selected = lookup(monitor, ("spec", "selector", "matchLabels", "app"))
        if selected == _own(change) and name_of(monitor) not in _OWN_MONITORS and _looks_here(change, monitor):
            name = f"{namespace_of(monitor)}/{name_of(monitor)}".strip("/")
            text = f'the ServiceMonitor "{name}" scrapes the exporter already, so every series would be there twice'
            remedy = "delete that ServiceMonitor, or write enabled: false"
            yield problem(change.at(*_MONITOR, "enabled"), text, remedy, severity=Severity.WARN)


def _looks_here(change: Change, monitor: Object) -> bool:
    """Whether a ServiceMonitor selects Services of the operator's namespace."""
    selector = lookup(monitor, ("spec", "namespaceSelector"))
    names = lookup(selector, ("matchNames",))
    if lookup(selector, ("any",)) is True:
        return True
    seen = names if isinstance(names, list) and names else [namespace_of(monitor)]
    return any(namespace in change.facts.operator_namespaces for namespace in seen)


def _own(change: Change) -> str:
    return _OWN_MONITORS[change.kind == "GPUCluster"]


def _milliseconds(text: Any) -> int | None:
    """A duration as Prometheus writes it; None for what is none."""
    match = _DURATION.fullmatch(text) if isinstance(text, str) and text else None
    if match is None:
        return 0 if text == "0" else None
    return sum(int(number or 0) * unit for number, unit in zip(match.groups(), _MILLISECONDS, strict=True))
