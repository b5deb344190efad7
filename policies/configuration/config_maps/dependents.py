"""Dependents: which resources and nodes depend on a ConfigMap, and on which of its keys; who owns it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.configuration.change import is_operator
from policies.configuration.config_maps.roles import Role, roles_of, users
from policies.configuration.facts import the_nodes
from policies.kubernetes.objects import FieldPath, lookup
from policies.kubernetes.yaml import YAMLError, load_document
from policies.nvidia.identifiers import MIG_CONFIG_LABEL, PLUGIN_CONFIG_LABEL
from policies.rules.decision import Severity
from policies.rules.registry import Checks, Problem, problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policies.configuration.change import Change
    from policies.kubernetes.objects import Object

__all__ = ["DEPENDENTS"]

DEPENDENTS: Checks[Change] = Checks("ConfigMap")
"""Checks of every ConfigMap in a namespace of the operator, whatever its role."""

_DATA = FieldPath(["data"])
_NAME = FieldPath(["metadata", "name"])
_OWN = {
    "default-mig-parted-config": FieldPath(["spec", "migManager", "config", "name"]),
    "default-gpu-clients": FieldPath(["spec", "migManager", "gpuClientsConfig", "name"]),
    "default-vgpu-devices-config": FieldPath(["spec", "vgpuDeviceManager", "config", "name"]),
}
"""ConfigMaps that the operator writes, and the field that names another one instead."""
_OWNERS = frozenset({"ClusterPolicy", "NVIDIADriver", "GPUCluster"})


@DEPENDENTS.rule(
    "GA107",
    "A ConfigMap must stay while something depends on it, and the operator's own must be left to it",
    default=Severity.DENY,
    remedy="change what refers to it first",
    source="github.com/NVIDIA/k8s-device-plugin cmd/config-manager/main.go; "
    "github.com/NVIDIA/gpu-operator controllers/object_controls.go",
    rows=("A-04",),
)
def in_use(change: Change) -> Iterator[Problem]:
    """Pods that mount the ConfigMap go on until they restart, and then never start again.

    So the mistake shows at the next reboot or upgrade, node by node. A key that a node label or a default names is read at
    once: the device plugin's config-manager exits, and the node has no GPUs to give. Removing a key only warns, because
    the label may be changed next.

    Edits of the ConfigMaps that the operator creates (`default-mig-parted-config` and others) are warned about: the
    operator overwrites them the next time it reconciles.
    """
    if not change.is_read_by_operator:
        return
    if change.is_deleted:
        for user in users(change):
            text = f'"{change.name}" is deleted while {user} names it; pods that mount it could not start again'
            yield problem(_NAME, text, f"point {user} at another ConfigMap first")
        return
    yield from _overwritten(change)
    if change.old is not None:
        yield from _removed_keys(change)


def _overwritten(change: Change) -> Iterator[Problem]:
    """An edit of a ConfigMap that the operator overwrites, unless the operator makes it.

    Source: github.com/NVIDIA/gpu-operator controllers/object_controls.go createConfigMap; issues 249, 281, 384.
    """
    is_owned = _is_owned(change.old if change.old is not None else change.object)
    if change.old is None:
        is_written = change.name in _OWN and not is_owned
    else:
        is_written = (change.name in _OWN or is_owned) and _data(change.old) != _data(change.object)
    if not is_written or is_operator(change.user, change.facts.operator_namespaces):
        return
    text = f'"{change.name}" belongs to the GPU Operator, which writes its own content over it'
    instead = _OWN.get(change.name)
    if instead is None:
        yield problem(_NAME, text, "change the ClusterPolicy that it is made from", severity=Severity.WARN)
        return
    named = lookup(change.facts.cluster_policy(), instead)
    if isinstance(named, str) and named not in ("", change.name):
        text = f'"{change.name}" is not read, because {instead} of the ClusterPolicy names "{named}"'
        yield problem(_NAME, text, f'edit the ConfigMap "{named}"', severity=Severity.WARN)
        return
    remedy = f'give the ConfigMap another name, such as "custom-{change.name.removeprefix("default-")}"'
    yield problem(_NAME, text, f"{remedy}, and name it in {instead} of the ClusterPolicy", severity=Severity.WARN)


def _is_owned(document: Object) -> bool:
    owners = lookup(document, ("metadata", "ownerReferences"))
    return any(lookup(owner, ("kind",)) in _OWNERS for owner in owners) if isinstance(owners, list) else False


def _removed_keys(change: Change) -> Iterator[Problem]:
    before, after = _data(change.old), _data(change.object)
    gone = [key for key in before if key not in after]
    for user in users(change):
        key = user.reference.key
        if key in gone:
            yield _removed_key(key, f"{user} has it mounted", "pods that mount it could not start again")
    roles = roles_of(change)
    if Role.DEVICE_PLUGIN in roles:
        for key in gone:
            for named_by in _named_by(change, key):
                yield _removed_key(
                    key, named_by, f"the device plugin would exit with: specified config {key} does not exist"
                )
    if Role.MIG_PARTED in roles:
        yield from _removed_mig_configs(change, before.get("config.yaml"), after.get("config.yaml"))


def _named_by(change: Change, key: str) -> Iterator[str]:
    """The users of a key of a device-plugin ConfigMap, in words."""
    config = change.facts.policy_value("devicePlugin", "config")
    if isinstance(config, dict) and config.get("name") == change.name and config.get("default") == key:
        yield "spec.devicePlugin.config.default of the ClusterPolicy names it"
    nodes = change.facts.nodes_with(PLUGIN_CONFIG_LABEL, key)
    if nodes:
        yield f"the label nvidia.com/device-plugin.config of {the_nodes(nodes)} names it"


def _removed_key(key: str, user: str, consequence: str) -> Problem:
    remedy = f'keep "{key}" until nothing names it'
    return problem(_DATA / key, f"is removed while {user}; {consequence}", remedy, severity=Severity.WARN)


def _removed_mig_configs(change: Change, before: Any, after: Any) -> Iterator[Problem]:
    kept = _mig_configs(after)
    for name in sorted(_mig_configs(before) - kept) if kept else ():
        nodes = change.facts.nodes_with(MIG_CONFIG_LABEL, name)
        if nodes:
            text = (
                f'loses the configuration "{name}" while the label nvidia.com/mig.config of '
                f"{the_nodes(nodes)} names it; its state would become failed"
            )
            remedy = f'keep "{name}" until no node names it'
            yield problem(_DATA / "config.yaml", text, remedy, severity=Severity.WARN)


def _data(document: Object | None) -> Mapping[str, Any]:
    data = lookup(document, ("data",))
    return data if isinstance(data, dict) else {}


def _mig_configs(text: Any) -> set[str]:
    """The names under `mig-configs`; empty if the document cannot be read, which other rules report."""
    try:
        configs = lookup(load_document(text).value, ("mig-configs",)) if isinstance(text, str) else None
    except YAMLError:
        return set()
    return set(configs) if isinstance(configs, dict) else set()
