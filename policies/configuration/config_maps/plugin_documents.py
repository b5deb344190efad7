"""Configurations: the documents of a device-plugin ConfigMap, with their places in it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from policies.configuration.change import CONFIG_MAP
from policies.configuration.cluster_facts import namespaced_name, the_nodes
from policies.configuration.config_maps.embedded_documents import Embedded, read_embedded
from policies.fleet.device_plugin import runs_device_plugin
from policies.kubernetes.names import is_label_value, shown
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.objects import FieldPath, Object, has_ended, items_at, lookup, name_of
from policies.kubernetes.quantities import quantity_or_none
from policies.kubernetes.view import UNKNOWN, Unknown
from policies.kubernetes.yaml import YAMLError, first_document
from policies.nvidia.config_grammar import GRAMMAR, grammar_problems
from policies.nvidia.identifiers import PLUGIN_CONFIG_LABEL
from policies.nvidia.plugin_configs import LIMITS, PluginConfig
from policies.rules.checks import Problem
from policies.rules.decision import Place, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change


_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")
"""The keys of ConfigMaps. Source: k8s.io/apimachinery/pkg/util/validation IsConfigMapKey."""
MOST_DOCUMENTS = 128
"""Keys of one ConfigMap that are reviewed; each takes up to half a millisecond, and a ConfigMap holds 50,000."""


_OF_OPERATOR = frozenset({"deviceliststrategy", "deviceidstrategy"})
"""Flags whose variables the operator always sets for the device plugin.

Source: github.com/NVIDIA/gpu-operator assets/state-device-plugin/0500_daemonset.yaml.
"""


@dataclass(frozen=True, slots=True)
class Configuration(PluginConfig):
    """One document of a device-plugin ConfigMap."""

    embedded: Embedded = field(kw_only=True)

    @property
    def change(self) -> Change:
        """The change of the ConfigMap."""
        return self.embedded.change

    @property
    def key(self) -> str:
        """The key of the ConfigMap, which is the configuration's name."""
        return self.embedded.key


def texts(config_map: Any) -> dict[str, Any]:
    """The `data` of a ConfigMap."""
    data = config_map.get("data") if isinstance(config_map, dict) else None
    return data if isinstance(data, dict) else {}


def reviewed_texts(config_map: Any) -> Iterator[tuple[str, Any]]:
    """The first `MOST_DOCUMENTS` items of `data`; GA133 warns about more."""
    return islice(texts(config_map).items(), MOST_DOCUMENTS)


def configurations(change: Change) -> Iterator[Configuration]:
    """The documents of a ConfigMap that can be read; GA133 reports the others."""
    replaced = _OF_OPERATOR if is_governed(change) else frozenset()
    if policy_strategy(change):
        replaced |= {"migstrategy"}
    for key, text in reviewed_texts(change.object):
        if isinstance(text, str):
            try:
                document = first_document(text, limits=LIMITS)
            except YAMLError:
                continue
            yield Configuration(document.value, replaced, embedded=Embedded(change, key, document))


def is_governed(change: Change) -> bool:
    """True if the active ClusterPolicy names this ConfigMap for the device plugin."""
    named = change.facts.policy_value("devicePlugin", "config", "name")
    return change.is_read_by_operator and bool(change.name) and named == change.name


def policy_strategy(change: Change) -> str:
    """`spec.mig.strategy` of the ClusterPolicy that governs the ConfigMap; empty if it is missing.

    The operator passes it as an environment variable, which takes precedence over the file.
    """
    strategy = change.facts.policy_value("mig", "strategy") if is_governed(change) else None
    return strategy if isinstance(strategy, str) else ""


def default_key(change: Change) -> str:
    """The key for nodes without a label; empty if the ClusterPolicy does not name the ConfigMap."""
    default = change.facts.policy_value("devicePlugin", "config", "default") if is_governed(change) else None
    return default if isinstance(default, str) else ""


def unread_reason(change: Change, path: FieldPath) -> str:
    """The reason, as a clause, why nothing reads a document of the ConfigMap yet; empty if something may.

    The config-manager copies the selected key only, so that a mistake in another one stops no plugin.

    Source: github.com/NVIDIA/k8s-device-plugin cmd/config-manager/main.go updateConfig.
    """
    key = path[1] if len(path) > 1 else None
    if isinstance(key, str) and not (_KEY.fullmatch(key) and isinstance(texts(change.object).get(key), str)):
        return ""  # The API server refuses the object.
    if not is_governed(change):
        is_elsewhere = isinstance(change.facts.cluster_policy(), dict) and change.is_read_by_operator
        return "the ClusterPolicy does not name this ConfigMap, so nothing reads it yet" if is_elsewhere else ""
    if not isinstance(key, str) or key == default_key(change):
        return ""
    nodes = nodes_using(change, key)
    if nodes is not UNKNOWN and nodes:
        return ""
    node = "a known node" if nodes is UNKNOWN else "a node"
    return f'neither the default nor {node} selects "{key}", so nothing reads it yet'


def nodes_using(change: Change, key: str) -> list[Object] | Unknown:
    """The nodes whose device plugin uses a key of the ConfigMap; unknown if nodes or policy are."""
    nodes = change.facts.gpu_nodes()
    if nodes is UNKNOWN or not is_governed(change):
        return UNKNOWN
    default, view = default_key(change), change.facts.view
    return [
        node
        for node in nodes
        if labels_of(node).get(PLUGIN_CONFIG_LABEL, default) == key and runs_device_plugin(node, view)
    ]


def is_used(change: Change, key: str) -> bool:
    """True if the ClusterPolicy or a node certainly uses a key of the ConfigMap."""
    nodes = nodes_using(change, key)
    return default_key(change) == key or (nodes is not UNKNOWN and bool(nodes))


def requesting_pods(change: Change, key: str, resource: str, more_than: int) -> list[str]:
    """The pods, as `namespace/name`, that may run on nodes with a key and request more of a resource."""
    nodes = nodes_using(change, key)
    if nodes is UNKNOWN and default_key(change) != key:
        return []
    places = None if nodes is UNKNOWN else {name_of(node) for node in nodes}
    if places is not None and not places:
        return []
    names = []
    for pod in change.facts.view.known_objects("Pod"):
        node = lookup(pod, ("spec", "nodeName"))
        if has_ended(pod) or (places is not None and node and node not in places):
            continue
        for container in (*items_at(pod, ("spec", "initContainers")), *items_at(pod, ("spec", "containers"))):
            if (quantity_or_none(lookup(container, ("resources", "limits", resource))) or 0) > more_than:
                names.append(namespaced_name(pod))
                break
    return sorted(names)


_DATA = FieldPath(["data"])
_EMPTY = 'write "version: v1" to share nothing'


@CONFIG_MAP.rule(
    "GA133",
    "A key of a device-plugin ConfigMap must hold one YAML document under a name that nodes can select",
    remedy="write one YAML document, as a text block that begins with |-",
    source="github.com/NVIDIA/k8s-device-plugin api/config/v1/config.go parseConfigFrom, "
    "cmd/config-manager/main.go getConfigFileNameMap",
    rows=("G-07", "G-08", "G-23", "S-44"),
)
def readable_documents(change: Change) -> Iterator[Problem]:
    """Each key is a separate file, read only by the nodes that select it.

    A broken one shows when a node gets the label or a new node joins: the device plugin crash-loops there, and with it
    GPU Feature Discovery, so that the node loses its GPUs and its labels. Of a duplicate key the plugin keeps the last
    one and says nothing, and of several documents it reads only the first: these are warnings.
    """
    data = change.object.get("data")
    if data is not None and not isinstance(data, dict):
        text = "must be a mapping of names to configurations"
        yield Problem(_DATA, text, "write a name, and below it the configuration")
        return
    if not data and not change.object.get("binaryData"):
        if not is_governed(change):
            return
        text = "holds no configuration; the config manager would report: no configuration files available"
        yield Problem(_DATA, text, "add a key, such as any, with a configuration")
    for key, text in reviewed_texts(change.object):
        if not _KEY.fullmatch(key):
            said = f"{shown(key)} is no key of a ConfigMap; the API server refuses it"
            yield Problem(_DATA / key, said, "name it with at most 63 letters, digits, dashes, underscores and dots")
        elif not is_label_value(key):
            said = f"cannot be the value of a label, so no node can select it by {PLUGIN_CONFIG_LABEL}"
            remedy = "name it with at most 63 letters, digits, dashes, underscores and dots, and no sign at either end"
            yield Problem(_DATA / key, said, remedy, severity=Severity.WARN)
        yield from _of_text(key, text, change)
    count = len(texts(change.object))
    if count > MOST_DOCUMENTS:
        text = f"has {count:,} configurations, of which only the first {MOST_DOCUMENTS} were reviewed"
        yield Problem(_DATA, text, "split the ConfigMap", severity=Severity.WARN)


def _of_text(key: str, text: Any, change: Change) -> Iterator[Problem]:
    path = _DATA / key
    if not isinstance(text, str):
        said = "is empty, not a string" if text is None else "must be a string; the API server refuses it"
        yield Problem(path, said, f"write {key}: |- and indent the configuration below it")
        return
    exits = "the device plugin would exit, unable to parse its config file"
    document, problems = read_embedded(path, text, LIMITS, "the device plugin", exits)
    yield from problems
    if document is None:
        return
    value = document.value
    stray = [name for name in change.object if name in GRAMMAR.fields]
    if value is None and stray:
        said = f"is empty, and {', '.join(stray)} stand outside of data; the indentation seems lost"
        yield Problem(path, said, f"indent these lines below {key}: |-")
    elif value is None:
        said = "holds nothing, so nodes that select it share no GPU and get every default"
        yield Problem(path, said, _EMPTY, severity=Severity.WARN)
    elif not isinstance(value, dict):
        shape = "a list" if isinstance(value, list) else "a single value"
        said = f"is {shape}, not a mapping; {exits}"
        yield Problem(path, said, "write fields such as version: v1", place=Place(path, 1, 1))


@CONFIG_MAP.rule(
    "GA134",
    "Fields of a device-plugin configuration must have values that the plugin can read",
    remedy="write a value that the device plugin can read",
    source="github.com/NVIDIA/k8s-device-plugin api/config/v1/replicas.go UnmarshalJSON, "
    "api/config/v1/resources.go NewResourceName, cmd/nvidia-device-plugin/main.go validateFlags",
    runs="sharing",
    rows=("G-08", "G-29", "G-30"),
)
def readable_values(configuration: Configuration) -> Iterator[Problem]:
    """The device plugin parses the file when it starts, and exits if it cannot.

    The DaemonSet then crash-loops there and the node has no GPUs to give. A number as sleepInterval is read, but as
    nanoseconds: GPU Feature Discovery then labels the node without a pause. The plugin never validates a flag that the
    operator sets: its value in the file only has no effect.
    """
    for found in grammar_problems(configuration.value):
        if found.kind == "value" and not found.is_replaced(configuration.replaced_flags):
            yield configuration.embedded.problem(found.steps, found.message, found.remedy)


@CONFIG_MAP.rule(
    "GA135",
    "Fields of a device-plugin configuration must exist",
    default=Severity.WARN,
    remedy="remove it",
    source="github.com/NVIDIA/k8s-device-plugin api/config/v1/config.go parseConfigFrom",
    rows=("G-20", "S-02"),
)
def existing_fields(configuration: Configuration) -> Iterator[Problem]:
    """The device plugin silently drops a field that it does not know.

    The setting never takes effect: GPUs stay whole although everything seems applied. The plugin starts all the same, and
    may be newer than this list (v0.20), so this is a warning. A misspelt field that the plugin requires is refused by
    other rules.
    """
    for found in grammar_problems(configuration.value):
        if found.kind == "unknown":
            yield configuration.embedded.problem(found.steps, found.message, found.remedy, of_key=True)


_DAEMON_SET = "daemonset/nvidia-device-plugin-daemonset"


@CONFIG_MAP.rule(
    "GA144",
    "The device plugin must be able to find and read its ConfigMap",
    default=Severity.WARN,
    remedy="restart the device plugin after the change",
    source="docs.nvidia.com/datacenter/cloud-native/gpu-operator gpu-sharing; "
    "github.com/NVIDIA/k8s-device-plugin cmd/config-manager/main.go updateConfigName, "
    "getConfigFileNameMap",
    rows=("G-02", "G-05", "G-27"),
)
def read_again(change: Change) -> Iterator[Problem]:
    """The operator does not watch this ConfigMap; pods read it when a node's label changes.

    An edit therefore does nothing until the DaemonSet is restarted, or a node gets another key by its label. A key that
    the ClusterPolicy or a label names and that is missing makes the config manager exit on these nodes.
    """
    if not is_governed(change):
        return
    if change.is_created:
        yield from _missing_keys(change)
    before, after = texts(change.old), texts(change.object)
    for key, text in after.items():
        if change.old is not None and key in before and before[key] != text and is_used(change, key):
            said = "is changed, and the device plugin reads it again only when it restarts"
            remedy = f"run kubectl rollout restart -n {change.namespace} {_DAEMON_SET} afterwards"
            yield Problem(_DATA / key, said, remedy)


def _missing_keys(change: Change) -> Iterator[Problem]:
    binary = change.object.get("binaryData")
    keys = {*texts(change.object), *(binary if isinstance(binary, dict) else ())}
    default = default_key(change)
    if not keys:
        return
    listed = ", ".join(f'"{key}"' for key in sorted(keys)[:5])
    exits = "the config manager would exit with: specified config"
    if default and default not in keys:
        text = f'has no "{default}", which spec.devicePlugin.config.default of the ClusterPolicy names; {exits}  does not exist'
        yield Problem(_DATA, text, f'add "{default}", or name one of {listed} there')
    selected: dict[str, list[Object]] = {}
    for node in change.facts.nodes_with(PLUGIN_CONFIG_LABEL):
        selected.setdefault(labels_of(node)[PLUGIN_CONFIG_LABEL], []).append(node)
    for key, nodes in sorted(selected.items()):
        if key and key not in keys:
            text = f'has no "{key}", which the label {PLUGIN_CONFIG_LABEL} of {the_nodes(nodes)} names; {exits} {key} does not exist'
            yield Problem(_DATA, text, f'add "{key}", or label with one of {listed}')
