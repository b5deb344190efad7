"""Documents of a mig-parted ConfigMap: config.yaml and clients.yaml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from policies.checks import Checks, Problem, problem
from policies.configuration.embedded import Embedded
from policies.configuration.named_objects import quoted_names
from policies.decision import Place, Severity
from policies.kubernetes.misspellings import closest
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.paths import FieldPath
from policies.kubernetes.yaml import YAMLError, load_document
from policies.nvidia.identifiers import MIG_CONFIG_LABEL
from policies.nvidia.mig_configs import CONFIGS, FILE, LIMITS, Configs, Entry, configs_in
from policies.nvidia.mig_products import is_capable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.configuration.change import Change
    from policies.decision import Finding
    from policies.kubernetes.objects import Object

__all__ = ["CLIENTS_FILE", "MIG_FILE", "MIG_PARTED", "MIGFile", "are_skipped", "clients_problems"]

CLIENTS_FILE = "clients.yaml"
"""The key of the ConfigMap: the MIG manager reads /gpu-clients/clients.yaml."""
_SERVICES = "systemd-services"
_FIELDS = ("version", _SERVICES)
_FAILS = "no node could be divided by MIG: error parsing host's GPU clients file"


def clients_problems(text: Any) -> Iterator[Problem]:
    """The fields and values of clients.yaml that the MIG manager cannot read, or ignores."""
    path = FieldPath(["data", CLIENTS_FILE])
    if not isinstance(text, str):
        yield problem(path, "must be a string", f"write {CLIENTS_FILE}: |- and indent the file below it")
        return
    try:
        document = load_document(text, limits=LIMITS)
    except YAMLError as error:
        place = Place(path, error.line, error.column)
        said = f"is not YAML in line {error.line}: {error.message}; {_FAILS}"
        yield problem(path, said, f"correct line {error.line}", place=place)
        return
    if document.value is None:
        return
    if not isinstance(document.value, dict):
        remedy = f"write {_SERVICES}: and, below it, a list of services"
        yield problem(path, f"must be a mapping; {_FAILS}", remedy, place=Place(path, 1, 1))
        return
    for name, value in document.value.items():
        position = document.key_position((name,))
        place = Place(path, position.line, position.column)
        if name not in _FIELDS and name.lower() != _SERVICES:
            guess = closest(name, _FIELDS)
            remedy = f'write "{guess}"' if guess else "remove it"
            said = "unknown field: the MIG manager ignores it silently"
            yield problem(path / name, said, remedy, severity=Severity.WARN, place=place)
        elif name != "version" and not _is_list_of_strings(value):
            yield problem(path / name, f"must be a list of strings; {_FAILS}", "begin each line with -", place=place)


def _is_list_of_strings(value: Any) -> bool:
    return value is None or (isinstance(value, list) and all(isinstance(item, str) for item in value))


@dataclass(frozen=True, slots=True)
class MIGFile:
    """The readable file of a mig-parted ConfigMap."""

    embedded: Embedded
    configs: Configs

    @property
    def change(self) -> Change:
        """The change of the ConfigMap."""
        return self.embedded.change

    @property
    def value(self) -> Any:
        """The whole document."""
        return self.embedded.document.value

    def entries(self) -> Iterator[Entry]:
        """The entries of all configurations."""
        for entries in self.configs.values():
            yield from entries

    def nodes_by_config(self) -> dict[str, list[Object]]:
        """The nodes that select a configuration from this ConfigMap, by its name."""
        change, using = self.change, dict[str, "list[Object]"]()
        if change.is_read_by_operator and change.facts.policy_value("migManager", "config", "name") == change.name:
            for node in change.facts.nodes_with(MIG_CONFIG_LABEL):
                using.setdefault(labels_of(node)[MIG_CONFIG_LABEL], []).append(node)
        return using

    def problem(
        self,
        steps: tuple[str | int, ...],
        message: str,
        remedy: str | None = None,
        *,
        severity: Severity | None = None,
        of_key: bool = False,
    ) -> Problem:
        """A problem at a path of the file, or of the key that ends the path."""
        return self.embedded.problem(steps, message, remedy, severity=severity, of_key=of_key)


def are_skipped(nodes: Sequence[Object]) -> bool:
    """True if MIG can divide no GPU of the nodes that use a configuration, so that mig-parted skips them."""
    return bool(nodes) and all(is_capable(labels_of(node)) is False for node in nodes)


class _MIGPartedChecks(Checks["Change"]):
    """The checks of a ConfigMap as a whole, and those of the file in it."""

    def run(self, subject: Change) -> Iterator[Finding]:
        """The findings of the checks."""
        yield from super().run(subject)
        document = _document(subject)
        if document is not None:
            yield from MIG_FILE.run(document)


MIG_PARTED = _MIGPartedChecks("ConfigMap")
MIG_FILE: Checks[MIGFile] = Checks("ConfigMap")
"""The checks of a file that can be read."""

_DATA = FieldPath(["data"])
_EXAMPLE = f"write version: v1 and, below {CONFIGS}:, a list of entries for each name"


def _document(change: Change) -> MIGFile | None:
    """The file, by its own key, or by the only key of a ConfigMap with a wrong key."""
    data = change.object.get("data")
    texts = data if isinstance(data, dict) else {}
    key = FILE if FILE in texts else next(iter(texts)) if len(texts) == 1 and CLIENTS_FILE not in texts else ""
    text = texts.get(key)
    try:
        document = load_document(text, limits=LIMITS) if isinstance(text, str) else None
    except YAMLError:
        return None
    if document is None or not isinstance(document.value, dict):
        return None
    return MIGFile(Embedded(change, key, document), configs_in(document.value))


@MIG_PARTED.rule(
    "GA149",
    "A ConfigMap of the MIG manager must have a file that it can read: config.yaml, or clients.yaml",
    default=Severity.DENY,
    remedy=_EXAMPLE,
    source="github.com/NVIDIA/gpu-operator assets/state-mig-manager; github.com/NVIDIA/mig-parted api/spec/v1/spec.go",
    rows=("H-03", "H-05", "S-68"),
)
def readable_file(change: Change) -> Iterator[Problem]:
    """The MIG manager reads the whole file for every node: one mistake, and no node can be cut any more.

    The ConfigMap is mounted as a folder, of which only `config.yaml` is read. Nodes then have the label
    `nvidia.com/mig.config.state: failed`, and the reason is in the log of the MIG manager's pod on that node. The list of
    services to stop, `clients.yaml`, is read before each change of a node too.
    """
    data = change.object.get("data")
    if isinstance(data, dict) and CLIENTS_FILE in data:
        yield from clients_problems(data[CLIENTS_FILE])
        if FILE not in data:
            return
    if not isinstance(data, dict) or FILE not in data:
        yield _missing_file(data)
        return
    path, text = _DATA / FILE, data[FILE]
    if not isinstance(text, str):
        yield problem(
            path, "must be a string; the API server refuses it", f"write {FILE}: |- and indent the file below it"
        )
        return
    try:
        value = load_document(text, limits=LIMITS).value
    except YAMLError as error:
        place = Place(path, error.line, error.column)
        said = f"is not YAML in line {error.line}: {error.message}; no node could be cut by MIG"
        yield problem(path, said, f"correct line {error.line}", place=place)
        return
    if value is None or value == {}:
        yield problem(path, "is empty, so every value of the label nvidia.com/mig.config fails")
    elif not isinstance(value, dict):
        said = (
            f"is {'a list' if isinstance(value, list) else 'a single value'}, not a mapping; mig-parted cannot read it"
        )
        yield problem(path, said, place=Place(path, 1, 1))


def _missing_file(data: Any) -> Problem:
    keys = [key for key in data if isinstance(key, str)] if isinstance(data, dict) else []
    path = _DATA / keys[0] if len(keys) == 1 else _DATA
    if len(keys) == 1:
        text = f"is a file that the MIG manager does not read; it reads {FILE} and would not find it"
        return problem(path, text, f"rename the key to {FILE}")
    has = f"has {quoted_names(keys)} and no {FILE}" if keys else f"has no {FILE}"
    return problem(path, f"{has}, which is the one file that the MIG manager reads", f"add the key {FILE}")
