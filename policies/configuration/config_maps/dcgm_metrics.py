"""Lists of DCGM metrics: the CSV as Go's encoding/csv reads it, their fields, and their types."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from policies.configuration.change import CONFIG_MAP
from policies.configuration.config_maps.roles import LABEL, LIST_KEY, Role, users
from policies.kubernetes.names import closest
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.objects import FieldPath, lookup, name_of
from policies.nvidia.dcgm_fields import BINARY, EXPORTER_FIELDS, FIELDS, STRINGS, meant_field
from policies.nvidia.identifiers import FAMILY_LABEL, PRODUCT_LABEL
from policies.rules.checks import Problem
from policies.rules.decision import Place, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change
    from policies.configuration.cluster_facts import Facts
    from policies.rules.decision import Finding


@dataclass(frozen=True, slots=True)
class CSVField:
    """One field of a record."""

    text: str
    line: int
    """1-based."""
    column: int
    """1-based, in characters, where the field begins; at its quote where it has one."""

    @property
    def trimmed(self) -> str:
        """The text without the spaces around it; tabs stay, as for the DCGM exporter."""
        return self.text.strip(" ")

    @property
    def place(self) -> tuple[int, int]:
        """Where the trimmed text begins."""
        return self.line, self.column + len(self.text) - len(self.text.lstrip(" "))


@dataclass(frozen=True, slots=True)
class CSVError:
    """A line that is not a record; Go's reader stops there."""

    line: int
    column: int
    reason: str
    """In Go's words."""

    def __str__(self) -> str:
        return f"parse error on line {self.line}, column {self.column}: {self.reason}"


_BARE_QUOTE = 'bare " in non-quoted field'
_LOOSE_QUOTE = 'extraneous or missing " in quoted-field'


def read_records(text: str) -> Iterator[list[CSVField] | CSVError]:
    """The records of a text, and an error for each invalid line; reading continues after it."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    position = 0
    while position < len(lines):
        line = lines[position].removesuffix("\r")
        if not line or line.startswith("#"):
            position += 1
            continue
        record, position = _read_record(lines, position)
        yield record


def _read_record(lines: list[str], first: int) -> tuple[list[CSVField] | CSVError, int]:
    """The record that begins on a line, and the line after it: quoted fields may go on over several."""
    fields: list[CSVField] = []
    position, line, start = first, lines[first].removesuffix("\r"), 0
    while True:
        if not line.startswith('"', start):
            end = line.find(",", start)
            text = line[start:] if end < 0 else line[start:end]
            if '"' in text:
                return CSVError(position + 1, start + text.index('"') + 1, _BARE_QUOTE), position + 1
            fields.append(CSVField(text, position + 1, start + 1))
        else:
            begin, parts, cursor = (position + 1, start + 1), [], start + 1
            while True:
                quote = line.find('"', cursor)
                if quote < 0:
                    if position + 1 == len(lines):
                        return CSVError(position + 1, len(line) + 1, _LOOSE_QUOTE), first + 1
                    parts.append(line[cursor:] + "\n")
                    position, cursor = position + 1, 0
                    line = lines[position].removesuffix("\r")
                    continue
                parts.append(line[cursor:quote])
                if not line.startswith('"', quote + 1):
                    break
                parts.append('"')
                cursor = quote + 2
            end = quote + 1 if quote + 1 < len(line) else -1
            if end >= 0 and line[end] != ",":
                return CSVError(position + 1, quote + 1, _LOOSE_QUOTE), first + 1
            fields.append(CSVField("".join(parts), *begin))
        if end < 0:
            return fields, position + 1
        start = end + 1


_TYPES = ("gauge", "counter", "histogram", "summary", "label")
_LINE = re.compile(r"^[ \t]*DCGM_(?:FI|EXP)_\w+[ \t]*,", re.MULTILINE)
_NAME = re.compile(r"DCGM_FI_[A-Z0-9_]+|dcgm_[a-z0-9_]+")
_LAST_XID = ("DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_XID_ERROR")
_PROFILING = "DCGM_FI_PROF_"
_UNPROFILED = ("kepler", "maxwell", "pascal")
"""Families of GPUs before Volta, the first whose engines DCGM can profile."""


def lists_of(change: Change) -> list[tuple[str, MetricsList]]:
    """The lists in a ConfigMap by key: the operator's key, and texts with lines like those of a list."""
    data = change.object.get("data")
    return [
        (key, MetricsList(FieldPath(["data", key]), text))
        for key, text in (data.items() if isinstance(data, dict) else ())
        if isinstance(text, str) and (key == LIST_KEY or _LINE.search(text))
    ]


@dataclass(frozen=True, slots=True)
class MetricsList:
    """One list, and where in the ConfigMap it is."""

    path: FieldPath
    text: str

    def read_problems(self) -> Iterator[Problem]:
        """The problems at which the exporter exits."""
        empty, expected = True, 0
        for record in read_records(self.text):
            empty = False
            if isinstance(record, CSVError):
                yield self._unreadable(record)
                continue
            expected = expected or len(record)
            if record[0].text.lstrip(" \t").startswith("#"):
                text = "is not a comment, because # is not in the first column, so it is read as a metric"
                yield self._at(record[0], text, "move # to the beginning of the line")
            elif len(record) != 3:
                yield self._count_problem(record, expected)
            else:
                yield from self._field_problems(*record)
        if empty:
            text = "lists no metric, so the exporter would serve none"
            yield self._problem(1, 1, text, 'add lines such as "DCGM_FI_DEV_GPU_UTIL, gauge, GPU utilization (in %)"')

    def value_problems(self, facts: Facts) -> Iterator[Problem]:
        """The problems of metrics that the exporter serves with wrong or missing values."""
        lines: dict[str, int] = {}
        profiling: list[CSVField] = []
        for record in read_records(self.text):
            if isinstance(record, CSVError) or len(record) != 3:
                continue
            name, kind = record[0].trimmed, record[1].trimmed
            if name in _LAST_XID and kind == "counter":
                text = f"{name} is the number of the last XID error and counts nothing, so rate() over it means nothing"
                yield self._at(record[1], text, "write gauge, or count errors with DCGM_EXP_XID_ERRORS_COUNT")
            if name in STRINGS and kind in _TYPES and kind != "label":
                text = f"the value of {name} is text, which no {kind} can have; Prometheus would not parse the metrics"
                yield self._at(record[1], text, "write label")
            if name in BINARY and kind in _TYPES:
                text = f"the value of {name} is binary; the exporter serves ERROR - FAILED TO CONVERT TO STRING instead"
                if kind != "label":
                    text += ", and Prometheus would not parse the metrics"
                yield self._at(record[0], text, "remove the line")
            if name in lines:
                text = f"{name} is listed in line {lines[name]} already; Prometheus would drop one of two equal samples"
                yield self._at(record[0], text, "remove one of the two lines")
            elif name:
                lines[name] = record[0].line
            if name.startswith(_PROFILING):
                profiling.append(record[0])
        nodes = facts.known_gpu_nodes()
        is_old = (
            each.get(FAMILY_LABEL) in _UNPROFILED or "GeForce" in each.get(PRODUCT_LABEL, "")
            for each in map(labels_of, nodes)
        )
        if profiling and nodes and all(is_old):
            where = f'node "{name_of(nodes[0])}" or of any other node here'
            missing = f"{len(profiling)} fields DCGM_FI_PROF_* are missing there"
            text = f"DCGM cannot profile the GPUs of {where}, so {missing}; the exporter would warn: metric not enabled"
            yield self._at(profiling[0], text, "remove the fields DCGM_FI_PROF_*")

    def _unreadable(self, error: CSVError) -> Problem:
        before = self.text.split("\n")[error.line - 1][: error.column - 1]
        spaced = before.endswith(" ") and before.rstrip(" ").endswith(",")
        reason = "a quote after a space does not begin a quoted text" if spaced else "has a quote in the wrong place"
        remedy = "remove the space before the quote" if spaced else "remove the quotes, or write each of them twice"
        return self._problem(error.line, error.column, f"{reason}; the exporter would exit with: {error}", remedy)

    def _count_problem(self, record: list[CSVField], expected: int) -> Problem:
        count, line = len(record), record[0].line
        error = f"record on line {line}: wrong number of fields"
        if count == expected:
            error = f"malformed CSV record; err: failed to parse line {line}, expected 3 fields"
        if count > 3:
            name, kind, *helps = (field.text for field in record)
            rest = ",".join(helps).strip(" ").replace('"', '""')
            text = f"has {count} fields, because each comma begins another one; the exporter would exit with: {error}"
            kind = kind.strip(" ")
            meant = kind if kind in _TYPES else closest(kind, _TYPES) or kind
            return self._at(record[3], text, f'write {name.strip(" ")},{meant},"{rest}"')
        typed = count == 2 and record[1].trimmed in _TYPES
        missing = "a help text" if typed else "a type, such as gauge, and a help text"
        text = f"has {count} field{'s' if count > 1 else ''} where 3 are needed; the exporter would exit with: {error}"
        return self._at(record[0], text, f"add {missing}")

    def _field_problems(self, name: CSVField, kind: CSVField, text: CSVField) -> Iterator[Problem]:
        yield from self._wrong_name(name, kind)
        is_name = name.trimmed in EXPORTER_FIELDS or _NAME.fullmatch(name.trimmed)
        if kind.trimmed not in _TYPES and is_name:
            guess = closest(kind.trimmed, _TYPES)
            remedy = f"write {guess}" if guess else f"write one of {', '.join(_TYPES)}"
            error = f"could not find Prometheus metric type '{kind.trimmed}'"
            found = f'"{kind.trimmed}" is not a type of metric; the exporter would exit with: {error}'
            if name.trimmed in EXPORTER_FIELDS:
                found = f'"{kind.trimmed}" is not a type of metric; Prometheus could not parse the metrics'
            yield self._at(kind, found, remedy)
        if "\n" in text.text:
            found = "the help text has more than one line, and Prometheus could not parse the metrics"
            yield self._at(text, found, "write it in one line")

    def _wrong_name(self, field: CSVField, kind: CSVField) -> Iterator[Problem]:
        name = field.trimmed
        if name in FIELDS or name in EXPORTER_FIELDS or name in BINARY:
            return
        error = f"could not find DCGM field; err: unknown ExporterCounter field '{name}'"
        text = f'"{name}" is not a field of DCGM; the exporter would exit with: {error}'
        if "DCGM_EXP_" in name.upper():
            guess = closest(name, EXPORTER_FIELDS)
            yield self._at(field, text, f"write {guess}" if guess else f"there are {', '.join(EXPORTER_FIELDS)}")
        elif guess := meant_field(name):
            yield self._at(field, text, f"write {guess}")
        elif not _NAME.fullmatch(name):
            header = kind.trimmed not in _TYPES
            yield self._at(field, text, "put # before the line" if header else "write the name of a field, DCGM_FI_...")
        else:
            unknown = f'"{name}" is not known here; if DCGM does not have it, the exporter exits'
            yield self._at(field, unknown, "look it up in DCGM's list of field identifiers", Severity.AUDIT)

    def _at(self, field: CSVField, text: str, remedy: str, severity: Severity | None = None) -> Problem:
        return self._problem(*field.place, text, remedy, severity)

    def _problem(self, line: int, column: int, text: str, remedy: str, severity: Severity | None = None) -> Problem:
        return Problem(self.path, text, remedy, severity=severity, place=Place(self.path, line, column))


_DATA = FieldPath(["data"])
_STANDALONE_KEY = "metrics"
"""The key that the exporter reads without the operator, if DCGM_EXPORTER_CONFIGMAP_DATA names the ConfigMap."""
_MOST = 50
"""The most problems of one list."""


def unread_reason(change: Change, finding: Finding) -> str:
    """The reason, as a clause, why no exporter reads what a finding is about; empty if one may."""
    facts = change.facts
    is_known = isinstance(facts.cluster_policy(), dict) or bool(facts.view.known_or_reviewed("GPUCluster"))
    if not change.is_read_by_operator or not is_known:
        return ""
    if not any(user.reference.role is Role.DCGM_METRICS for user in users(change)):
        return "nothing names this ConfigMap for the exporter, so nothing reads it yet"
    is_list = finding.rule is readable_list.rule and finding.path[1:2] != (LIST_KEY,)
    has_other = lookup(change.object, ("data", LIST_KEY)) is not None
    return f"the exporter reads {LIST_KEY} only" if is_list and has_other else ""


@CONFIG_MAP.rule(
    "GA162",
    "A list of metrics must be at the key dcgm-metrics.csv",
    remedy=f"name the key {LIST_KEY}",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go TransformDCGMExporter, "
    "manifests/state-dcgm-exporter/0700_daemonset.yaml; issues 1616, 648, 275",
    rows=("I-02", "S-04", "S-54"),
)
def list_key(change: Change) -> Iterator[Problem]:
    """The operator mounts one key of the ConfigMap, `dcgm-metrics.csv`, and no other.

    Without it the volume cannot be set up: the exporter's pods stay in ContainerCreating, on every GPU node, with
    "references non-existent config key". The names of the files in the exporter's own image and the key `metrics` of
    an exporter without the operator are often taken over. Lists in other namespaces are for exporters that are not the
    operator's, and mount any key they like.
    """
    parts = [lookup(change.object, (field,)) for field in ("data", "binaryData")]
    if any(isinstance(part, dict) and LIST_KEY in part for part in parts):
        return
    lists = [key for key, _ in lists_of(change)]
    is_named = any(user.reference.role is Role.DCGM_METRICS for user in users(change))
    certain = is_named or lookup(change.object, ("metadata", "labels", LABEL)) == Role.DCGM_METRICS
    if not certain and (lists in ([], [_STANDALONE_KEY]) or change.namespace not in change.facts.config_map_namespaces):
        return
    consequence = f"the exporter's pods would not start: references non-existent config key: {LIST_KEY}"
    severity = None if certain else Severity.WARN
    if lists:
        text = f"is not the key that the operator mounts; {consequence}"
        yield Problem(_DATA / lists[0], text, severity=severity)
    else:
        text = f"has no key {LIST_KEY}; {consequence}"
        yield Problem(_DATA, text, f"put the list of metrics under the key {LIST_KEY}", severity=severity)


@CONFIG_MAP.rule(
    "GA163",
    "A list of metrics must be readable by the exporter",
    remedy="write lines of three fields: DCGM field, type of metric, help text",
    source="github.com/NVIDIA/dcgm-exporter internal/pkg/counters/counter_config.go ReadCSVFile, ExtractCounters; "
    "go.dev/src/encoding/csv/reader.go",
    rows=("I-03",),
)
def readable_list(change: Change) -> Iterator[Problem]:
    """The exporter reads the list when it starts, and exits at the first line that is not valid.

    The running pods go on with the old list, so the mistake shows at the next restart, on every node at once, and all GPU
    metrics are gone. Help texts with a comma and comments that are indented are the usual causes.
    """
    for _, found in lists_of(change):
        yield from islice(found.read_problems(), _MOST)


@CONFIG_MAP.rule(
    "GA164",
    "Metrics must have the type of their values",
    default=Severity.WARN,
    remedy="write the type that fits",
    source="github.com/NVIDIA/dcgm-exporter internal/pkg/rendermetrics, internal/pkg/collector/gpu_collector.go; "
    "prometheus.io exposition formats",
    rows=("I-14", "S-27"),
)
def fitting_types(change: Change) -> Iterator[Problem]:
    """The exporter starts with such a line, and what it serves is wrong or missing.

    The value of XID_ERRORS is the number of the last error, so a rate over it means nothing. Text as the value of a
    metric, or a field that is listed twice, makes Prometheus drop samples. Profiling fields are skipped on GPUs that
    cannot be profiled.
    """
    for _, found in lists_of(change):
        yield from islice(found.value_problems(change.facts), _MOST)
