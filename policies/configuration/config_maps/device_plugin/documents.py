"""Documents: the keys of a device-plugin ConfigMap, which nodes select by a label."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.checks import Checks, Problem, problem
from policies.configuration.config_maps.device_plugin.configuration import (
    CONFIGURATION,
    MOST_DOCUMENTS,
    configurations,
    reviewed_texts,
    texts,
)
from policies.configuration.config_maps.device_plugin.usage import default_key, is_governed, is_used
from policies.configuration.named_objects import the_nodes
from policies.decision import Place, Severity
from policies.kubernetes.names import is_label_value
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.paths import FieldPath
from policies.kubernetes.yaml import YAMLError, load_document
from policies.nvidia.identifiers import PLUGIN_CONFIG_LABEL
from policies.nvidia.plugin_configs import LIMITS
from policies.nvidia.plugin_grammar import GRAMMAR, grammar_problems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change
    from policies.configuration.config_maps.device_plugin.configuration import Configuration
    from policies.decision import Finding
    from policies.kubernetes.objects import Object

__all__ = ["DEVICE_PLUGIN"]


class _DevicePluginChecks(Checks["Change"]):
    """The checks of a ConfigMap as a whole, and those of each configuration in it."""

    def run(self, subject: Change) -> Iterator[Finding]:
        """The findings of the checks."""
        yield from super().run(subject)
        for configuration in configurations(subject):
            yield from CONFIGURATION.run(configuration)


DEVICE_PLUGIN = _DevicePluginChecks("ConfigMap")

_DATA = FieldPath(["data"])
_EMPTY = 'write "version: v1" to share nothing'


@DEVICE_PLUGIN.rule(
    "GA133",
    "A key of a device-plugin ConfigMap must hold one YAML document under a name that nodes can select",
    default=Severity.DENY,
    remedy="write one YAML document, as a text block that begins with |-",
    source="github.com/NVIDIA/k8s-device-plugin api/config/v1/config.go, cmd/config-manager/main.go",
    rows=("G-07", "G-08", "G-23", "S-44"),
)
def readable_documents(change: Change) -> Iterator[Problem]:
    """Each key is a separate file, read only by the nodes that select it.

    A broken one shows when a node gets the label or a new node joins: the device plugin crash-loops there, and with it
    GPU Feature Discovery, so that the node loses its GPUs and its labels. Of a duplicate key the plugin keeps the last
    one and says nothing, and of several documents it reads only the first.
    """
    data = change.object.get("data")
    if data is not None and not isinstance(data, dict):
        yield problem(
            _DATA, "must be a mapping of names to configurations", "write a name, and below it the configuration"
        )
        return
    if not data and not change.object.get("binaryData"):
        text = "holds no configuration; the config manager would report: no configuration files available"
        yield problem(_DATA, text, "add a key, such as any, with a configuration")
    for key, text in reviewed_texts(change.object):
        yield from _of_key(key)
        yield from _of_text(key, text, change)
    count = len(texts(change.object))
    if count > MOST_DOCUMENTS:
        text = f"has {count:,} configurations, of which only the first {MOST_DOCUMENTS} were reviewed"
        yield problem(_DATA, text, "split the ConfigMap", severity=Severity.WARN)


def _of_key(key: str) -> Iterator[Problem]:
    if key and not is_label_value(key):
        text = f"cannot be the value of a label, so no node can select it by {PLUGIN_CONFIG_LABEL}"
        remedy = "name it with at most 63 letters, digits, dashes, underscores and dots, and no sign at either end"
        yield problem(_DATA / key, text, remedy, severity=Severity.WARN)


def _of_text(key: str, text: Any, change: Change) -> Iterator[Problem]:
    path = _DATA / key
    if not isinstance(text, str):
        said = "is empty, not a string" if text is None else "must be a string; the API server refuses it"
        yield problem(path, said, f"write {key}: |- and indent the configuration below it")
        return
    try:
        value = load_document(text, limits=LIMITS).value
    except YAMLError as error:
        yield _unreadable(path, error)
        return
    stray = [name for name in change.object if name in GRAMMAR.fields]
    if value is None and stray:
        said = f"is empty, and {', '.join(stray)} stand outside of data; the indentation seems lost"
        yield problem(path, said, f"indent these lines below {key}: |-")
    elif value is None:
        said = "holds nothing, so nodes that select it share no GPU and get every default"
        yield problem(path, said, _EMPTY, severity=Severity.WARN)
    elif not isinstance(value, dict):
        shape = "a list" if isinstance(value, list) else "a single value"
        said = f"is {shape}, not a mapping; the device plugin would exit, unable to parse its config file"
        yield problem(path, said, "write fields such as version, flags and sharing", place=Place(path, 1, 1))


def _unreadable(path: FieldPath, error: YAMLError) -> Problem:
    place = Place(path, error.line, error.column)
    where = f"line {error.line}"
    if error.message.startswith("duplicate key "):
        what, _, first = error.message.partition(": ")
        text = f"has the {what} in {where}, {first}; the device plugin would keep the last one and say nothing"
        return problem(path, text, "keep one of them", place=place)
    if error.message.startswith("a second document "):
        text = f"has a second document in {where}; the device plugin would read the first one only"
        return problem(path, text, "give each document a key of its own", place=place)
    text = f"is not YAML in {where}: {error.message}; the device plugin would exit, unable to parse its config file"
    return problem(path, text, f"correct {where}", place=place)


@CONFIGURATION.rule(
    "GA134",
    "Fields of a device-plugin configuration must have values that the plugin can read",
    default=Severity.DENY,
    remedy="write a value that the device plugin can read",
    source="github.com/NVIDIA/k8s-device-plugin api/config/v1, cmd/nvidia-device-plugin/main.go validateFlags",
    rows=("G-08", "G-29", "G-30"),
)
def readable_values(configuration: Configuration) -> Iterator[Problem]:
    """The device plugin parses the file when it starts, and exits if it cannot.

    The DaemonSet then crash-loops there and the node has no GPUs to give. A number as sleepInterval is read, but as
    nanoseconds: GPU Feature Discovery then labels the node without a pause.
    """
    for found in grammar_problems(configuration.value):
        if found.kind == "value":
            yield configuration.embedded.problem(found.steps, found.message, found.remedy)


@CONFIGURATION.rule(
    "GA135",
    "Fields of a device-plugin configuration must exist",
    default=Severity.DENY,
    remedy="remove it",
    source="github.com/NVIDIA/k8s-device-plugin api/config/v1/config.go: the file is not parsed strictly",
    rows=("G-20", "S-02"),
)
def existing_fields(configuration: Configuration) -> Iterator[Problem]:
    """The device plugin silently drops a field that it does not know.

    The setting never takes effect: GPUs stay whole although everything seems applied. A field that is clearly a
    mistake is refused, another one only warned about, because the plugin may be newer than this list (v0.20).
    """
    for found in grammar_problems(configuration.value):
        if found.kind == "unknown":
            severity = None if found.is_clear else Severity.WARN
            yield configuration.embedded.problem(
                found.steps, found.message, found.remedy, severity=severity, of_key=True
            )


_DAEMON_SET = "daemonset/nvidia-device-plugin-daemonset"


@DEVICE_PLUGIN.rule(
    "GA144",
    "The device plugin must be able to find and read its ConfigMap",
    default=Severity.WARN,
    remedy="restart the device plugin after the change",
    source="docs.nvidia.com/datacenter/cloud-native/gpu-operator gpu-sharing; "
    "github.com/NVIDIA/k8s-device-plugin cmd/config-manager/main.go",
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
            yield problem(_DATA / key, said, remedy)


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
        yield problem(_DATA, text, f'add "{default}", or name one of {listed} there')
    selected: dict[str, list[Object]] = {}
    for node in change.facts.nodes_with(PLUGIN_CONFIG_LABEL):
        selected.setdefault(labels_of(node)[PLUGIN_CONFIG_LABEL], []).append(node)
    for key, nodes in sorted(selected.items()):
        if key and key not in keys:
            text = f'has no "{key}", which the label {PLUGIN_CONFIG_LABEL} of {the_nodes(nodes)} names; {exits} {key} does not exist'
            yield problem(_DATA, text, f'add "{key}", or label with one of {listed}')
