"""MIG configurations that nodes select by `nvidia.com/mig.config`, and their effect on GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.nvidia.mig_configs import configs_of, shipped_entries
from policies.nvidia.mig_products import node_product, shipped_configs
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from policies.configuration.facts import Facts
    from policies.nvidia.mig_configs import Configs, Entry

__all__ = ["SelectableConfigs", "configs_named", "selectable_configs", "unfit_for_single"]

_SHIPPED = "default-mig-parted-config"


@dataclass(frozen=True, slots=True)
class SelectableConfigs:
    """The configurations among which a node can choose."""

    configs: Configs
    """Those whose entries are known."""
    names: frozenset[str]
    """Those that are known to exist."""
    config_map: str = ""
    """The ConfigMap of the administrator's own, where the ClusterPolicy names one."""
    missing: str = ""
    """What would have to be known to tell all names, as the end of a sentence; empty where they are known."""

    def entries(self, name: str, labels: Mapping[str, str]) -> Sequence[Entry]:
        """The entries of a configuration for the GPUs of a node; empty if it or the GPU is unknown."""
        product = node_product(labels)
        if name in self.configs:
            entries = self.configs[name]
            return [entry for entry in entries if entry.is_for(product)] if product else _for_any(entries)
        if self.config_map or name not in shipped_configs():
            return ()
        return shipped_entries(name, product)


def _for_any(entries: Sequence[Entry]) -> Sequence[Entry]:
    return [entry for entry in entries if not entry.filters]


def selectable_configs(facts: Facts, node: str = "") -> SelectableConfigs:
    """The configurations that a node can select, as far as they are known.

    Where the ClusterPolicy is not known, those that the operator brings.
    """
    policy = facts.cluster_policy()
    if not isinstance(policy, dict):
        said = "no ClusterPolicy is known here" if policy is None else "the ClusterPolicy is not known here"
        return SelectableConfigs({}, shipped_configs(), missing=said)
    name = facts.policy_value("migManager", "config", "name")
    return configs_named(facts, name if isinstance(name, str) else "", node)


def configs_named(facts: Facts, name: str, node: str = "") -> SelectableConfigs:
    """The configurations that a node can select if the ClusterPolicy names this ConfigMap, or none.

    Without one, the MIG manager makes a ConfigMap for each node since 26.3; before that it used the same for all.

    Source: github.com/NVIDIA/gpu-operator assets/state-mig-manager; github.com/NVIDIA/mig-parted.
    """
    if name:
        config_map = facts.operator_object("ConfigMap", name)
        configs = configs_of(config_map) if isinstance(config_map, dict) else None
        if configs is not None:
            return SelectableConfigs(configs, frozenset(configs), name)
        said = "is not known here" if config_map is UNKNOWN else "cannot be read" if config_map else "does not exist"
        return SelectableConfigs({}, frozenset(), name, f'the ConfigMap "{name}" {said}')
    made = facts.operator_object("ConfigMap", f"{node}-mig-config") if node else None
    configs = configs_of(made) if isinstance(made, dict) else None
    if configs is not None:
        return SelectableConfigs(configs, frozenset(configs))
    shared = facts.operator_object("ConfigMap", _SHIPPED)
    configs = (configs_of(shared) if isinstance(shared, dict) else None) or {}
    said = "what the MIG manager makes for this node is not known here"
    return SelectableConfigs(configs, shipped_configs() | frozenset(configs), missing=said)


def unfit_for_single(entries: Sequence[Entry]) -> str | None:
    """Why the device plugin does not serve a node with these entries under the strategy "single".

    Source: github.com/NVIDIA/k8s-device-plugin internal/rm/device_map.go.
    """
    cut = [entry for entry in entries if entry.is_mig_enabled]
    profiles = sorted({profile for entry in cut for profile in entry.counts})
    if len(profiles) > 1:
        made = ", ".join(map(str, profiles))
        return f"makes {made}; the device plugin would exit with: more than one MIG device type present on node"
    if cut and len(cut) < len(entries):
        error = "all devices on the node must be configured with the same migEnabled value"
        return f"cuts some GPUs and leaves others whole; the device plugin would exit with: {error}"
    return None
