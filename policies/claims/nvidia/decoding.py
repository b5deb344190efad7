"""What a driver can decode: the kinds of configs, their fields and the types of these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.claims.nvidia.configs import NvidiaConfig, nvidia_configs
from policies.claims.subject import CLAIMS
from policies.kubernetes.objects import FieldPath, lookup
from policies.kubernetes.phrases import closest, printable
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.claim_configs import API_VERSION, DRIVERS, SCHEMAS, SINCE, is_older
from policies.rules.decision import Severity
from policies.rules.registry import Problem, problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.claims.subject import Subject
    from policies.devices.resource_claims import Config
    from policies.kubernetes.schema import Field, SchemaProblem

_DRIVER_OF = {kind: driver for driver, kinds in DRIVERS.items() for kind in kinds}
_OBJECTS = ("ComputeDomain", "ComputeDomainClique")


@CLAIMS.rule(
    "GA240",
    "The parameters of a config must be of a kind that the driver reads",
    default=Severity.DENY,
    remedy=f"write apiVersion: {API_VERSION} and the kind of a config",
    source="dra-driver-nvidia-gpu api/nvidia.com/resource/v1beta1/api.go; prepareDevices of both kubelet plugins",
)
def readable_kinds(subject: Subject) -> Iterator[Problem]:
    """The driver decodes a config when it prepares devices; if that fails, pods stay ContainerCreating.

    The driver for GPUs reads GpuConfig, MigDeviceConfig and VfioDeviceConfig, that for ComputeDomains the configs of
    channels and daemons. NVIDIA's own webhook, where it is installed, knows no VfioDeviceConfig and refuses it too. A
    config for a driver that does not exist has no reader.
    """
    for found in nvidia_configs(subject):
        yield from _kind_problems(found)
        yield from _version_problems(found)
        yield from _release_problems(subject, found)
    for config in subject.new_configs:
        yield from _driver_problems(config)


def _kind_problems(found: NvidiaConfig) -> Iterator[Problem]:
    kind, known = found.parameters.get("kind"), DRIVERS[found.driver]
    if isinstance(kind, str) and kind in known:
        return
    path = found.at("kind")
    if kind is None or kind == "":
        yield problem(path, "Object 'Kind' is missing", f"write {_one_of(known)}")
    elif not isinstance(kind, str):
        yield problem(path, "couldn't get version/kind; json parse error: kind is not text", f"write {_one_of(known)}")
    elif kind in _DRIVER_OF:
        remedy = f"write driver: {_DRIVER_OF[kind]}, or {_one_of(known)}"
        yield problem(path, _unrecognized_kind(kind, found.driver), remedy)
    elif kind in _OBJECTS:
        yield problem(path, _unrecognized_kind(kind, found.driver), f"create the {kind} as an object of its own")
    else:
        guess = closest(kind, known) or closest(kind, _DRIVER_OF)
        version = _text_of(found.parameters.get("apiVersion")) or API_VERSION
        text = f'no kind "{printable(kind)}" is registered for version "{version}"'
        yield problem(path, text, f'write "{guess}"' if guess else f"write {_one_of(known)}")


def _version_problems(found: NvidiaConfig) -> Iterator[Problem]:
    version, kind = found.parameters.get("apiVersion"), found.parameters.get("kind")
    if version == API_VERSION:
        return
    path, remedy = found.at("apiVersion"), f"write {API_VERSION}"
    if version is None or version == "":
        yield problem(path, "Object 'apiVersion' is missing", remedy)
    elif not isinstance(version, str):
        yield problem(path, "couldn't get version/kind; json parse error: apiVersion is not text", remedy)
    elif isinstance(kind, str) and kind in DRIVERS[found.driver]:
        text = f'no kind "{kind}" is registered for version "{printable(version)}"'
        yield problem(path, text, remedy)


def _release_problems(subject: Subject, found: NvidiaConfig) -> Iterator[Problem]:
    running, first = subject.facts.driver_version(), SINCE.get((found.kind, ""))
    if running is not UNKNOWN and first is not None and is_older(running, first):
        text = f'no kind "{found.kind}" is registered for version "{API_VERSION}" in the driver\'s release {running}'
        yield problem(found.at("kind"), text, f"upgrade the driver to {first}, or remove the config")


def _driver_problems(config: Config) -> Iterator[Problem]:
    """A problem for a config without a reader that is certainly meant for a driver of NVIDIA."""
    parameters = config.parameters
    if not config.driver or config.driver in DRIVERS or not isinstance(parameters, dict):
        return
    kind, version = parameters.get("kind"), parameters.get("apiVersion")
    if isinstance(kind, str) and kind in _DRIVER_OF and version == API_VERSION:
        text = f'"{printable(config.driver)}" is not a driver that reads {kind}, so the config has no effect'
        path = config.path / "opaque" / "driver"
        yield problem(path, text, f'write "{_DRIVER_OF[kind]}"', severity=Severity.WARN)


def _unrecognized_kind(kind: str, driver: str) -> str:
    return f"runtime object is not a recognized configuration: {driver} reads no {kind}"


def _one_of(kinds: tuple[str, ...]) -> str:
    return f"one of {', '.join(kinds)}"


def _text_of(version: Any) -> str:
    return printable(version) if isinstance(version, str) else ""


_TYPE_META = ("apiVersion", "kind")


@CLAIMS.rule(
    "GA241",
    "The fields of a config must belong to its kind",
    default=Severity.DENY,
    remedy="remove it",
    source="dra-driver-nvidia-gpu api/nvidia.com/resource/v1beta1/api.go StrictDecoder",
)
def strict_fields(subject: Subject) -> Iterator[Problem]:
    """Kubernetes does not check parameters; the driver decodes them strictly. Events of pods show errors.

    Upper and lower case count. A field of a newer release is one that the release before does not know.
    """
    for found in nvidia_configs(subject):
        for wrong in found.schema_problems:
            if wrong.kind == "unknown":
                yield problem(wrong.path, _unknown_text(found, wrong.path), _remedy(found, wrong))
        yield from _newer_fields(subject, found)


@CLAIMS.rule(
    "GA242",
    "The values of a config must have the types of its kind",
    default=Severity.DENY,
    remedy="write a value of that type",
    source="dra-driver-nvidia-gpu api/nvidia.com/resource/v1beta1, the types of its fields",
)
def decodable_values(subject: Subject) -> Iterator[Problem]:
    """The driver cannot decode a config with a value of another type, and does not prepare the devices.

    Nothing else is checked of a part that has the wrong type. A null counts as a field that is not there.
    """
    for found in nvidia_configs(subject):
        for wrong in found.schema_problems:
            if wrong.kind == "type":
                yield problem(wrong.path, wrong.message, wrong.remedy)


def _unknown_text(found: NvidiaConfig, path: FieldPath) -> str:
    return f'strict decoding error: unknown field "{printable(str(_inner_path(found, path)))}"'


def _inner_path(found: NvidiaConfig, path: FieldPath) -> FieldPath:
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
    parents = _field_at(schema, _inner_path(found, wrong.path)[:-1]).fields
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
    if running is UNKNOWN:
        return
    for (kind, field), first in SINCE.items():
        if kind != found.kind or not is_older(running, first):
            continue
        steps = tuple(field.split("."))
        if field and lookup(found.parameters, steps) is not None:
            text = f'strict decoding error: unknown field "{field}" in the driver\'s release {running}'
            yield problem(found.at(*steps), text, f"upgrade the driver to {first}, or remove it")
