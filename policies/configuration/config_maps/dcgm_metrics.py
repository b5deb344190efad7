"""DCGM exporter ConfigMaps: the metrics it collects, as CSV."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from policies.checks import Checks, Problem, problem
from policies.configuration.config_maps.metrics_list import LIST_KEY, lists_of
from policies.configuration.config_maps.references import Role, users
from policies.configuration.config_maps.roles import LABEL
from policies.decision import Severity
from policies.kubernetes.paths import FieldPath, lookup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change

__all__ = ["DCGM_METRICS"]

DCGM_METRICS: Checks[Change] = Checks()

_DATA = FieldPath(["data"])
_STANDALONE_KEY = "metrics"
"""What the exporter reads where it is told a ConfigMap by DCGM_EXPORTER_CONFIGMAP_DATA, without the operator."""
_MOST = 50
"""Problems of one list that are told; more help nobody."""


@DCGM_METRICS.rule(
    "GA162",
    "A list of metrics must be at the key dcgm-metrics.csv",
    default=Severity.DENY,
    remedy=f"name the key {LIST_KEY}",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go MetricsConfigFileName; issues 1616, 648, 275",
    rows=("I-02", "S-04", "S-54"),
)
def list_key(change: Change) -> Iterator[Problem]:
    """The operator mounts one key of the ConfigMap, `dcgm-metrics.csv`, and no other.

    Without it the volume cannot be set up: the exporter's pods stay in ContainerCreating, on every GPU node, with
    "references non-existent config key". The names of the files in the exporter's own image and the key `metrics` of
    an exporter without the operator are often taken over. Lists in other namespaces are for exporters that are not the
    operator's, and mount any key they like.
    """
    if change.deleted or any(LIST_KEY in _keys(change, field) for field in ("data", "binaryData")):
        return
    lists = [key for key, _ in lists_of(change)]
    certain = _is_named(change) or lookup(change.object, ("metadata", "labels", LABEL)) == Role.DCGM_METRICS
    if not certain and (lists in ([], [_STANDALONE_KEY]) or change.namespace not in change.facts.operator_namespaces):
        return
    consequence = f"the exporter's pods would not start: references non-existent config key: {LIST_KEY}"
    severity = None if certain else Severity.WARN
    if lists:
        text = f"is not the key that the operator mounts; {consequence}"
        yield problem(_DATA / lists[0], text, severity=severity)
    else:
        text = f"has no key {LIST_KEY}; {consequence}"
        yield problem(_DATA, text, f"put the list of metrics under the key {LIST_KEY}", severity=severity)


def _keys(change: Change, field: str) -> dict[str, object]:
    value = change.object.get(field)
    return value if isinstance(value, dict) else {}


def _is_named(change: Change) -> bool:
    return any(user.reference.role is Role.DCGM_METRICS for user in users(change))


@DCGM_METRICS.rule(
    "GA163",
    "A list of metrics must be readable by the exporter",
    default=Severity.DENY,
    remedy="write lines of three fields: DCGM field, type of metric, help text",
    source="github.com/NVIDIA/dcgm-exporter internal/pkg/counters/counter_config.go; go.dev/src/encoding/csv/reader.go",
    rows=("I-03",),
)
def readable_list(change: Change) -> Iterator[Problem]:
    """The exporter reads the list once, when it starts, and exits at the first line that it does not understand.

    The running pods go on with the old list, so the mistake shows at the next restart, on every node at once, and all GPU
    metrics are gone. Help texts with a comma and comments that are indented are the usual causes.
    """
    if not change.deleted:
        for _, found in lists_of(change):
            yield from islice(found.broken(), _MOST)


@DCGM_METRICS.rule(
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
    if not change.deleted:
        for _, found in lists_of(change):
            yield from islice(found.doubtful(change.facts), _MOST)
