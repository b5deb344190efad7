"""Strict decoding: the driver refuses a config with a field that it does not know, or a value of another type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.decision import Severity
from policies.dra.claims.checks import CLAIMS
from policies.dra.claims.nvidia.configs import nvidia_configs
from policies.dra.claims.nvidia.releases import older
from policies.dra.claims.nvidia.schemas import SCHEMAS, SINCE
from policies.kubernetes.paths import FieldPath, lookup
from policies.kubernetes.printable import printable
from policies.schema import Field, find_problems
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.dra.claims.nvidia.configs import NvidiaConfig
    from policies.dra.claims.subject import Subject
    from policies.schema import SchemaProblem

_TYPE_META = ("apiVersion", "kind")


@CLAIMS.rule(
    "GA241",
    "The fields of a config must belong to its kind",
    default=Severity.DENY,
    remedy="remove it",
    source="dra-driver-nvidia-gpu api/nvidia.com/resource/v1beta1/api.go StrictDecoder",
)
def strict_fields(subject: Subject) -> Iterator[Problem]:
    """Kubernetes stores parameters as they are; the driver decodes them strictly, and its refusal is in events of pods.

    Upper and lower case count. A field of a newer release is one that the release before does not know.
    """
    for found in nvidia_configs(subject):
        for wrong in _problems(found):
            if wrong.kind == "unknown":
                yield problem(wrong.path, _unknown(found, wrong.path), _remedy(found, wrong))
        yield from _newer_fields(subject, found)


@CLAIMS.rule(
    "GA242",
    "The values of a config must have the types of its kind",
    default=Severity.DENY,
    remedy="write a value of that type",
    source="dra-driver-nvidia-gpu api/nvidia.com/resource/v1beta1, the types of its fields",
)
def decodable_values(subject: Subject) -> Iterator[Problem]:
    """A value of another type ends the decoding of the whole config, and with it the preparation of the devices.

    Nothing else is checked of a part that has the wrong type. A null counts as a field that is not there.
    """
    for found in nvidia_configs(subject):
        for wrong in _problems(found):
            if wrong.kind == "type":
                yield problem(wrong.path, wrong.message, wrong.remedy)


def _problems(found: NvidiaConfig) -> Iterator[SchemaProblem]:
    schema = SCHEMAS.get(found.kind)
    if schema is not None:
        yield from find_problems(schema, found.parameters, found.at())


def _unknown(found: NvidiaConfig, path: FieldPath) -> str:
    return f'strict decoding error: unknown field "{printable(str(_inside(found, path)))}"'


def _inside(found: NvidiaConfig, path: FieldPath) -> FieldPath:
    return FieldPath(path[len(found.at()) :])


def _remedy(found: NvidiaConfig, wrong: SchemaProblem) -> str:
    name = wrong.path[-1]
    if found.kind == "MigDeviceConfig" and name in ("timeSlicingConfig", "interval"):
        return "remove it; the time slices of MIG devices cannot be set"
    if wrong.remedy.startswith("write "):
        return wrong.remedy
    schema = SCHEMAS[found.kind]
    place = next((place for place in _places(schema, FieldPath()) if place[-1] == name), None)
    if place is not None:
        parent = FieldPath(place[:-1])
        return f"write it under {parent}" if parent else "write it beside apiVersion and kind"
    parents = _field_at(schema, _inside(found, wrong.path)[:-1]).fields
    return f"remove it; there are {', '.join(sorted(field for field in parents if field not in _TYPE_META))}"


def _places(schema: Field, path: FieldPath) -> Iterator[FieldPath]:
    """All fields that a config can have."""
    for name, field in schema.fields.items():
        yield path / name
        yield from _places(field, path / name)


def _field_at(schema: Field, steps: tuple[str | int, ...]) -> Field:
    for step in steps:
        schema = schema.fields[str(step)]
    return schema


def _newer_fields(subject: Subject, found: NvidiaConfig) -> Iterator[Problem]:
    running = subject.facts.driver_version()
    for (kind, field), first in SINCE.items():
        steps = tuple(field.split("."))
        if kind != found.kind or running is UNKNOWN or not older(running, first):
            continue
        if field and lookup(found.parameters, steps) is not None:
            text = f'strict decoding error: unknown field "{field}" in the driver\'s release {running}'
            yield problem(found.at(*steps), text, f"upgrade the driver to {first}, or remove it")
