"""MIG configurations that nodes select by `nvidia.com/mig.config`, and their effect on GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from policies.fleet.offers.hardware import Cut
from policies.fleet.offers.offer import cut_refusal
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.mig_configs import configs_of, shipped_entries
from policies.nvidia.mig_parted import apply_on_node
from policies.nvidia.mig_products import node_product, shipped_configs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from policies.configuration.facts import Facts
    from policies.nvidia.mig_configs import Configs, Entry

__all__ = ["PluginRefusal", "SelectableConfigs", "configs_named", "plugin_refusal_of", "selectable_configs"]

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
    """The facts that are missing to name all configurations, as the end of a sentence; empty if none is missing."""

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

    If the ClusterPolicy is unknown, those that the operator ships.
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


class PluginRefusal(NamedTuple):
    """The reason for which the device plugin would exit on a node with a MIG configuration."""

    text: str
    """The end of a sentence about the configuration."""
    is_certain: bool
    """False if the plugin starts where some GPUs are cut otherwise: by hand, or as they are now."""


def plugin_refusal_of(entries: Sequence[Entry], labels: Mapping[str, str], strategy: str) -> PluginRefusal | None:
    """The reason for which the device plugin exits on a node with these entries; None if it starts.

    None as well if mig-parted does not apply the entries as they are written.
    """
    run = apply_on_node(entries, labels)
    if run.error is not None or run.ignored:
        return None
    by_gpu = [state.devices if state.is_mig_enabled else None for state in run.states]
    cut = Cut.of(by_gpu)
    words = cut_refusal(len(by_gpu), cut, strategy)
    if not words:
        return None
    empty = cut.first_empty_gpu(len(by_gpu))
    if strategy == "single" and empty is not None:
        made = f"enables MIG on GPU {empty} and makes no devices there"
    elif strategy == "single" and len(cut.devices) == 1:
        made = "cuts some GPUs and leaves others whole"
    else:
        made = f"makes {', '.join(map(str, sorted(cut.devices)))}"
    named = [number for number in range(len(by_gpu)) if any(entry.is_for_number(number) for entry in entries)]
    return PluginRefusal(
        f"{made}; the device plugin would exit with: {words}", empty is None and len(named) == len(by_gpu)
    )
