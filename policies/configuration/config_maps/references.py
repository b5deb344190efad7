"""References: which resources and nodes depend on a ConfigMap, and on which of its keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from policies.checks import Checks, Problem, problem
from policies.configuration.config_maps.roles import Role, roles_of
from policies.configuration.usage import the_nodes
from policies.decision import Severity
from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import FieldPath, lookup
from policies.kubernetes.yaml import YAMLError, load_document

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policies.configuration.change import Change
    from policies.kubernetes.objects import Object

__all__ = ["REFERENCES"]

REFERENCES: Checks[Change] = Checks()
"""Of every ConfigMap in a namespace of the operator, whatever its role."""

_DATA = FieldPath(["data"])
_NAME = FieldPath(["metadata", "name"])


@dataclass(frozen=True, slots=True)
class _Reference:
    """A field that names a ConfigMap, and the key that is read from it where that is always the same."""

    steps: tuple[str, ...]
    key: str = ""
    default: bool = True
    """Whether the component, the first of the steps, is enabled when it does not say."""


_REFERENCES = {
    "ClusterPolicy": (
        _Reference(("devicePlugin", "config", "name")),
        _Reference(("migManager", "config", "name"), "config.yaml"),
        _Reference(("migManager", "gpuClientsConfig", "name"), "clients.yaml"),
        _Reference(("dcgmExporter", "config", "name"), "dcgm-metrics.csv"),
        _Reference(("vgpuDeviceManager", "config", "name"), "config.yaml", default=False),
        _Reference(("vgpuManager", "kernelModuleConfig", "name"), default=False),
        _Reference(("driver", "repoConfig", "configMapName")),
        _Reference(("driver", "certConfig", "name")),
        _Reference(("driver", "kernelModuleConfig", "name")),
        _Reference(("driver", "virtualTopology", "config"), "nvidia-topologyd.conf"),
        _Reference(("driver", "licensingConfig", "configMapName"), "gridd.conf"),
    ),
    "NVIDIADriver": (
        _Reference(("repoConfig", "name")),
        _Reference(("certConfig", "name")),
        _Reference(("kernelModuleConfig", "name")),
        _Reference(("virtualTopologyConfig", "name"), "nvidia-topologyd.conf"),
        _Reference(("licensingConfig", "name"), "gridd.conf"),
    ),
    "GPUCluster": (_Reference(("dcgmExporter", "config", "name"), "dcgm-metrics.csv"),),
}
"""By kind, as the operator mounts them: a volume whose ConfigMap or key is missing keeps its pods from starting."""


@REFERENCES.rule(
    "GA107",
    "A ConfigMap stays while something depends on it",
    default=Severity.DENY,
    remedy="change what refers to it first",
    source="github.com/NVIDIA/k8s-device-plugin cmd/config-manager/main.go; "
    "github.com/NVIDIA/gpu-operator controllers/object_controls.go",
    rows=("A-04",),
    wrong="""
    # operation: DELETE
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: time-slicing, namespace: gpu-operator}
    data: {}
    ---
    apiVersion: nvidia.com/v1
    kind: ClusterPolicy
    metadata: {name: cluster-policy}
    spec: {devicePlugin: {config: {name: time-slicing, default: any}}}""",
    right="""
    # operation: DELETE
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: time-slicing, namespace: gpu-operator}
    data: {}
    ---
    apiVersion: nvidia.com/v1
    kind: ClusterPolicy
    metadata: {name: cluster-policy}
    spec: {devicePlugin: {config: {name: time-slicing-2, default: any}}}""",
)
def in_use(change: Change) -> Iterator[Problem]:
    """Pods that mount the ConfigMap go on until they restart, and then never start again.

    So it is found out at the next reboot or upgrade, node by node. A key that a node label or a default names is read at
    once: the device plugin's config-manager exits, and the node has no GPUs to give. Removing a key only warns, because
    the label may be changed next.
    """
    if change.namespace not in change.facts.operator_namespaces:
        return
    if change.deleted:
        for field, _ in _users(change):
            text = f'"{change.name}" is deleted while {field} names it; pods that mount it could not start again'
            yield problem(_NAME, text, f"point {field} at another ConfigMap first")
    elif change.old is not None:
        yield from _removed_keys(change)


def _users(change: Change) -> Iterator[tuple[str, _Reference]]:
    """The fields that name the ConfigMap: `spec.devicePlugin.config.name of the ClusterPolicy "cluster-policy"`."""
    for document in _referring(change):
        kind = str(document.get("kind"))
        for reference in _REFERENCES.get(kind, ()):
            if _is_enabled(document, reference) and lookup(document, ("spec", *reference.steps)) == change.name:
                yield f'{FieldPath(("spec", *reference.steps))} of the {kind} "{name_of(document)}"', reference


def _referring(change: Change) -> Iterator[Object]:
    policy = change.facts.cluster_policy()
    if isinstance(policy, dict):
        yield policy
    yield from change.facts.known("NVIDIADriver")
    yield from change.facts.known("GPUCluster")


def _is_enabled(document: Object, reference: _Reference) -> bool:
    enabled = lookup(document, ("spec", reference.steps[0], "enabled"))
    return enabled if isinstance(enabled, bool) else reference.default


def _removed_keys(change: Change) -> Iterator[Problem]:
    before, after = _data(change.old), _data(change.object)
    gone = [key for key in before if key not in after]
    for field, reference in _users(change):
        if reference.key in gone:
            yield _missed(reference.key, f"{field} has it mounted", "pods that mount it could not start again")
    roles = roles_of(change, by_content=False)
    if Role.DEVICE_PLUGIN in roles:
        for key in gone:
            for user in _named_by(change, key):
                yield _missed(key, user, f"the device plugin would exit with: specified config {key} does not exist")
    if Role.MIG_PARTED in roles:
        yield from _removed_mig_configs(change, before.get("config.yaml"), after.get("config.yaml"))


def _named_by(change: Change, key: str) -> Iterator[str]:
    """What selects a key of a device-plugin ConfigMap."""
    config = change.facts.policy_value("devicePlugin", "config")
    if isinstance(config, dict) and config.get("name") == change.name and config.get("default") == key:
        yield "spec.devicePlugin.config.default of the ClusterPolicy names it"
    nodes = change.facts.nodes_with("nvidia.com/device-plugin.config", key)
    if nodes:
        yield f"the label nvidia.com/device-plugin.config of {the_nodes(nodes)} names it"


def _missed(key: str, user: str, consequence: str) -> Problem:
    remedy = f'keep "{key}" until nothing names it'
    return problem(_DATA / key, f"is removed while {user}; {consequence}", remedy, severity=Severity.WARN)


def _removed_mig_configs(change: Change, before: Any, after: Any) -> Iterator[Problem]:
    kept = _mig_configs(after)
    for name in sorted(_mig_configs(before) - kept) if kept else ():
        nodes = change.facts.nodes_with("nvidia.com/mig.config", name)
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
    """The names under `mig-configs`; none where the document cannot be read, which other rules tell."""
    try:
        configs = lookup(load_document(text).value, ("mig-configs",)) if isinstance(text, str) else None
    except YAMLError:
        return set()
    return set(configs) if isinstance(configs, dict) else set()
