"""GPU clients: the services of a node that the MIG manager stops while it changes the MIG mode of the GPUs.

Source: github.com/NVIDIA/mig-parted cmd/nvidia-mig-manager/main.go parseGPUCLientsFile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.checks import Problem, problem
from policies.configuration.config_maps.mig_parted.reading import LIMITS
from policies.decision import Place, Severity
from policies.kubernetes.misspellings import closest
from policies.kubernetes.paths import FieldPath
from policies.kubernetes.yaml import YAMLError, load_document

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CLIENTS_FILE", "clients_problems"]

CLIENTS_FILE = "clients.yaml"
"""The key of the ConfigMap: the MIG manager reads /gpu-clients/clients.yaml."""
_SERVICES = "systemd-services"
_FIELDS = ("version", _SERVICES)
_FAILS = "no node could be divided by MIG: error parsing host's GPU clients file"


def clients_problems(text: Any) -> Iterator[Problem]:
    """What the MIG manager cannot read in the file, or ignores."""
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
