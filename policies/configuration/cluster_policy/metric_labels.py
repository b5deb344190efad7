"""Labels of metrics: what the exporter adds to them from HPC jobs and from pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.configuration.cluster_policy.monitoring import exports_metrics
from policies.configuration.components import COMPONENTS
from policies.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change

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
