"""Labels and annotations that ClusterPolicy, GPUCluster and NVIDIADriver put on what they deploy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.checks import Problem, problem
from policies.configuration.components.checks import COMPONENTS
from policies.decision import Severity
from policies.kubernetes.names import is_label_key, is_label_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change

_POLICY_LABELS = (
    ("daemonsets", "labels"),
    ("dcgmExporter", "serviceMonitor", "additionalLabels"),
    ("operator", "labels"),
    ("operator", "metrics", "serviceMonitor", "additionalLabels"),
)
_POLICY_ANNOTATIONS = (("daemonsets", "annotations"), ("dcgmExporter", "annotations"), ("operator", "annotations"))
_RESERVED = ("app", "app.kubernetes.io/part-of")
"""Labels by which the operator finds its pods, and which it therefore does not let anybody change."""


@COMPONENTS.rule(
    "GA177",
    "Labels and annotations of operands must be valid and take effect",
    default=Severity.DENY,
    remedy="write a name of at most 63 letters, digits, -, _ and ., with a DNS name and a slash before it if need be",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go, k8s.io/apimachinery pkg/util/validation",
    rows=("E-20", "E-21"),
)
def pod_metadata(change: Change) -> Iterator[Problem]:
    """The resource takes any text; the API server refuses the DaemonSet, Service or ServiceMonitor that gets it.

    One bad key on `daemonsets` refuses every operand. The labels by which the operator finds its pods, `app` and
    `app.kubernetes.io/part-of`, are silently left out.
    """
    own = change.kind == "NVIDIADriver"
    for steps in (("labels",),) if own else _POLICY_LABELS:
        for key, value in change.mapping(*steps).items():
            path = change.at(*steps, key)
            if not is_label_key(key):
                yield problem(path, f'"{key}" cannot be the key of a label')
            elif isinstance(value, str) and not is_label_value(value):
                text = f'"{value}" cannot be the value of a label'
                yield problem(path, text, "write at most 63 letters, digits, -, _ and ., or make it an annotation")
            elif steps == ("daemonsets", "labels") and key in _RESERVED:
                text = "is left out by the operator, which finds its pods by this label"
                yield problem(path, text, "remove it, or use a key of your own", severity=Severity.WARN)
    for steps in (("annotations",),) if own else _POLICY_ANNOTATIONS:
        for key in change.mapping(*steps):
            if not _is_annotation_key(key):
                yield problem(change.at(*steps, key), f'"{key}" cannot be the key of an annotation')


def _is_annotation_key(key: Any) -> bool:
    """Whether it can be; unlike a label's, the DNS name in it may have capitals."""
    return isinstance(key, str) and is_label_key(key.lower())
