"""The DCGM exporter and its host engine: `spec.dcgmExporter` and `spec.dcgm`, also of a GPUCluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.configuration.checks import COMPONENTS, WITH_OPERANDS
from policies.configuration.config_maps.references import LIST_KEY
from policies.configuration.operator_objects import check_object
from policies.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change, Section

__all__ = ["exports_metrics"]

_EXPORTER = "dcgmExporter"
_POD_LABELS = "DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS"
_ENGINE = "DCGM_REMOTE_HOSTENGINE_INFO"
_OWN_ENGINES = ("nvidia-dcgm", "nvidia-dcgm-dra")
"""The Services of the host engine that the operator deploys for a ClusterPolicy, and for a GPUCluster."""
_OWN_NODE = ("localhost", "127.0.0.1", "[::1]")


def exports_metrics(change: Change) -> bool:
    """True if the operator deploys the DCGM exporter with the settings of this object."""
    return isinstance(change.value(_EXPORTER), dict) and change.flag(_EXPORTER, "enabled", default=True)


@COMPONENTS.rule(
    "GA158",
    "The metrics list of the exporter must exist",
    default=Severity.DENY,
    remedy="create the ConfigMap in the operator's namespace first",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go TransformDCGMExporter",
    rows=("I-01", "I-02"),
    kinds=WITH_OPERANDS,
)
def metrics_list_exists(change: Change) -> Iterator[Problem]:
    """The exporter's pods mount the key `dcgm-metrics.csv` from the operator's namespace.

    If the ConfigMap or the key is missing, the pods stay in ContainerCreating on every GPU node, and there are no GPU
    metrics. The operator itself only reports a state that is not ready.
    """
    if exports_metrics(change):
        consequence = "the exporter's pods would not start"
        yield from check_object(change, change.at(_EXPORTER, "config", "name"), "ConfigMap", consequence, [LIST_KEY])


@COMPONENTS.rule(
    "GA159",
    "The exporter must read a host engine that runs",
    default=Severity.WARN,
    remedy="write dcgm.enabled: false, or remove the variable",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go TransformDCGMExporter",
    rows=("I-04", "I-05", "I-06"),
    kinds=WITH_OPERANDS,
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
            yield problem(path, f'"{value}" is not the host engine that the operator deploys, because {why}')
        elif not deploys_engine and value.startswith(_OWN_NODE) and not change.flag(_EXPORTER, "hostNetwork"):
            host = value.rpartition(":")[0] or value
            text = f'"{value}" is the pod itself without hostNetwork; the exporter could not connect to {host}'
            yield problem(path, text, "write hostNetwork: true in dcgmExporter", severity=Severity.DENY)


_NOT_IN_RE2 = {
    "(?=": "a lookahead",
    "(?!": "a lookahead",
    "(?<=": "a lookbehind",
    "(?<!": "a lookbehind",
    "(?>": "an atomic group",
}
_SKIPPED = "the exporter would warn: Failed to compile pod label allowlist regex pattern, skipping"


@COMPONENTS.rule(
    "GA161",
    "The exporter must be able to add the labels of jobs and pods that are configured",
    default=Severity.DENY,
    remedy="write an absolute path such as /var/lib/dcgm-exporter/job-mapping",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go TransformDCGMExporter; "
    "github.com/NVIDIA/dcgm-exporter internal/pkg/transformation/kubernetes.go; github.com/google/re2 Syntax",
    rows=("I-07", "I-08", "I-15"),
    kinds=WITH_OPERANDS,
)
def labels_of_metrics(change: Change) -> Iterator[Problem]:
    """The directory of job files is mounted from the node; if it is not absolute, pods do not start.

    Patterns of pod labels are joined by commas and split at commas. The exporter skips a pattern that it cannot compile,
    and if none is left it adds every label of every pod: Prometheus gets far too many series.
    """
    if not exports_metrics(change):
        return
    exporter = change.section(_EXPORTER)
    yield from _job_mapping(exporter)
    patterns = exporter.items("podLabelAllowlistRegex")
    for index, pattern in enumerate(patterns):
        if isinstance(pattern, str) and (found := _pattern_problem(pattern)):
            yield problem(exporter.at("podLabelAllowlistRegex", index), *found)
    by_variable = any(name == _POD_LABELS and value in ("true", "1") for _, name, value in exporter.variables("env"))
    if patterns and not exporter.flag("enablePodLabels") and not by_variable:
        text, remedy = "has no effect, because enablePodLabels is not true", "write enablePodLabels: true beside it"
        yield problem(exporter.at("podLabelAllowlistRegex"), text, remedy, severity=Severity.WARN)


def _job_mapping(exporter: Section) -> Iterator[Problem]:
    directory, path = exporter.text("hpcJobMapping", "directory"), exporter.at("hpcJobMapping", "directory")
    if directory and not exporter.flag("hpcJobMapping", "enabled"):
        text = "has no effect, because hpcJobMapping.enabled is not true"
        yield problem(path, text, "write enabled: true beside it, or remove it", severity=Severity.WARN)
    elif directory and not directory.startswith("/"):
        yield problem(path, f'"{directory}" is not absolute, so the exporter\'s pods could not mount it')
    elif ".." in directory.split("/"):
        text = (
            f'"{directory}" contains "..", so the API server would refuse the exporter\'s pods: must not contain \'..\''
        )
        yield problem(path, text, "write the path without ..")


def _pattern_problem(pattern: str) -> tuple[str, str] | None:
    """Why a pattern does not work, and the remedy; None if no problem is found."""
    for form, name in _NOT_IN_RE2.items():
        if form in pattern:
            return (
                f'"{pattern}" has {name}, which Go\'s regular expressions do not have; {_SKIPPED}',
                "write it without",
            )
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
