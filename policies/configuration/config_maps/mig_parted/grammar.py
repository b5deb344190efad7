"""Grammar: version, names and entries of a mig-parted file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.configuration.config_maps.mig_parted.documents import MIG_FILE, MIGFile
from policies.configuration.config_maps.mig_parted.entries import entry_problems, reported
from policies.configuration.config_maps.mig_parted.reading import CONFIGS, Entry
from policies.decision import Severity
from policies.kubernetes.misspellings import closest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.checks import Problem

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
    """mig-parted reads strictly, and the whole file: a mistake in a configuration that nobody uses stops all others.

    So a file that worked for months stops working with the next name that is added to it.
    """
    yield from _version(file)
    guesses = {name: closest(name, _FIELDS) for name in file.value if name not in _FIELDS}
    for name, guess in guesses.items():
        remedy = f'write "{guess}"' if guess else f"indent it below {CONFIGS}, or remove it"
        yield file.problem((name,), reported("is unknown", f"unexpected field: {name}"), remedy, of_key=True)
    configs = file.value.get(CONFIGS)
    if CONFIGS not in file.value:
        if CONFIGS not in guesses.values():
            yield file.problem((), f"has no {CONFIGS}, so every value of the label nvidia.com/mig.config fails")
    elif not configs and (configs is None or isinstance(configs, dict)):
        yield file.problem((CONFIGS,), reported("is empty", f"at least one entry in '{CONFIGS}' is required"))
    elif not isinstance(configs, dict):
        yield file.problem((CONFIGS,), "is no mapping of names to lists of entries; mig-parted cannot read it")
    else:
        for name, items in configs.items():
            yield from _config(file, name, items)


def _version(file: MIGFile) -> Iterator[Problem]:
    remedy = f"write version: {_VERSION}"
    version = file.value.get("version")
    if "version" not in file.value:
        yield file.problem((), reported("has no version", "unable to parse with missing 'version' field"), remedy)
    elif version is None:
        yield file.problem(("version",), reported("is empty", "unknown version:"), remedy)
    elif isinstance(version, str) and version != _VERSION:
        yield file.problem(("version",), reported(f'is "{version}"', f"unknown version: {version}"), remedy)
    elif not isinstance(version, str):
        yield file.problem(("version",), f"is {version}, and no text; mig-parted cannot read it", remedy)


def _config(file: MIGFile, name: str, items: Any) -> Iterator[Problem]:
    steps = (CONFIGS, name)
    if not items and (items is None or isinstance(items, list)):
        text = reported("has no entries", f"at least one entry in '{name}' is required")
        yield file.problem(steps, text, f"write [{_ENTRY}]", of_key=True)
    elif not isinstance(items, list):
        yield file.problem(steps, "is no list of entries; mig-parted cannot read it", "begin its first line with -")
    else:
        for index, item in enumerate(items):
            if not isinstance(item, dict):
                yield file.problem((*steps, index), "is no mapping; mig-parted cannot read it", f"write {_ENTRY}")
            else:
                yield from entry_problems(file, Entry(name, index, item))
