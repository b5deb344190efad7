"""Names: configurations that a node can select, and the one that nodes get by default."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.configuration.config_maps.mig_parted.documents import MIG_FILE, MIGFile
from policies.configuration.config_maps.mig_parted.reading import CONFIGS
from policies.decision import Severity
from policies.kubernetes.names import is_label_value
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.checks import Problem

DEFAULT = "all-disabled"
"""What the operator labels nodes with where `migManager.config.default` is not empty: no other name is allowed."""


@MIG_FILE.rule(
    "GA153",
    "MIG configurations must have names that nodes can select, and include the default one",
    default=Severity.DENY,
    remedy=f"add {DEFAULT} with - devices: all and mig-enabled: false",
    source="github.com/NVIDIA/gpu-operator controllers/state_manager.go",
    rows=("H-04", "H-07"),
)
def selectable_names(file: MIGFile) -> Iterator[Problem]:
    """Every MIG-capable node that nobody labelled gets `nvidia.com/mig.config: all-disabled` from the operator.

    Where a ConfigMap of one's own lacks that name, all these nodes go to `nvidia.com/mig.config.state: failed`. A name that cannot be the value of a label can never be selected.
    """
    for name in file.configs:
        if not is_label_value(name) or not name:
            text = "cannot be the value of the label nvidia.com/mig.config, so no node can select it"
            remedy = "name it with at most 63 letters, digits, dashes, underscores and dots"
            yield file.problem((CONFIGS, name), text, remedy, severity=Severity.WARN, of_key=True)
    if not file.configs or DEFAULT in file.configs:
        return
    change = file.change
    config = change.facts.policy_value("migManager", "config")
    used = isinstance(config, dict) and config.get("name") == change.name
    if used and config.get("default", DEFAULT) == "":
        return
    text = f"has no {DEFAULT}, which the operator labels nodes with unless migManager.config.default is empty"
    if change.facts.cluster_policy() is UNKNOWN:
        text += "; whether the ClusterPolicy names this ConfigMap is not known here"
    yield file.problem((CONFIGS,), text, severity=None if used else Severity.WARN, of_key=True)
