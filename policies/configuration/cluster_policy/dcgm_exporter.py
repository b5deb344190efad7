"""The DCGM exporter and its host engine: `spec.dcgmExporter` and `spec.dcgm`, also of a GPUCluster."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from policies.configuration.change import WITH_OPERANDS, check_object
from policies.configuration.config_maps.roles import LIST_KEY
from policies.fleet.operands import is_deployed
from policies.kubernetes.names import write_closest
from policies.kubernetes.objects import items_at, lookup, name_of, namespace_of
from policies.rules.checks import Problem
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change, Section
    from policies.kubernetes.objects import Object


_EXPORTER = "dcgmExporter"
_POD_LABELS = "DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS"
_ENGINE = "DCGM_REMOTE_HOSTENGINE_INFO"
_OWN_ENGINES = ("nvidia-dcgm", "nvidia-dcgm-dra")
"""The Services of the host engine that the operator deploys for a ClusterPolicy, and for a GPUCluster."""
_OWN_NODE = ("localhost", "127.0.0.1", "[::1]")


def exports_metrics(change: Change) -> bool:
    """True if the operator deploys the DCGM exporter with the settings of this object."""
    return isinstance(change.value(_EXPORTER), dict) and is_deployed(change.object, _EXPORTER)


@WITH_OPERANDS.rule(
    "GA158",
    "The metrics list of the exporter must exist",
    remedy="create the ConfigMap in the operator's namespace first",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go TransformDCGMExporter, "
    "internal/state/dcgm_exporter.go buildDCGMExporterRenderData",
    rows=("I-01", "I-02"),
)
def metrics_list_exists(change: Change) -> Iterator[Problem]:
    """The exporter's pods mount the key `dcgm-metrics.csv` from the operator's namespace.

    If the ConfigMap or the key is missing, the pods stay in ContainerCreating on every GPU node, and there are no GPU
    metrics. The operator itself only reports a state that is not ready.
    """
    if exports_metrics(change):
        consequence = "the exporter's pods would not start"
        yield from check_object(change, change.at(_EXPORTER, "config", "name"), "ConfigMap", consequence, [LIST_KEY])


@WITH_OPERANDS.rule(
    "GA159",
    "The exporter must read a host engine that runs",
    default=Severity.WARN,
    remedy="write dcgm.enabled: false, or remove the variable",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go TransformDCGMExporter",
    rows=("I-04", "I-05", "I-06"),
)
def one_host_engine(change: Change) -> Iterator[Problem]:
    """In a ClusterPolicy an omitted `dcgm.enabled` means that the operator deploys a host engine.

    The operator points the exporter at it, but a variable of the exporter wins: then two host engines watch the same
    GPUs, and one of them is unused. The exporter reaches a host engine of the node by localhost only on the node's
    network, which the operator sets only by `hostNetwork`.
    """
    if not exports_metrics(change):
        return
    # The host engine is off by default in a GPUCluster, and on in a ClusterPolicy.
    deploys_engine = change.flag("dcgm", "enabled", default=change.kind == "ClusterPolicy")
    for index, name, value in change.variables(_EXPORTER, "env"):
        if name != _ENGINE or not value:
            continue
        path = change.at(_EXPORTER, "env", index, "value")
        if deploys_engine and value.partition(":")[0].partition(".")[0] not in _OWN_ENGINES:
            why = "dcgm.enabled is true" + (" by default" if change.value("dcgm", "enabled") is None else "")
            yield Problem(path, f'"{value}" is not the host engine that the operator deploys, because {why}')
        elif not deploys_engine and value.startswith(_OWN_NODE) and not change.flag(_EXPORTER, "hostNetwork"):
            host = value.rpartition(":")[0] or value
            text = f'"{value}" is the pod itself without hostNetwork; the exporter could not connect to {host}'
            yield Problem(path, text, "write hostNetwork: true in dcgmExporter", severity=Severity.DENY)


_NOT_IN_RE2 = {
    "(?=": "a lookahead",
    "(?!": "a lookahead",
    "(?<=": "a lookbehind",
    "(?<!": "a lookbehind",
    "(?>": "an atomic group",
}
_SKIPPED = "the exporter would warn: Failed to compile pod label allowlist regex pattern, skipping"


@WITH_OPERANDS.rule(
    "GA161",
    "The exporter must be able to add the labels of jobs and pods that are configured",
    remedy="write an absolute path such as /var/lib/dcgm-exporter/job-mapping",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go TransformDCGMExporter; "
    "github.com/NVIDIA/dcgm-exporter internal/pkg/transformation/kubernetes.go newLabelFilterCache; "
    "github.com/google/re2 Syntax",
    rows=("I-07", "I-08", "I-15"),
)
def labels_of_metrics(change: Change) -> Iterator[Problem]:
    """The directory of job files is mounted from the node; if it is not absolute, pods do not start.

    Patterns of pod labels are joined by commas and split at commas. The exporter skips a pattern that it cannot compile,
    and if none is left it adds every label of every pod: Prometheus gets far too many series. It starts all the same, so
    this is a warning.
    """
    if not exports_metrics(change):
        return
    exporter = change.section(_EXPORTER)
    directory, path = exporter.text("hpcJobMapping", "directory"), exporter.at("hpcJobMapping", "directory")
    if directory and not exporter.flag("hpcJobMapping", "enabled"):
        text = "has no effect, because hpcJobMapping.enabled is not true"
        yield Problem(path, text, "write enabled: true beside it, or remove it", severity=Severity.WARN)
    elif directory and not directory.startswith("/"):
        yield Problem(path, f'"{directory}" is not absolute, so the exporter\'s pods could not mount it')
    elif ".." in directory.split("/"):
        text = f'"{directory}" contains "..", so the API server would refuse the exporter\'s pods'
        yield Problem(path, f"{text}: must not contain '..'", "write the path without ..")
    patterns = exporter.items("podLabelAllowlistRegex")
    for index, pattern in enumerate(patterns):
        if isinstance(pattern, str) and (found := _pattern_problem(pattern)):
            yield Problem(exporter.at("podLabelAllowlistRegex", index), *found, severity=Severity.WARN)
    by_variable = any(name == _POD_LABELS and value in ("true", "1") for _, name, value in exporter.variables("env"))
    if patterns and not exporter.flag("enablePodLabels") and not by_variable:
        text, remedy = "has no effect, because enablePodLabels is not true", "write enablePodLabels: true beside it"
        yield Problem(exporter.at("podLabelAllowlistRegex"), text, remedy, severity=Severity.WARN)


def _pattern_problem(pattern: str) -> tuple[str, str] | None:
    """The problem with a pattern, and the remedy; None if no problem is found."""
    for form, name in _NOT_IN_RE2.items():
        if form in pattern:
            text = f'"{pattern}" has {name}, which Go\'s regular expressions do not have; {_SKIPPED}'
            return text, "write it without"
    if pattern.startswith(("*", "+", "?")):
        return f'"{pattern}" repeats nothing; {_SKIPPED}', f'write ".{pattern}"'
    return _unbalanced_brackets(pattern)


def _unbalanced_brackets(pattern: str) -> tuple[str, str] | None:
    """Brackets that are not closed, and commas within them, at which the exporter splits patterns."""
    opened: list[str] = []
    escaped, begins = False, -1
    for position, character in enumerate(pattern):
        in_class = opened[-1:] == ["["]
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif in_class and character == "]" and position > begins:
            opened.pop()
        elif character == "[" and not in_class:
            opened.append("[")
            begins = position + 1 + pattern.startswith("^", position + 1)
        elif character in "({" and not in_class:
            opened.append(character)
        elif character == ")" and not in_class and "(" not in opened:
            return f'"{pattern}" has an unmatched ); {_SKIPPED}', "remove it, or write \\)"
        elif character in ")}" and not in_class and opened:
            opened.pop()
        elif character == "," and opened:
            text = f'"{pattern}" has a comma, at which the exporter splits it into two patterns'
            return text, "write it without the comma, as several patterns where needed"
    if escaped or "[" in opened or "(" in opened:
        what = "ends in a \\" if escaped else f"has a {opened[0]} that is not closed"
        return f'"{pattern}" {what}; {_SKIPPED}', "close it, or write it with a \\ before it"
    return None


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


@WITH_OPERANDS.rule(
    "GA160",
    "Prometheus must be able to scrape the exporter",
    remedy="write an interval that is at least the scrapeTimeout",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go applyServiceMonitorCustomEdits, "
    "TransformDCGMExporterService; github.com/prometheus-operator/prometheus-operator pkg/prometheus/promcfg.go "
    "CompareScrapeTimeoutToScrapeInterval; k8s.io/api/core/v1 ServiceType",
    rows=("I-09", "I-10", "I-11", "I-12", "I-13", "I-16"),
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
            yield Problem(service.at(field), text, write_closest(value, known, f'write "{known[0]}"'))
    for field in ("interval", "scrapeTimeout"):
        path, value = monitor.at(field), monitor.value(field)
        if value == "":
            text = "is empty, which counts as not set; Prometheus would use its own"
            yield Problem(path, text, "write a duration such as 15s, or remove it", severity=Severity.WARN)
        elif isinstance(value, str) and _milliseconds(value) is None:
            unit = f"write {value}s" if value.isascii() and value.isdigit() else "write a duration such as 15s or 1m30s"
            yield Problem(path, f'"{value}" is not a duration of Prometheus; the API server refuses it', unit)
    if monitor.flag("enabled"):
        yield from _long_timeout(monitor)
        yield from _useless_monitor(monitor)


def _long_timeout(monitor: Section) -> Iterator[Problem]:
    """A timeout that is longer than the interval; if no interval is set, than that of Prometheus."""
    path, interval, timeout = monitor.at("scrapeTimeout"), monitor.text("interval"), monitor.text("scrapeTimeout")
    waits, scrapes = _milliseconds(timeout), _milliseconds(interval)
    if waits and scrapes and waits > scrapes:
        error = f'scrapeTimeout "{timeout}" greater than scrapeInterval "{interval}"'
        text = f"{timeout} is longer than the interval; the Prometheus operator would drop the ServiceMonitor: {error}"
        yield Problem(path, text, f"write interval: {timeout} or more, or scrapeTimeout: {interval} or less")
    elif waits and not scrapes:
        prometheuses = monitor.change.facts.view.known_objects("Prometheus")
        own = [lookup(prometheus, ("spec", "scrapeInterval")) or "30s" for prometheus in prometheuses]
        shortest = min((found for text in own if (found := _milliseconds(text))), default=_USUAL_INTERVAL)
        whose = "the interval of Prometheus" if own else "30s, the usual interval of Prometheus"
        if waits > shortest:
            text = f"{timeout} is longer than {whose}, and no interval is set"
            yield Problem(path, text, f"write interval: {timeout} beside it", severity=Severity.WARN)


def _useless_monitor(monitor: Section) -> Iterator[Problem]:
    """A ServiceMonitor that is not created, that no Prometheus selects, or that repeats another."""
    facts, own = monitor.change.facts, _OWN_MONITORS[monitor.change.kind == "GPUCluster"]
    if facts.view.get("CustomResourceDefinition", _CRD) is None:
        text = f"has no effect, because the cluster has no {_CRD}; the operator creates no ServiceMonitor without it"
        yield Problem(monitor.at("enabled"), text, "install the Prometheus operator first", severity=Severity.WARN)
    labels = {"app": own, **monitor.mapping("additionalLabels")}
    wanted = [_wanted_labels(prometheus) for prometheus in facts.view.known_objects("Prometheus")]
    if wanted and all(selector and not selector.items() <= labels.items() for selector in wanted):
        missing = ", ".join(f"{key}: {value}" for key, value in wanted[0].items() if labels.get(key) != value)
        text = f"the ServiceMonitor lacks the label {missing}, by which Prometheus here selects ServiceMonitors"
        yield Problem(monitor.at(), text, f"write additionalLabels: {{{missing}}}", severity=Severity.WARN)
    for other in facts.view.known_objects("ServiceMonitor"):
        selector = lookup(other, ("spec", "namespaceSelector"))
        namespaces = items_at(selector, ("matchNames",)) or [namespace_of(other)]
        is_here = lookup(selector, ("any",)) is True or any(each in facts.operator_namespaces for each in namespaces)
        app = lookup(other, ("spec", "selector", "matchLabels", "app"))
        if app == own and is_here and name_of(other) not in _OWN_MONITORS:
            name = f"{namespace_of(other)}/{name_of(other)}".strip("/")
            text = f'the ServiceMonitor "{name}" scrapes the exporter already, so every series would exist twice'
            remedy = "delete that ServiceMonitor, or write enabled: false"
            yield Problem(monitor.at("enabled"), text, remedy, severity=Severity.WARN)


def _wanted_labels(prometheus: Object) -> dict[str, str]:
    """The labels that a ServiceMonitor needs for a Prometheus; empty if it needs none, or expressions."""
    selector = lookup(prometheus, ("spec", "serviceMonitorSelector"))
    labels = lookup(selector, ("matchLabels",))
    if not isinstance(labels, dict) or lookup(selector, ("matchExpressions",)):
        return {}
    return {key: value for key, value in labels.items() if isinstance(value, str)}


def _milliseconds(text: Any) -> int | None:
    """A duration as Prometheus writes it; None if it is not valid."""
    match = _DURATION.fullmatch(text) if isinstance(text, str) and text else None
    if match is None:
        return 0 if text == "0" else None
    return sum(int(number or 0) * unit for number, unit in zip(match.groups(), _MILLISECONDS, strict=True))
