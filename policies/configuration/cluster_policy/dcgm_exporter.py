"""The DCGM exporter and its host engine: `spec.dcgmExporter` and `spec.dcgm`, also of a GPUCluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.checks import Problem, problem
from policies.configuration.checks import COMPONENTS
from policies.decision import Severity
from policies.kubernetes.paths import lookup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change

__all__ = ["exports_metrics"]

_EXPORTER = "dcgmExporter"
_LIST_KEY = "dcgm-metrics.csv"
_ENGINE = "DCGM_REMOTE_HOSTENGINE_INFO"
_OWN_ENGINES = ("nvidia-dcgm", "nvidia-dcgm-dra")
"""The Services of the host engine that the operator deploys for a ClusterPolicy, and for a GPUCluster."""
_OWN_NODE = ("localhost", "127.0.0.1", "[::1]")


def exports_metrics(change: Change) -> bool:
    """Whether the operator deploys the DCGM exporter with what the change says of it."""
    return isinstance(change.value(_EXPORTER), dict) and change.flag(_EXPORTER, "enabled", default=True)


@COMPONENTS.rule(
    "GA158",
    "The metrics list of the exporter must exist",
    default=Severity.DENY,
    remedy="create the ConfigMap in the operator's namespace first",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go TransformDCGMExporter",
    rows=("I-01", "I-02"),
)
def metrics_list_exists(change: Change) -> Iterator[Problem]:
    """The exporter's pods mount the key `dcgm-metrics.csv` of this ConfigMap, from the operator's namespace.

    Where the ConfigMap or the key is missing they stay in ContainerCreating on every GPU node, and there are no GPU
    metrics. The operator itself reports nothing but a state that is not ready.
    """
    name = change.text(_EXPORTER, "config", "name")
    if not name or not exports_metrics(change):
        return
    path = change.at(_EXPORTER, "config", "name")
    found = change.facts.operator_object("ConfigMap", name)
    spaces = " or ".join(change.facts.operator_namespaces)
    if found is None:
        text = (
            f'there is no ConfigMap "{name}" in {spaces}; the exporter\'s pods would not start: '
            f'configmap "{name}" not found'
        )
        yield problem(path, text)
    elif isinstance(found, dict) and not any(_LIST_KEY in _keys(found, field) for field in ("data", "binaryData")):
        there = ", ".join(_keys(found, "data")) or "none"
        text = (
            f'the ConfigMap "{name}" has no key {_LIST_KEY} (it has {there}); the exporter\'s pods would not start: '
            f"references non-existent config key: {_LIST_KEY}"
        )
        yield problem(path, text, f"name the key {_LIST_KEY} in the ConfigMap")


def _keys(config_map: dict[str, Any], field: str) -> list[str]:
    value = config_map.get(field)
    return [key for key in value if isinstance(key, str)] if isinstance(value, dict) else []


@COMPONENTS.rule(
    "GA159",
    "The exporter must read a host engine that runs",
    default=Severity.WARN,
    remedy="write dcgm.enabled: false, or remove the variable",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go TransformDCGMExporter",
    rows=("I-04", "I-05", "I-06"),
)
def one_host_engine(change: Change) -> Iterator[Problem]:
    """In a ClusterPolicy an omitted `dcgm.enabled` means true: the operator deploys a host engine of its own.

    The exporter is pointed at it, but a variable of the exporter comes after that and wins: then two host engines watch
    the same GPUs, and one of them for nobody. A host engine of the node itself is reached by localhost, for which the
    exporter needs the node's network; the operator gives it that only by `hostNetwork`.
    """
    if not exports_metrics(change):
        return
    for index, variable in enumerate(change.items(_EXPORTER, "env")):
        value = lookup(variable, ("value",))
        if lookup(variable, ("name",)) != _ENGINE or not isinstance(value, str) or not value:
            continue
        path = change.at(_EXPORTER, "env", index, "value")
        if _deploys_engine(change):
            if value.partition(":")[0].partition(".")[0] not in _OWN_ENGINES:
                unset = change.value("dcgm", "enabled") is None
                why = "dcgm.enabled is true" + (", which it is when it is not set" if unset else "")
                text = (
                    f'"{value}" is not the host engine that the operator deploys, because {why}; nobody would read that'
                )
                yield problem(path, text)
        elif value.startswith(_OWN_NODE) and not change.flag(_EXPORTER, "hostNetwork"):
            host = value.rpartition(":")[0] or value
            text = (
                f'"{value}" is the pod itself without hostNetwork, and no host engine runs in it; the exporter could '
                f"not connect to {host}"
            )
            yield problem(path, text, "write hostNetwork: true in dcgmExporter", severity=Severity.DENY)


def _deploys_engine(change: Change) -> bool:
    """Whether a host engine is deployed; a GPUCluster has to ask for it, a ClusterPolicy gets it unasked."""
    return change.flag("dcgm", "enabled", default=change.kind == "ClusterPolicy")


_JOBS = ("dcgmExporter", "hpcJobMapping")
_ALLOWED = ("dcgmExporter", "podLabelAllowlistRegex")
_NOT_IN_RE2 = {
    "(?=": "a lookahead",
    "(?!": "a lookahead",
    "(?<=": "a lookbehind",
    "(?<!": "a lookbehind",
    "(?>": "an atomic group",
}
_QUANTIFIERS = "*+?"


@COMPONENTS.rule(
    "GA161",
    "The exporter must be able to add the labels of jobs and pods that are configured",
    default=Severity.DENY,
    remedy="write an absolute path such as /var/lib/dcgm-exporter/job-mapping",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go TransformDCGMExporter; "
    "github.com/NVIDIA/dcgm-exporter internal/pkg/transformation/kubernetes.go; github.com/google/re2 Syntax",
    rows=("I-07", "I-08", "I-15"),
)
def labels_of_metrics(change: Change) -> Iterator[Problem]:
    """The directory of job files is mounted from the node, so it must be absolute; pods with another one do not start.

    Patterns of pod labels are joined by commas and taken apart at commas. The exporter skips a pattern that it cannot
    compile, and with none left it adds every label of every pod: Prometheus gets far too many series.
    """
    if not exports_metrics(change):
        return
    yield from _job_mapping(change)
    patterns = change.items(*_ALLOWED)
    for index, pattern in enumerate(patterns):
        if isinstance(pattern, str) and (found := _broken(pattern)):
            yield problem(change.at(*_ALLOWED, index), *found)
    if patterns and not change.flag("dcgmExporter", "enablePodLabels") and not _labels_by_variable(change):
        text = "has no effect, because enablePodLabels is not true"
        yield problem(change.at(*_ALLOWED), text, "write enablePodLabels: true beside it", severity=Severity.WARN)


def _job_mapping(change: Change) -> Iterator[Problem]:
    directory, path = change.text(*_JOBS, "directory"), change.at(*_JOBS, "directory")
    if not directory:
        return
    if not change.flag(*_JOBS, "enabled"):
        text = "has no effect, because hpcJobMapping.enabled is not true"
        yield problem(path, text, "write enabled: true beside it, or remove it", severity=Severity.WARN)
    elif not directory.startswith("/"):
        yield problem(
            path, f'"{directory}" is not absolute, so the exporter\'s pods could not mount it and would not start'
        )
    elif ".." in directory.split("/"):
        text = f'"{directory}" goes up by "..", so the API server would refuse the exporter\'s pods: must not contain \'..\''
        yield problem(path, text, "write the path without ..")


def _labels_by_variable(change: Change) -> bool:
    variables = [item for item in change.items("dcgmExporter", "env") if isinstance(item, dict)]
    name = "DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS"
    return any(item.get("name") == name and item.get("value") in ("true", "1") for item in variables)


def _broken(pattern: str) -> tuple[str, str] | None:
    """Why a pattern does not do what it says, and what to write; None where nothing is wrong that is seen here."""
    log = "the exporter would warn: Failed to compile pod label allowlist regex pattern, skipping"
    for form, name in _NOT_IN_RE2.items():
        if form in pattern:
            return f'"{pattern}" has {name}, which Go\'s regular expressions do not have; {log}', "write it without"
    if pattern[:1] and pattern[0] in _QUANTIFIERS:
        return f'"{pattern}" repeats nothing; {log}', f'write ".{pattern}"'
    return _unbalanced(pattern, log)


def _unbalanced(pattern: str, log: str) -> tuple[str, str] | None:
    """Brackets that are not closed, and commas within them, where the exporter takes patterns apart."""
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
            return f'"{pattern}" has a ) too many; {log}', "remove it, or write \\)"
        elif character in ")}" and not in_class and opened:
            opened.pop()
        elif character == "," and opened:
            text = (
                f'"{pattern}" has a comma, where the exporter takes patterns apart, so it would be two other patterns'
            )
            return text, "write it without the comma, as several patterns where needed"
    if escaped or "[" in opened or "(" in opened:
        what = "ends in a \\" if escaped else f"has a {opened[0]} that is not closed"
        return f'"{pattern}" {what}; {log}', "close it, or write it with a \\ before it"
    return None
