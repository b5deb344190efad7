"""Grammar of config.yaml: version, configurations, and the fields of their entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.configuration.config_maps.mig_parted.documents import MIG_FILE, MIGFile
from policies.decision import Severity
from policies.kubernetes.misspellings import closest
from policies.nvidia.identifiers import VENDOR_PREFIX
from policies.nvidia.mig import MIGProfile
from policies.nvidia.mig_configs import CONFIGS, Entry, is_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.checks import Problem

__all__ = ["entry_problems", "with_error"]

_ENTRY_FIELDS = ("device-filter", "devices", "mig-enabled", "mig-devices")
_INVALID = "error validating values in 'mig-devices' field"


def with_error(what: str, error: str) -> str:
    """A message, followed by the error that the MIG manager logs."""
    return f"{what}; mig-parted would report: {error}"


def entry_problems(file: MIGFile, entry: Entry) -> Iterator[Problem]:
    """The problems for which mig-parted refuses an entry."""
    for name in entry.fields:
        if name not in _ENTRY_FIELDS:
            guess = closest(name, _ENTRY_FIELDS)
            remedy = f'write "{guess}"' if guess else f"remove it; there are {', '.join(_ENTRY_FIELDS)}"
            text = with_error("is unknown", f"unexpected field: {name}")
            yield file.problem((*entry.steps, name), text, remedy, of_key=True)
    for name, remedy in (("devices", "write devices: all"), ("mig-enabled", "write mig-enabled: true or false")):
        if name not in entry.fields:
            yield file.problem(entry.steps, with_error(f"has no {name}", f"missing required field: {name}"), remedy)
    yield from _filter(file, entry)
    yield from _devices(file, entry)
    enabled = entry.fields.get("mig-enabled")
    if enabled is not None and not isinstance(enabled, bool):
        text = f"is {_value_text(enabled)}, not a boolean; mig-parted cannot read it"
        yield file.problem((*entry.steps, "mig-enabled"), text, "write true or false, without quotes")
    yield from _mig_devices(file, entry)


def _filter(file: MIGFile, entry: Entry) -> Iterator[Problem]:
    told = entry.fields.get("device-filter")
    items = told if isinstance(told, list) else [told]
    steps = (*entry.steps, "device-filter")
    for index, item in enumerate(items):
        if item is not None and not isinstance(item, str):
            text = f"is {_value_text(item)}, not a string; mig-parted cannot read it"
            number = isinstance(item, int) and not isinstance(item, bool) and 0 <= item < 2**32
            remedy = f'write "0x{item:08X}", in quotes' if number else 'write a PCI id such as "0x20B010DE", in quotes'
            yield file.problem((*steps, index) if isinstance(told, list) else steps, text, remedy)


def _devices(file: MIGFile, entry: Entry) -> Iterator[Problem]:
    told = entry.fields.get("devices")
    steps = (*entry.steps, "devices")
    remedy = "write all, or a list of numbers such as [0, 1]"
    if isinstance(told, str) and told != "all":
        yield file.problem(steps, with_error(f'is "{told}"', f"invalid string input for 'devices': {told}"), remedy)
    elif told is None and "devices" in entry.fields:
        yield file.problem(steps, with_error("is empty", "invalid string input for 'devices': ").rstrip(), remedy)
    elif isinstance(told, list):
        for index, item in enumerate(told):
            if not is_count(item):
                text = f"is {_value_text(item)}, not a whole number; mig-parted cannot read it"
                yield file.problem((*steps, index), text, "write the number of a GPU, without quotes")
    elif told is not None and not isinstance(told, str):
        yield file.problem(steps, f"is {_value_text(told)}, not a list; mig-parted cannot read it", remedy)


def _mig_devices(file: MIGFile, entry: Entry) -> Iterator[Problem]:
    told = entry.fields.get("mig-devices")
    steps = (*entry.steps, "mig-devices")
    if told is None:
        if entry.is_mig_enabled:
            error = "missing required field 'mig-devices' when 'mig-enabled' is true"
            remedy = 'write mig-devices: with a profile and a number, such as "1g.10gb": 7'
            yield file.problem(steps, with_error("is missing", error), remedy)
        return
    if not isinstance(told, dict):
        yield file.problem(
            steps, f"is {_value_text(told)} and no mapping of profiles to numbers; mig-parted cannot read it"
        )
        return
    if told and entry.fields.get("mig-enabled") in (False, None) and "mig-enabled" in entry.fields:
        text = with_error("is not empty", "MIG devices included when 'mig-enabled' is false")
        yield file.problem(steps, text, "write mig-enabled: true, or remove mig-devices", of_key=True)
    for name, count in told.items():
        yield from _profile(file, (*steps, name), name, count)
    if told and all(is_count(count) and count == 0 for count in told.values()):
        text = with_error("has no count above 0", f"{_INVALID}: all counts for all MigProfiles are 0")
        yield file.problem(steps, text, "write how many of them each GPU gets", of_key=True)


def _profile(file: MIGFile, steps: tuple[str | int, ...], name: str, count: Any) -> Iterator[Problem]:
    if MIGProfile.parse(name) is None:
        text = with_error("is not a MIG profile", f"{_INVALID}: invalid format for '{name}'")
        meant = _meant_profile(name)
        remedy = f'write "{meant}"' if meant else "write a profile such as 1g.10gb, 3g.40gb or 1g.10gb+me"
        yield file.problem(steps, text, remedy, of_key=True)
    if not is_count(count):
        text = f"is {_value_text(count)}, not a whole number; mig-parted cannot read it"
        yield file.problem(steps, text, "write how many of them each GPU gets, without quotes")
    elif count < 0:
        text = with_error(f"is {count}", f"{_INVALID}: invalid count for '{count}'")
        yield file.problem(steps, text, "write how many of them each GPU gets")


def _meant_profile(name: str) -> MIGProfile | None:
    """The profile that a resource name, a label or a name in capitals stands for."""
    bare = name.strip().lower().removeprefix(VENDOR_PREFIX).removeprefix("mig-")
    return MIGProfile.parse(bare) or MIGProfile.from_label(bare)


def _value_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    return "empty" if value is None else f'"{value}"' if isinstance(value, str) else str(value)


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
