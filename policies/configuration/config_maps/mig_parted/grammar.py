"""Grammar of config.yaml: version, configurations, and the fields of their entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.configuration.config_maps.mig_parted.documents import MIG_FILE, MIGFile
from policies.decision import Severity
from policies.kubernetes.misspellings import closest
from policies.kubernetes.paths import lookup
from policies.nvidia.identifiers import VENDOR_PREFIX
from policies.nvidia.mig import MIGProfile
from policies.nvidia.mig_configs import CONFIGS, Entry, is_count
from policies.nvidia.mig_parted import ENTRY_FIELDS, entry_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.checks import Problem
    from policies.nvidia.mig_parted import EntryError

__all__ = ["entry_problems", "with_error"]

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
            return (
                "write the number of a GPU, without quotes"
                if rest
                else "write all, or a list of numbers such as [0, 1]"
            )
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
            meant = _meant_profile(str(rest[0]))
            return f'write "{meant}"' if meant else "write a profile such as 1g.10gb, 3g.40gb or 1g.10gb+me"
        case "mig-devices":
            return _COUNTS if isinstance(value, dict) and is_count(value[rest[0]]) else f"{_COUNTS}, without quotes"
    guess = closest(str(field), ENTRY_FIELDS)
    return f'write "{guess}"' if guess else f"remove it; there are {', '.join(ENTRY_FIELDS)}"


def _meant_profile(name: str) -> MIGProfile | None:
    """The profile that a resource name, a label or a name in capitals stands for."""
    bare = name.strip().lower().removeprefix(VENDOR_PREFIX).removeprefix("mig-")
    return MIGProfile.parse(bare) or MIGProfile.from_label(bare)


_FIELDS = ("version", CONFIGS)
_VERSION = "v1"
_ENTRY = "{devices: all, mig-enabled: false}"


@MIG_FILE.rule(
    "GA150",
    "A MIG configuration must be one that mig-parted can read",
    default=Severity.DENY,
    remedy=f"write version: {_VERSION} and, below {CONFIGS}:, a list of entries for each name",
    source="github.com/NVIDIA/mig-parted api/spec/v1/spec.go, pkg/types/mig_config.go",
    rows=("H-05",),
)
def readable_configs(file: MIGFile) -> Iterator[Problem]:
    """mig-parted is strict and reads the whole file: a mistake in one configuration breaks all.

    So a file that worked for months stops working with the next name that is added to it.
    """
    yield from _version(file)
    guesses = {name: closest(name, _FIELDS) for name in file.value if name not in _FIELDS}
    for name, guess in guesses.items():
        remedy = f'write "{guess}"' if guess else f"indent it below {CONFIGS}, or remove it"
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
