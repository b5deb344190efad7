"""Roles of ConfigMaps: which component reads one, which objects name it, and what depends on its keys."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.configuration.change import CONFIG_MAP, MADE_BY_THE_OPERATOR, is_operator
from policies.configuration.cluster_facts import the_nodes
from policies.configuration.config_maps.mig_documents import CLIENTS_FILE
from policies.configuration.config_maps.plugin_documents import reviewed_texts
from policies.fleet.operands import is_deployed
from policies.kubernetes.names import closest
from policies.kubernetes.objects import FieldPath, items_at, lookup, name_of
from policies.kubernetes.yaml import YAMLError, first_document
from policies.nvidia.config_grammar import GRAMMAR
from policies.nvidia.identifiers import MIG_CONFIG_LABEL, PLUGIN_CONFIG_LABEL
from policies.nvidia.plugin_configs import LIMITS
from policies.rules.checks import Problem
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policies.configuration.change import Change
    from policies.kubernetes.objects import Object


LIST_KEY = "dcgm-metrics.csv"
"""The key of a ConfigMap at which the DCGM exporter reads its list of metrics."""


class Role(StrEnum):
    """A component that reads a ConfigMap."""

    DEVICE_PLUGIN = "device-plugin"
    MIG_PARTED = "mig-parted"
    DCGM_METRICS = "dcgm-metrics"


@dataclass(frozen=True, slots=True)
class Reference:
    """A field that names a ConfigMap, and the key that is read from it if it is fixed."""

    steps: tuple[str, ...]
    key: str = ""
    role: Role | None = None
    """The component that reads the ConfigMap; None if its content is not reviewed."""

    @property
    def path(self) -> FieldPath:
        """The field, from the root of the object."""
        return FieldPath(("spec", *self.steps))

    def name_in(self, document: Object) -> str:
        """The ConfigMap that the field names; empty if there is none, or if the component is not deployed."""
        name = lookup(document, self.path)
        return name if isinstance(name, str) and is_deployed(document, self.steps[0]) else ""


_REFERENCES = {
    "ClusterPolicy": (
        Reference(("devicePlugin", "config", "name"), role=Role.DEVICE_PLUGIN),
        Reference(("migManager", "config", "name"), "config.yaml", Role.MIG_PARTED),
        Reference(("migManager", "gpuClientsConfig", "name"), "clients.yaml", Role.MIG_PARTED),
        Reference(("dcgmExporter", "config", "name"), LIST_KEY, Role.DCGM_METRICS),
        Reference(("vgpuDeviceManager", "config", "name"), "config.yaml"),
        Reference(("vgpuManager", "kernelModuleConfig", "name")),
        Reference(("driver", "repoConfig", "configMapName")),
        Reference(("driver", "certConfig", "name")),
        Reference(("driver", "kernelModuleConfig", "name")),
        Reference(("driver", "virtualTopology", "config"), "nvidia-topologyd.conf"),
        Reference(("driver", "licensingConfig", "configMapName"), "gridd.conf"),
    ),
    "NVIDIADriver": (
        Reference(("repoConfig", "name")),
        Reference(("certConfig", "name")),
        Reference(("kernelModuleConfig", "name")),
        Reference(("virtualTopologyConfig", "name"), "nvidia-topologyd.conf"),
        Reference(("licensingConfig", "name"), "gridd.conf"),
    ),
    "GPUCluster": (Reference(("dcgmExporter", "config", "name"), LIST_KEY, Role.DCGM_METRICS),),
}
"""The references of each kind. The operator mounts them: pods do not start if a ConfigMap or key is missing."""


class User(NamedTuple):
    """An object that names a ConfigMap, and the field."""

    reference: Reference
    document: Object

    def __str__(self) -> str:
        return f'{self.reference.path} of the {self.document.get("kind")} "{name_of(self.document)}"'


def references(document: Object | None) -> Iterator[tuple[Reference, str]]:
    """The fields of deployed components that name ConfigMaps, with the names."""
    if document is None:
        return
    for reference in _REFERENCES.get(str(document.get("kind")), ()):
        if name := reference.name_in(document):
            yield reference, name


def users(change: Change) -> Iterator[User]:
    """The known objects that name the ConfigMap of a change."""
    if not change.is_read_by_operator:
        return
    policy = change.facts.cluster_policy()
    documents = [
        *([policy] if isinstance(policy, dict) else []),
        *change.facts.view.known_or_reviewed("NVIDIADriver"),
        *change.facts.view.known_or_reviewed("GPUCluster"),
    ]
    for document in documents:
        for reference, name in references(document):
            if name == change.name:
                yield User(reference, document)


_METRIC = re.compile(r"^\s*DCGM_(?:FI|EXP)_\w+\s*,\s*(?:gauge|counter|histogram|summary|label)\s*,", re.MULTILINE)
"""A line of the exporter's CSV; dashboards and alerts name the fields too."""
_METRIC_WITH_MISTAKES = re.compile(r"^\s*DCGM_(?:FI|EXP)_\w+\s*,", re.MULTILINE)

_KEY = re.compile(r"""^([ \t]*(?:- +)*)["']?([A-Za-z][\w.-]*)["']?[ \t]*:(?=\s|$)""", re.MULTILINE)
_WORD = re.compile(r"""(?<![\w-])([A-Za-z][\w-]{2,20}+)["']?[ \t]*+:""")
_HINT = re.compile(r"mig|slic|mps|shar|shra|flag", re.IGNORECASE)
"""Part of some key of every document that is ours, however one of them is misspelt; other texts are not parsed."""
_MOST_KEYS = 2_000
_DEEPEST = 4

_SHARING = ("timeSlicing", "mps")
_FLAGS = frozenset(name.lower() for name in GRAMMAR.fields["flags"].fields)
_ENTRY = ("mig-enabled", "mig-devices")
_NOT_OURS = ("vgpu-configs", "configs", "config")
"""Top-level keys of others that resemble `mig-configs`; the vGPU device manager's file is one."""
_ALIKE = 0.8


@dataclass(frozen=True, slots=True)
class _Outline:
    """The keys of a YAML document; if it cannot be parsed, those that its lines show."""

    top: tuple[str, ...]
    below: frozenset[str]

    @classmethod
    def of(cls, text: str) -> _Outline | None:
        """The outline of a text; None if it has no keys that could be a sign."""
        if not any(_HINT.search(each[1]) for each in islice(_WORD.finditer(text), _MOST_KEYS)):
            return None
        try:
            value = first_document(text, limits=LIMITS).value
        except YAMLError:
            return cls._of_lines(text)
        if isinstance(value, dict):
            return cls(tuple(value), frozenset(islice(_keys_below(value, 1), _MOST_KEYS)))
        return cls._of_lines(text)

    @classmethod
    def _of_lines(cls, text: str) -> _Outline:
        found = [(len(each[1].expandtabs()), each[2]) for each in islice(_KEY.finditer(text), _MOST_KEYS)]
        least = min((depth for depth, _ in found), default=0)
        return cls(
            tuple(key for depth, key in found if depth == least),
            frozenset(key for depth, key in found if depth > least),
        )


def _keys_below(value: Any, depth: int) -> Iterator[str]:
    """The keys below the top level, in mappings and in the items of lists."""
    for item in value.values() if isinstance(value, dict) else value:
        if isinstance(item, dict):
            yield from item
        if isinstance(item, dict | list) and depth < _DEEPEST:
            yield from _keys_below(item, depth + 1)


def content_roles(config_map: Object, *, with_mistakes: bool) -> set[Role]:
    """The roles that the content of a ConfigMap shows, even if its documents are not valid YAML.

    Args:
        config_map: the ConfigMap.
        with_mistakes: whether misspelt keys and names of files count too. They do where GPUs are configured; elsewhere
            a ConfigMap that only resembles one of NVIDIA's belongs to other software.
    """
    roles: set[Role] = set()
    for key, text in reviewed_texts(config_map):
        if isinstance(text, str):
            roles |= _roles_of_text(key, text, with_mistakes=with_mistakes)
    if with_mistakes:
        # Lines that lost their indentation are beside `data`, where the API server drops them.
        roles |= {Role.DEVICE_PLUGIN} if {"sharing", "flags"} & set(config_map) else set()
        roles |= {Role.MIG_PARTED} if "mig-configs" in config_map else set()
    return roles


def _roles_of_text(key: str, text: str, *, with_mistakes: bool) -> set[Role]:
    if key == LIST_KEY or _METRIC.search(text):
        return {Role.DCGM_METRICS}
    outline = _Outline.of(text)
    if outline is not None and "mig-configs" in outline.top:
        return {Role.MIG_PARTED}
    if outline is not None and "sharing" in outline.top and outline.below & set(_SHARING):
        return {Role.DEVICE_PLUGIN}
    return _meant_roles(key, text, outline) if with_mistakes else set()


def _meant_roles(key: str, text: str, outline: _Outline | None) -> set[Role]:
    """The roles of a text whose names of files or keys are misspelt."""
    if closest(key, [LIST_KEY], likeness=_ALIKE) or _METRIC_WITH_MISTAKES.search(text):
        return {Role.DCGM_METRICS}
    if key == CLIENTS_FILE:
        return {Role.MIG_PARTED}
    if outline is None:
        return set()
    meant = [closest(each, ("mig-configs", *_NOT_OURS), likeness=_ALIKE) for each in outline.top]
    if "mig-configs" in meant or any(each in outline.below for each in _ENTRY):
        return {Role.MIG_PARTED}
    top = [closest(each, GRAMMAR.fields, likeness=_ALIKE) for each in outline.top]
    strategies = [closest(each, _SHARING, likeness=_ALIKE) for each in (*outline.top, *outline.below)]
    has_flags = "flags" in top and any(each.lower() in _FLAGS for each in outline.below)
    is_shared = ("sharing" in top and "version" in top) or "timeSlicing" in strategies
    return {Role.DEVICE_PLUGIN} if is_shared or has_flags else set()


LABEL = "gpu-admission.io/config"

_OTHER_HOMES = frozenset({"kube-system", "nvidia-device-plugin"})
"""Namespaces that the Helm chart of the device plugin is often installed into, without the operator."""

_NAMES = {
    "time-slicing-config": Role.DEVICE_PLUGIN,
    "mps-config": Role.DEVICE_PLUGIN,
    "device-plugin-config": Role.DEVICE_PLUGIN,
    "nvidia-device-plugin-configs": Role.DEVICE_PLUGIN,
    "nvidia-plugin-configs": Role.DEVICE_PLUGIN,
    "default-mig-parted-config": Role.MIG_PARTED,
    "custom-mig-config": Role.MIG_PARTED,
    "custom-mig-parted-config": Role.MIG_PARTED,
    "mig-parted-config": Role.MIG_PARTED,
    "custom-dcgm-metrics": Role.DCGM_METRICS,
    "dcgm-metrics": Role.DCGM_METRICS,
}
"""Names that NVIDIA's documentation and charts use; kustomize appends a hash, and people append what they like.
Source: docs.nvidia.com GPU Operator (gpu-sharing, gpu-operator-mig), README of github.com/NVIDIA/k8s-device-plugin."""


def roles_of(change: Change) -> set[Role]:
    """The roles of a ConfigMap; a mistake in it does not hide what it is for."""
    label = lookup(change.object, ("metadata", "labels", LABEL))
    certain = {role for role in Role if label == role} | {
        user.reference.role for user in users(change) if user.reference.role is not None
    }
    if certain:
        return certain
    is_near = change.is_read_by_operator or change.namespace in _OTHER_HOMES
    by_content = content_roles(change.object, with_mistakes=is_near)
    if by_content or change.namespace not in change.facts.config_map_namespaces:
        return by_content
    return {role for name, role in _NAMES.items() if change.name == name or change.name.startswith(f"{name}-")}


_DATA = FieldPath(["data"])
_NAME = FieldPath(["metadata", "name"])
_OWNERS = frozenset({"ClusterPolicy", "NVIDIADriver", "GPUCluster"})


@CONFIG_MAP.rule(
    "GA107",
    "A ConfigMap must stay while something depends on it, and the operator's own must be left to it",
    remedy="change what refers to it first",
    source="github.com/NVIDIA/k8s-device-plugin cmd/config-manager/main.go updateConfigName; "
    "github.com/NVIDIA/gpu-operator controllers/object_controls.go createConfigMap",
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
            yield Problem(_NAME, text, f"point {user} at another ConfigMap first")
        return
    yield from _overwritten(change)
    if change.old is not None:
        yield from _removed_keys(change)


def _overwritten(change: Change) -> Iterator[Problem]:
    """An edit of a ConfigMap that the operator overwrites, unless the operator makes it.

    Source: github.com/NVIDIA/gpu-operator controllers/object_controls.go createConfigMap; issues 249, 281, 384.
    """
    owners = items_at(change.old if change.old is not None else change.object, ("metadata", "ownerReferences"))
    is_owned = any(lookup(owner, ("kind",)) in _OWNERS for owner in owners)
    if change.old is None:
        is_written = change.name in MADE_BY_THE_OPERATOR and not is_owned
    else:
        is_written = (change.name in MADE_BY_THE_OPERATOR or is_owned) and _data(change.old) != _data(change.object)
    if not is_written or is_operator(change.user, change.facts.trusted_namespaces):
        return
    text = f'"{change.name}" belongs to the GPU Operator, which writes its own content over it'
    instead = MADE_BY_THE_OPERATOR.get(change.name)
    if instead is None:
        yield Problem(_NAME, text, "change the ClusterPolicy that it is made from", severity=Severity.WARN)
        return
    named = lookup(change.facts.cluster_policy(), instead)
    if isinstance(named, str) and named not in ("", change.name):
        text = f'"{change.name}" is not read, because {instead} of the ClusterPolicy names "{named}"'
        yield Problem(_NAME, text, f'edit the ConfigMap "{named}"', severity=Severity.WARN)
        return
    remedy = f'give the ConfigMap another name, such as "custom-{change.name.removeprefix("default-")}"'
    yield Problem(_NAME, text, f"{remedy}, and name it in {instead} of the ClusterPolicy", severity=Severity.WARN)


def _removed_keys(change: Change) -> Iterator[Problem]:
    before, after = _data(change.old), _data(change.object)
    gone, roles = [key for key in before if key not in after], roles_of(change)
    mounts = [(user.reference.key, f"{user} has it mounted") for user in users(change)]
    removed = [(key, user, "pods that mount it could not start again") for key, user in mounts if key in gone]
    for key in gone if Role.DEVICE_PLUGIN in roles else ():
        exits = f"the device plugin would exit with: specified config {key} does not exist"
        config = change.facts.policy_value("devicePlugin", "config")
        if isinstance(config, dict) and config.get("name") == change.name and config.get("default") == key:
            removed.append((key, "spec.devicePlugin.config.default of the ClusterPolicy names it", exits))
        if nodes := change.facts.nodes_with(PLUGIN_CONFIG_LABEL, key):
            user = f"the label nvidia.com/device-plugin.config of {the_nodes(nodes)} names it"
            removed.append((key, user, exits))
    for key, user, consequence in removed:
        text = f"is removed while {user}; {consequence}"
        yield Problem(_DATA / key, text, f'keep "{key}" until nothing names it', severity=Severity.WARN)
    kept = _mig_configs(after.get("config.yaml")) if Role.MIG_PARTED in roles else set()
    for name in sorted(_mig_configs(before.get("config.yaml")) - kept) if kept else ():
        if nodes := change.facts.nodes_with(MIG_CONFIG_LABEL, name):
            user = f"the label nvidia.com/mig.config of {the_nodes(nodes)} names it"
            text = f'loses the configuration "{name}" while {user}; its state would become failed'
            remedy = f'keep "{name}" until no node names it'
            yield Problem(_DATA / "config.yaml", text, remedy, severity=Severity.WARN)


def _data(document: Object | None) -> Mapping[str, Any]:
    data = lookup(document, ("data",))
    return data if isinstance(data, dict) else {}


def _mig_configs(text: Any) -> set[str]:
    """The names under `mig-configs`; empty if the document cannot be read, which other rules report."""
    try:
        configs = lookup(first_document(text).value, ("mig-configs",)) if isinstance(text, str) else None
    except YAMLError:
        return set()
    return set(configs) if isinstance(configs, dict) else set()
