"""MIG strategy: how the device plugin hands out MIG devices, and how nodes are cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.configuration.cluster_policy.checks import CLUSTER_POLICY
from policies.configuration.mig_configs import WHOLE, configs_named, unfit_for_single
from policies.configuration.usage import the_nodes
from policies.decision import Severity
from policies.fleet.device_plugin import runs_device_plugin
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.objects import name_of
from policies.nvidia.identifiers import MIG_CONFIG_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change
    from policies.kubernetes.objects import Object


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
