"""Documents: the keys of a device-plugin ConfigMap, each a file and a name that nodes select by a label."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.checks import Checks, Problem, problem
from policies.configuration.config_maps.device_plugin.configuration import (
    CONFIGURATION,
    LIMITS,
    MOST_DOCUMENTS,
    configurations,
    reviewed_texts,
    texts,
)
from policies.configuration.config_maps.device_plugin.grammar import GRAMMAR
from policies.configuration.config_maps.device_plugin.usage import NODE_LABEL
from policies.decision import Place, Severity
from policies.kubernetes.names import is_label_value
from policies.kubernetes.paths import FieldPath
from policies.kubernetes.yaml import YAMLError, load_document

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change
    from policies.decision import Finding

__all__ = ["DEVICE_PLUGIN"]


class _DevicePluginChecks(Checks["Change"]):
    """The checks of a ConfigMap as a whole, and those of each configuration in it."""

    def run(self, subject: Change) -> Iterator[Finding]:
        """Everything that the checks find; nothing in a ConfigMap that goes away."""
        if subject.deleted:
            return
        yield from super().run(subject)
        for configuration in configurations(subject):
            yield from CONFIGURATION.run(configuration)


DEVICE_PLUGIN = _DevicePluginChecks()

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
    """Every key is a file of its own, and only the nodes that select it read it: a broken one is a hidden time bomb.

    It goes off when a node gets the label or a new node joins; then the device plugin crash-loops there, and with it
    GPU Feature Discovery, so that the node loses its GPUs and its labels. Of a duplicate key the plugin keeps the last
    one and says nothing, and of several documents it reads only the first.
    """
    data = change.object.get("data")
    if data is not None and not isinstance(data, dict):
        yield problem(_DATA, "is no mapping of names to configurations", "write a name, and below it the configuration")
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
        text = f"cannot be the value of a label, so no node can select it by {NODE_LABEL}"
        remedy = "name it with at most 63 letters, digits, dashes, underscores and dots, and no sign at either end"
        yield problem(_DATA / key, text, remedy, severity=Severity.WARN)


def _of_text(key: str, text: Any, change: Change) -> Iterator[Problem]:
    path = _DATA / key
    if not isinstance(text, str):
        said = "is empty, and not even text" if text is None else "is no text; the API server refuses it"
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
        said = f"is {shape} and no mapping; the device plugin would exit, unable to parse its config file"
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
    text = f"is no YAML in {where}: {error.message}; the device plugin would exit, unable to parse its config file"
    return problem(path, text, f"correct {where}", place=place)
