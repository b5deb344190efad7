"""What a ConfigMap is for, as far as GPUs are concerned.

A ConfigMap is ours to judge when the ClusterPolicy names it, or when it says so itself by a label. Offline there may be
no ClusterPolicy among the files; then its content tells.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from policies.kubernetes.paths import lookup
from policies.kubernetes.yaml import YAMLError, load_document

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change
    from policies.kubernetes.objects import Object

__all__ = ["LABEL", "Role", "roles_of"]

LABEL = "gpu-admission.io/config"


class Role(StrEnum):
    """What reads the ConfigMap."""

    DEVICE_PLUGIN = "device-plugin"
    MIG_PARTED = "mig-parted"
    DCGM_METRICS = "dcgm-metrics"


_METRIC = re.compile(r"^\s*DCGM_(?:FI|EXP)_\w+\s*,\s*(?:gauge|counter|histogram|summary|label)\s*,", re.MULTILINE)
"""A line of the exporter's CSV; dashboards and alerts name the fields too."""

_NAMED_BY = {
    Role.DEVICE_PLUGIN: ("devicePlugin", "config", "name"),
    Role.MIG_PARTED: ("migManager", "config", "name"),
    Role.DCGM_METRICS: ("dcgmExporter", "config", "name"),
}


def roles_of(change: Change, *, by_content: bool) -> set[Role]:
    """The roles of a ConfigMap; `by_content` where nobody else could tell, as offline."""
    roles = {Role(label) for label in [_label(change.object)] if label in list(Role)}
    if change.namespace in change.facts.operator_namespaces:
        roles |= {role for role, steps in _NAMED_BY.items() if change.facts.policy_value(*steps) == change.name}
    return roles or (set(_by_content(change.object)) if by_content else set())


def _label(document: Object) -> Any:
    return lookup(document, ("metadata", "labels", LABEL))


def _by_content(document: Object) -> Iterator[Role]:
    data = document.get("data")
    for key, text in data.items() if isinstance(data, dict) else ():
        if not isinstance(text, str):
            continue
        if key == "dcgm-metrics.csv" or _METRIC.search(text):
            yield Role.DCGM_METRICS
            continue
        try:
            value = load_document(text).value
        except YAMLError:
            continue
        if isinstance(value, dict) and "mig-configs" in value:
            yield Role.MIG_PARTED
        elif (
            isinstance(value, dict)
            and isinstance(value.get("sharing"), dict)
            and {"timeSlicing", "mps"} & set(value["sharing"])
        ):
            yield Role.DEVICE_PLUGIN
