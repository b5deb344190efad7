"""MIG: `spec.mig` and `spec.migManager`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from policies.checks import Problem, problem
from policies.configuration.checks import CLUSTER_POLICY
from policies.configuration.config_maps.mig_parted.entries import configs_of
from policies.configuration.mig_configs import WHOLE, configs_named, unfit_for_single
from policies.configuration.usage import listed, the_nodes
from policies.decision import Severity
from policies.fleet.device_plugin import runs_device_plugin
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import lookup
from policies.nvidia.identifiers import MIG_CONFIG_LABEL
from policies.nvidia.mig_products import is_capable
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change
    from policies.kubernetes.objects import Object


class _Mounted(NamedTuple):
    field: str
    file: str


_CONFIG = _Mounted("config", "config.yaml")
_MOUNTED = (_CONFIG, _Mounted("gpuClientsConfig", "clients.yaml"))
"""What of `migManager` names a ConfigMap, and the file that is mounted from it."""
_DEFAULT = "all-disabled"


@CLUSTER_POLICY.rule(
    "GA146",
    "ConfigMaps of the MIG manager must exist and have the files that it reads",
    default=Severity.DENY,
    remedy="make the ConfigMap first",
    source="github.com/NVIDIA/gpu-operator assets/state-mig-manager, controllers/object_controls.go",
    rows=("H-03", "H-04", "H-10"),
)
def mounted_files(change: Change) -> Iterator[Problem]:
    """The pods of the MIG manager wait in ContainerCreating for a ConfigMap or a file that is not there.

    Nodes without a label get `nvidia.com/mig.config: all-disabled` from the operator, so a ConfigMap of one's own needs
    that name too. ConfigMaps that nobody knows here are not judged; they are when they are applied.
    """
    if change.deleted or not change.flag("migManager", "enabled", default=True):
        return
    for mounted in _MOUNTED:
        name = change.text("migManager", mounted.field, "name")
        config_map = change.facts.operator_object("ConfigMap", name) if name else UNKNOWN
        path = change.at("migManager", mounted.field, "name")
        if config_map is None:
            text = (
                f'"{name}" is no ConfigMap in {" or ".join(change.facts.operator_namespaces)}; the pods would not start'
            )
            yield problem(path, text, f'make the ConfigMap "{name}" first, with the key {mounted.file}')
        elif config_map is not UNKNOWN:
            yield from _content(change, mounted, name, config_map)


def _content(change: Change, mounted: _Mounted, name: str, config_map: Object) -> Iterator[Problem]:
    path = change.at("migManager", mounted.field, "name")
    data = lookup(config_map, ("data",))
    keys = [key for key in data if isinstance(key, str)] if isinstance(data, dict) else []
    if mounted.file not in keys:
        has = f"has {listed(keys)}" if keys else "has no data"
        text = f'"{name}" {has} and no {mounted.file}, which is the file that the MIG manager reads'
        yield problem(path, text, f'rename the key in the ConfigMap "{name}" to {mounted.file}')
        return
    configs = configs_of(config_map) if mounted == _CONFIG else None
    chosen = change.value("migManager", "config", "default")
    if configs and _DEFAULT not in configs and chosen in (None, _DEFAULT):
        text = f'"{name}" has {listed(sorted(configs))} and no {_DEFAULT}, which nodes without a label get'
        yield problem(path, text, f'add {_DEFAULT} to the ConfigMap "{name}", or write default: ""')


@CLUSTER_POLICY.rule(
    "GA148",
    "The MIG manager must run where nodes wait for it, and its settings must have an effect",
    default=Severity.WARN,
    remedy="write migManager: {enabled: true}, or cut the GPUs yourself and remove the labels",
    source="github.com/NVIDIA/gpu-operator controllers/state_manager.go hasMIGCapableGPU, docs gpu-operator-mig",
    rows=("H-08", "H-09", "H-11"),
)
def manager_settings(change: Change) -> Iterator[Problem]:
    """Without the MIG manager the label `nvidia.com/mig.config` does nothing, and nobody says so.

    The operator runs it only on nodes whose GPUs MIG can divide, so configurations of one's own wait in vain where no
    node has such GPUs. `WITH_REBOOT` is compared as text: anything but "true" means no, also "True" and "1".
    """
    if change.deleted:
        return
    if not change.flag("migManager", "enabled", default=True):
        waiting = [
            node
            for node in change.facts.nodes_with(MIG_CONFIG_LABEL)
            if labels_of(node)[MIG_CONFIG_LABEL] not in ("", _DEFAULT)
        ]
        if waiting and change.text("mig", "strategy") in ("single", "mixed"):
            text = f"is false, so the label {MIG_CONFIG_LABEL} of {the_nodes(waiting)} does nothing"
            yield problem(change.at("migManager", "enabled"), text)
        return
    nodes = change.facts.known_gpu_nodes()
    name = change.text("migManager", "config", "name")
    if name and nodes and all(is_capable(labels_of(node)) is False for node in nodes):
        text = f'"{name}" is never read, for MIG can divide no GPU of {the_nodes(nodes)}'
        remedy = "remove it, or add nodes with GPUs such as A100, H100 or B200"
        yield problem(change.at("migManager", "config", "name"), text, remedy, severity=Severity.AUDIT)
    for index, item in enumerate(change.items("migManager", "env")):
        value = lookup(item, ("value",))
        if lookup(item, ("name",)) == "WITH_REBOOT" and value not in ("true", "false"):
            shown = f'"{value}"' if isinstance(value, str) else "empty"
            meant = str(value).lower() in ("1", "true", "yes", "on", "y", "t")
            remedy = f'write "{str(meant).lower()}"'
            text = f'is {shown}, and only "true" lets the MIG manager reboot a node that needs it'
            yield problem(change.at("migManager", "env", index, "value"), text, remedy)


@CLUSTER_POLICY.rule(
    "GA147",
    "The MIG strategy must suit the MIG configurations of the nodes",
    default=Severity.DENY,
    remedy="write strategy: mixed, and let pods ask for resources such as nvidia.com/mig-1g.10gb",
    source="github.com/NVIDIA/k8s-device-plugin internal/rm/device_map.go, internal/lm/mig-strategy.go; "
    "github.com/NVIDIA/gpu-operator issue 603",
    rows=("H-01", "H-02"),
)
def strategy_suits_nodes(change: Change) -> Iterator[Problem]:
    """Under "single" all MIG devices of a node are handed out as `nvidia.com/gpu`, and so must be of one kind.

    Otherwise the node gets the label `<product>-MIG-INVALID` and no GPU at all. Under "none", which is also what an
    omitted strategy means, GPUs that are cut are handed out as nothing. A policy that sets the strategy is refused; one
    that only keeps it is warned about. Nodes without the device plugin do not count: DRA hands out any MIG devices.
    """
    if change.deleted:
        return
    strategy = change.text("mig", "strategy")
    labelled = [
        node
        for node in change.facts.nodes_with(MIG_CONFIG_LABEL)
        if labels_of(node)[MIG_CONFIG_LABEL] not in WHOLE and runs_device_plugin(node, change.facts.view, change.object)
    ]
    if strategy == "single":
        yield from _not_of_one_kind(change, labelled)
    elif strategy in ("", "none") and labelled:
        text = (
            f"{'is not set' if not strategy else 'is none'}, so GPUs that MIG divides are handed out as nothing, and "
        )
        text += f"{the_nodes(labelled)} {'has' if len(labelled) == 1 else 'have'} the label {MIG_CONFIG_LABEL}"
        remedy = "write strategy: single or strategy: mixed, or label the nodes all-disabled"
        yield problem(change.at("mig", "strategy"), text, remedy, severity=Severity.WARN)


def _not_of_one_kind(change: Change, labelled: list[Object]) -> Iterator[Problem]:
    config_map = change.text("migManager", "config", "name")
    nodes_by_reason: dict[tuple[str, str], list[Object]] = {}
    for node in labelled:
        name = labels_of(node)[MIG_CONFIG_LABEL]
        entries = configs_named(change.facts, config_map, name_of(node)).entries(name, labels_of(node))
        if reason := unfit_for_single(entries):
            nodes_by_reason.setdefault((name, reason), []).append(node)
    kept = change.old is not None and change.before("mig", "strategy") == "single"
    for (name, reason), nodes in nodes_by_reason.items():
        text = f'is "single", and the configuration "{name}" of {the_nodes(nodes)} {reason}'
        yield problem(change.at("mig", "strategy"), text, severity=Severity.WARN if kept else None)
