"""Documents of a mig-parted ConfigMap: config.yaml and clients.yaml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from policies.configuration.change import CONFIG_MAP
from policies.configuration.cluster_facts import quoted_names
from policies.configuration.config_maps.embedded_documents import Embedded, read_embedded
from policies.kubernetes.names import closest, write_field
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.objects import FieldPath, lookup
from policies.kubernetes.view import UNKNOWN
from policies.kubernetes.yaml import YAMLError, first_document
from policies.nvidia.identifiers import MIG_CONFIG_LABEL, VENDOR_PREFIX
from policies.nvidia.mig import MIGProfile
from policies.nvidia.mig_configs import CONFIGS, DEFAULT, FILE, LIMITS, Configs, Entry, configs_in, is_count
from policies.nvidia.mig_parted import ENTRY_FIELDS, entry_errors
from policies.nvidia.mig_products import is_capable
from policies.rules.checks import Problem
from policies.rules.decision import Place, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.configuration.change import Change
    from policies.kubernetes.objects import Object
    from policies.nvidia.mig_parted import EntryError


CLIENTS_FILE = "clients.yaml"
"""The key of the ConfigMap: the MIG manager reads /gpu-clients/clients.yaml."""
_SERVICES = "systemd-services"
_CLIENTS_FIELDS = ("version", _SERVICES)
_FAILS = "no node could be divided by MIG: error parsing host's GPU clients file"


def clients_problems(text: Any) -> Iterator[Problem]:
    """The fields and values of clients.yaml that the MIG manager cannot read, or ignores."""
    path = FieldPath(["data", CLIENTS_FILE])
    if not isinstance(text, str):
        yield Problem(path, "must be a string", f"write {CLIENTS_FILE}: |- and indent the file below it")
        return
    document, problems = read_embedded(path, text, LIMITS, "the MIG manager", _FAILS)
    yield from problems
    if document is None or document.value is None:
        return
    if not isinstance(document.value, dict):
        remedy = f"write {_SERVICES}: and, below it, a list of services"
        yield Problem(path, f"must be a mapping; {_FAILS}", remedy, place=Place(path, 1, 1))
        return
    for name, value in document.value.items():
        position = document.key_position((name,))
        place = Place(path, position.line, position.column)
        if name not in _CLIENTS_FIELDS and name.lower() != _SERVICES:
            said = "unknown field: the MIG manager ignores it silently"
            remedy = write_field(name, _CLIENTS_FIELDS, document.value, "remove it")
            yield Problem(path / name, said, remedy, severity=Severity.WARN, place=place)
            continue
        is_list = value is None or (isinstance(value, list) and all(isinstance(item, str) for item in value))
        if name != "version" and not is_list:
            yield Problem(path / name, f"must be a list of strings; {_FAILS}", "begin each line with -", place=place)


@dataclass(frozen=True, slots=True)
class MIGFile(Embedded):
    """The readable file of a mig-parted ConfigMap."""

    configs: Configs

    def entries(self) -> Iterator[Entry]:
        """The entries of all configurations."""
        for entries in self.configs.values():
            yield from entries

    def nodes_by_config(self) -> dict[str, list[Object]]:
        """The nodes that select a configuration from this ConfigMap, by its name."""
        change = self.change
        by_config: dict[str, list[Object]] = {}
        if change.is_read_by_operator and change.facts.policy_value("migManager", "config", "name") == change.name:
            for node in change.facts.nodes_with(MIG_CONFIG_LABEL):
                by_config.setdefault(labels_of(node)[MIG_CONFIG_LABEL], []).append(node)
        return by_config


def unread_reason(change: Change, config: str | int = "") -> str:
    """The reason why nothing reads a ConfigMap of the MIG manager yet; empty if something may.

    Args:
        change: The ConfigMap.
        config: The configuration in its file, which only the nodes that select it apply; empty for the whole file.
    """
    facts = change.facts
    if not change.is_read_by_operator or not isinstance(facts.cluster_policy(), dict):
        return ""
    if change.name not in (facts.policy_value("migManager", each, "name") for each in ("config", "gpuClientsConfig")):
        return "the ClusterPolicy does not name this ConfigMap, so nothing reads it yet"
    default = facts.policy_value("migManager", "config", "default")
    selected = (
        DEFAULT if default is None else default,
        *(labels_of(node)[MIG_CONFIG_LABEL] for node in facts.nodes_with(MIG_CONFIG_LABEL)),
    )
    if not config or config in selected:
        return ""
    node = "a known node" if facts.view.list("Node") is UNKNOWN else "a node"
    return f'neither the default nor {node} selects "{config}", so nothing reads it yet'


def are_skipped(nodes: Sequence[Object]) -> bool:
    """True if MIG can divide no GPU of the nodes that use a configuration, so that mig-parted skips them."""
    return bool(nodes) and all(is_capable(labels_of(node)) is False for node in nodes)


_DATA = FieldPath(["data"])
_EXAMPLE = f"write version: v1 and, below {CONFIGS}:, a list of entries for each name"


def mig_file(change: Change) -> MIGFile | None:
    """The file, by its own key, or by the only key of a ConfigMap with a wrong key."""
    data = change.object.get("data")
    texts = data if isinstance(data, dict) else {}
    key = FILE if FILE in texts else next(iter(texts)) if len(texts) == 1 and CLIENTS_FILE not in texts else ""
    text = texts.get(key)
    try:
        document = first_document(text, limits=LIMITS) if isinstance(text, str) else None
    except YAMLError:
        return None
    if document is None or not isinstance(document.value, dict):
        return None
    return MIGFile(change, key, document, configs_in(document.value))


@CONFIG_MAP.rule(
    "GA149",
    "A ConfigMap of the MIG manager must have a file that it can read: config.yaml, or clients.yaml",
    remedy=_EXAMPLE,
    source="github.com/NVIDIA/gpu-operator assets/state-mig-manager; github.com/NVIDIA/mig-parted "
    "api/spec/v1/spec.go UnmarshalJSON, cmd/nvidia-mig-manager/main.go",
    runs="mig-parted",
    rows=("H-03", "H-05", "S-68"),
)
def readable_file(change: Change) -> Iterator[Problem]:
    """The MIG manager reads the whole file for every node: one mistake, and no node can be cut any more.

    The ConfigMap is mounted as a folder, of which only `config.yaml` is read. Nodes then have the label
    `nvidia.com/mig.config.state: failed`, and the reason is in the log of the MIG manager's pod on that node. The list of
    services to stop, `clients.yaml`, is read before each change of a node too. Of a duplicate key the last one counts
    silently, which is a warning.
    """
    data = change.object.get("data")
    if isinstance(data, dict) and CLIENTS_FILE in data:
        yield from clients_problems(data[CLIENTS_FILE])
        if FILE not in data:
            return
    if not isinstance(data, dict) or FILE not in data:
        keys = [key for key in data if isinstance(key, str)] if isinstance(data, dict) else []
        if len(keys) == 1:
            text = f"is a file that the MIG manager does not read; it reads {FILE} and would not find it"
            yield Problem(_DATA / keys[0], text, f"rename the key to {FILE}")
            return
        has = f"has {quoted_names(keys)} and no {FILE}" if keys else f"has no {FILE}"
        text = f"{has}, which is the one file that the MIG manager reads"
        yield Problem(_DATA, text, f"add the key {FILE}")
        return
    path, text = _DATA / FILE, data[FILE]
    if not isinstance(text, str):
        remedy = f"write {FILE}: |- and indent the file below it"
        yield Problem(path, "must be a string; the API server refuses it", remedy)
        return
    document, problems = read_embedded(path, text, LIMITS, "mig-parted", "no node could be cut by MIG")
    yield from problems
    if document is None:
        return
    value = document.value
    if value is None or value == {}:
        yield Problem(path, "is empty, so every value of the label nvidia.com/mig.config fails")
    elif not isinstance(value, dict):
        shape = "a list" if isinstance(value, list) else "a single value"
        yield Problem(path, f"is {shape}, not a mapping; mig-parted cannot read it", place=Place(path, 1, 1))


_COUNTS = "write how many of them each GPU gets"


def with_error(what: str, error: str) -> str:
    """A message, followed by the error that the MIG manager logs."""
    return f"{what}; mig-parted would report: {error}"


def entry_problems(file: MIGFile, entry: Entry) -> Iterator[Problem]:
    """The problems for which mig-parted refuses an entry."""
    for error in entry_errors(entry.fields):
        text = with_error(error.text, error.words).rstrip()
        yield file.problem((*entry.steps, *error.steps), text, _remedy(entry, error), of_key=error.of_key)


def _remedy(entry: Entry, error: EntryError) -> str | None:
    if not error.steps:
        return "write devices: all" if "devices" in error.text else "write mig-enabled: true or false"
    field, *rest = error.steps
    value = entry.fields.get(str(field))
    match field:
        case "devices":
            every = "write all, or a list of numbers such as [0, 1]"
            return "write the number of a GPU, without quotes" if rest else every
        case "mig-enabled":
            return "write true or false, without quotes"
        case "device-filter":
            item = lookup(value, rest)
            number = isinstance(item, int) and not isinstance(item, bool) and 0 <= item < 2**32
            return f'write "0x{item:08X}", in quotes' if number else 'write a PCI id such as "0x20B010DE", in quotes'
        case "mig-devices" if not rest:
            if value is None or not isinstance(value, dict):
                return 'write mig-devices: with a profile and a number, such as "1g.10gb": 7'
            is_zero = error.text == "has no count above 0"
            return _COUNTS if is_zero else "write mig-enabled: true, or remove mig-devices"
        case "mig-devices" if error.of_key:
            # A resource name, a label or a name in capitals may stand for a profile.
            bare = str(rest[0]).strip().lower().removeprefix(VENDOR_PREFIX).removeprefix("mig-")
            meant = MIGProfile.parse(bare) or MIGProfile.from_label(bare)
            return f'write "{meant}"' if meant else "write a profile such as 1g.10gb, 3g.40gb or 1g.10gb+me"
        case "mig-devices":
            return _COUNTS if isinstance(value, dict) and is_count(value[rest[0]]) else f"{_COUNTS}, without quotes"
    return write_field(field, ENTRY_FIELDS, entry.fields, f"remove it; there are {', '.join(ENTRY_FIELDS)}")


_FILE_FIELDS = ("version", CONFIGS)
_VERSION = "v1"
_ENTRY = "{devices: all, mig-enabled: false}"


@CONFIG_MAP.rule(
    "GA150",
    "A MIG configuration must be one that mig-parted can read",
    remedy=f"write version: {_VERSION} and, below {CONFIGS}:, a list of entries for each name",
    source="github.com/NVIDIA/mig-parted api/spec/v1/spec.go UnmarshalJSON, pkg/types/mig_config.go AssertValidFormat",
    runs="mig-parted",
    rows=("H-05",),
)
def readable_configs(file: MIGFile) -> Iterator[Problem]:
    """mig-parted is strict and reads the whole file: a mistake in one configuration breaks all.

    So a file that worked for months stops working with the next name that is added to it.
    """
    yield from _version(file)
    guesses = {name: closest(name, _FILE_FIELDS) for name in file.value if name not in _FILE_FIELDS}
    for name in guesses:
        remedy = write_field(name, _FILE_FIELDS, file.value, f"indent it below {CONFIGS}, or remove it")
        yield file.problem((name,), with_error("is unknown", f"unexpected field: {name}"), remedy, of_key=True)
    configs = file.value.get(CONFIGS)
    if CONFIGS not in file.value:
        if CONFIGS not in guesses.values():
            yield file.problem((), f"has no {CONFIGS}, so every value of the label nvidia.com/mig.config fails")
    elif not configs and (configs is None or isinstance(configs, dict)):
        yield file.problem((CONFIGS,), with_error("is empty", f"at least one entry in '{CONFIGS}' is required"))
    elif not isinstance(configs, dict):
        yield file.problem((CONFIGS,), "must be a mapping of names to lists of entries; mig-parted cannot read it")
    else:
        for name, items in configs.items():
            yield from _config(file, name, items)


def _version(file: MIGFile) -> Iterator[Problem]:
    remedy = f"write version: {_VERSION}"
    version = file.value.get("version")
    if "version" not in file.value:
        yield file.problem((), with_error("has no version", "unable to parse with missing 'version' field"), remedy)
    elif version is None:
        yield file.problem(("version",), with_error("is empty", "unknown version:"), remedy)
    elif isinstance(version, str) and version != _VERSION:
        yield file.problem(("version",), with_error(f'is "{version}"', f"unknown version: {version}"), remedy)
    elif not isinstance(version, str):
        yield file.problem(("version",), f"is {version}, not a string; mig-parted cannot read it", remedy)


def _config(file: MIGFile, name: str, items: Any) -> Iterator[Problem]:
    steps = (CONFIGS, name)
    if not items and (items is None or isinstance(items, list)):
        text = with_error("has no entries", f"at least one entry in '{name}' is required")
        yield file.problem(steps, text, f"write [{_ENTRY}]", of_key=True)
    elif not isinstance(items, list):
        yield file.problem(steps, "must be a list of entries; mig-parted cannot read it", "begin its first line with -")
    else:
        for index, item in enumerate(items):
            if not isinstance(item, dict):
                yield file.problem((*steps, index), "must be a mapping; mig-parted cannot read it", f"write {_ENTRY}")
            else:
                yield from entry_problems(file, Entry(name, index, item))
