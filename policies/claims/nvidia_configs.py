"""The configs that NVIDIA's drivers read, and the requests whose devices they are for.

Source: dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/device_state.go getConfigResultsMap.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from policies.claims.claim_subject import CLAIM_OR_TEMPLATE, CLAIMS
from policies.devices.deviceclasses import SHIPPED_TYPES, TYPES
from policies.devices.resource_claims import MOST_DEVICES, MOST_ENTRIES, is_within_lists
from policies.devices.selected_types import selected_types
from policies.kubernetes.names import closest, printable
from policies.kubernetes.objects import FieldPath, lookup
from policies.kubernetes.schema import find_problems
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.config_grammar import API_VERSION, DRIVERS, SCHEMAS, SINCE, TYPE_OF, TYPES_OF_DRIVER, is_older
from policies.rules.decision import Severity
from policies.rules.registry import Problem, problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.claims.claim_subject import Facts, Subject
    from policies.devices.resource_claims import Config, DeviceRequest, Subrequest
    from policies.kubernetes.schema import Field, SchemaProblem

__all__ = [
    "NvidiaConfig",
    "all_selectors",
    "listed_types",
    "most_devices",
    "nvidia_configs",
    "reached_requests",
    "requested_types",
    "types_selected",
]


@dataclass(frozen=True, eq=False)
class NvidiaConfig:
    """One config for one of NVIDIA's drivers."""

    config: Config
    parameters: dict[str, Any]
    kind: str
    """The kind of its parameters; empty where its driver does not read them."""

    @cached_property
    def driver(self) -> str:
        """`gpu.nvidia.com` or `compute-domain.nvidia.com`."""
        return self.config.driver

    @cached_property
    def schema_problems(self) -> tuple[SchemaProblem, ...]:
        """What the schema of its kind does not allow."""
        schema = SCHEMAS.get(self.kind)
        return () if schema is None else tuple(find_problems(schema, self.parameters, self.at()))

    @cached_property
    def strategy(self) -> str:
        """The sharing strategy, of any value; empty if it is missing."""
        strategy = self.value("sharing", "strategy")
        return strategy if isinstance(strategy, str) else ""

    @property
    def mps(self) -> dict[str, Any]:
        """The settings of MPS where they are in effect; empty otherwise."""
        settings = self.value("sharing", "mpsConfig")
        return settings if self.strategy == "MPS" and isinstance(settings, dict) else {}

    def value(self, *steps: str) -> Any:
        """A part of the parameters; None where it is missing."""
        return lookup(self.parameters, steps)

    def at(self, *steps: str) -> FieldPath:
        """Where a part of the parameters is."""
        return FieldPath((*self.config.parameters_path, *steps))


def nvidia_configs(subject: Subject, *kinds: str) -> Sequence[NvidiaConfig]:
    """The new configs for one of NVIDIA's drivers, only of the given kinds if any are given."""
    if not subject.new_configs:
        return ()
    configs = subject.facts.effort.cache(nvidia_configs, lambda: [*_nvidia_configs(subject)])
    return [found for found in configs if found.kind in kinds] if kinds else configs


def _nvidia_configs(subject: Subject) -> Iterator[NvidiaConfig]:
    for config in subject.new_configs:
        parameters, driver = config.parameters, config.driver
        if driver in DRIVERS and isinstance(parameters, dict):
            kind, version = parameters.get("kind"), parameters.get("apiVersion")
            is_read = isinstance(kind, str) and kind in DRIVERS[driver] and version in (None, API_VERSION)
            yield NvidiaConfig(config, parameters, str(kind) if is_read else "")


def requested_types(subrequest: Subrequest, facts: Facts) -> frozenset[str]:
    """The types of devices that a request can get; all of them where its class is not known."""
    return facts.effort.cache((requested_types, subrequest.path), lambda: _requested_types(subrequest, facts))


def _requested_types(subrequest: Subrequest, facts: Facts) -> frozenset[str]:
    types, own = _types_of_class(subrequest.device_class, facts), _own_selectors(subrequest)
    return types & selected_types(own) if types and facts.effort.admit_own(subrequest.path, own) else types


def types_selected(subject: Subject) -> frozenset[str]:
    """The types of devices that a DeviceClass under review selects."""
    texts = [selector.text for selector in subject.selectors[:MOST_ENTRIES]]
    return selected_types(texts) if subject.facts.effort.admit_own(subject.devices_path, texts) else TYPES


def reached_requests(found: NvidiaConfig, subject: Subject) -> tuple[Subrequest, ...]:
    """The requests to whose devices the driver may apply a config.

    It compares the names that a config has exactly; one without names is for all devices of its type.
    """
    names = found.config.requests
    if names:
        return tuple(subrequest for subrequest in subject.subrequests if subrequest.full_name in names)
    type_ = TYPE_OF.get(found.kind, "")
    return tuple(
        subrequest for subrequest in subject.subrequests if type_ in requested_types(subrequest, subject.facts)
    )


def most_devices(found: NvidiaConfig, subject: Subject) -> int:
    """The most devices that a config can apply to at once; of a prioritized list one alternative counts."""
    if subject.kind == "DeviceClass":
        return MOST_DEVICES
    names = {subrequest.full_name for subrequest in reached_requests(found, subject)}
    counts = [
        max(
            (_most_of_request(subrequest) for subrequest in request.subrequests if subrequest.full_name in names),
            default=0,
        )
        for request in subject.requests
    ]
    return min(sum(counts), MOST_DEVICES) or MOST_DEVICES


def _own_selectors(subrequest: Subrequest) -> Sequence[str]:
    """The CEL expressions of a request; empty for a request beyond the length that lists may have."""
    return subrequest.expressions[:MOST_ENTRIES] if is_within_lists(subrequest.path) else ()


def all_selectors(subrequest: Subrequest, facts: Facts) -> Iterator[str]:
    """The CEL expressions of a request and, where it is known, of its class."""
    yield from facts.class_selectors(subrequest.device_class) or ()
    yield from _own_selectors(subrequest)


def listed_types(types: frozenset[str], driver: str) -> str:
    """Types of a driver's devices as a message lists them; may be empty."""
    return " or ".join(f'"{type_}"' for type_ in sorted(types & TYPES_OF_DRIVER[driver]))


def _types_of_class(name: str, facts: Facts) -> frozenset[str]:
    texts = facts.class_selectors(name)
    if texts is not None:
        admitted = facts.effort.admit_class(name, texts[:MOST_ENTRIES])
        return selected_types(texts[:MOST_ENTRIES]) if admitted else TYPES
    is_shipped = name in SHIPPED_TYPES and not isinstance(facts.device_class(name), dict)
    return frozenset({SHIPPED_TYPES[name]}) if is_shipped else TYPES


def _most_of_request(subrequest: Subrequest) -> int:
    return MOST_DEVICES if subrequest.allocation_mode == "All" else max(subrequest.count, 0)


@CLAIMS.rule(
    "GA249",
    "A config must name the alternatives of a prioritized list, not the list",
    default=Severity.DENY,
    remedy="write the alternatives, as in gpu/large, or leave requests out to mean all devices of the type",
    source="dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/device_state.go getConfigResultsMap",
    kinds=CLAIM_OR_TEMPLATE,
)
def named_alternatives(subject: Subject) -> Iterator[Problem]:
    """In Kubernetes the name of a list stands for its alternatives; in NVIDIA's driver it does not.

    The devices that were allocated are those of `gpu/large`. The driver finds no config of that name and takes its
    default silently, so that a GPU that was to be shared is not.
    """
    lists = {request.name: request for request in subject.requests if request.is_prioritized}
    for found in nvidia_configs(subject):
        names = found.config.fields.get("requests")
        for index, name in enumerate(names if isinstance(names, list) else ()):
            missing = _missing_names(lists[name], found, subject) if isinstance(name, str) and name in lists else []
            if missing:
                devices = ", ".join(f'"{printable(alternative)}"' for alternative in missing)
                text = f'"{printable(name)}" is a prioritized list, whose devices are those of {devices}; '
                text += f"{found.driver} compares names exactly and ignores the config"
                path = found.config.path / "requests" / index
                yield problem(path, text, f"write {', '.join(map(printable, missing))}")


def _missing_names(request: DeviceRequest, found: NvidiaConfig, subject: Subject) -> list[str]:
    """The alternatives that can get devices of the config's type, and that the config does not name."""
    type_ = TYPE_OF.get(found.kind)
    return [
        subrequest.full_name
        for subrequest in request.subrequests
        if subrequest.full_name not in found.config.requests
        and (type_ is None or type_ in requested_types(subrequest, subject.facts))
    ]


_KIND_OF = {type_: kind for kind, type_ in TYPE_OF.items()}


@CLAIMS.rule(
    "GA250",
    "A config must be for devices of its type",
    default=Severity.DENY,
    remedy="write the kind of config that these devices have",
    source="dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/device_state.go validateDeviceConfigType",
)
def matching_types(subject: Subject) -> Iterator[Problem]:
    """If a GpuConfig is for a request that gets a MIG device, the driver refuses to prepare the device.

    That goes for a config that names the request, and for one of its class. What a request gets is known by its class
    and by its selectors; nothing is said where they leave it open.
    """
    for found in nvidia_configs(subject, *TYPE_OF):
        if subject.kind == "DeviceClass":
            types = types_selected(subject)
            if _is_refused(found, types):
                text = f"cannot apply {found.kind} to devices of type {listed_types(types, found.driver)}"
                yield problem(found.at("kind"), f"{text}, which the class is for", _kind_remedy(types))
            continue
        types_by_name = {
            subrequest.full_name: requested_types(subrequest, subject.facts)
            for subrequest in reached_requests(found, subject)
        }
        for index, name in _named_requests(found):
            types = types_by_name.get(name, frozenset())
            if _is_refused(found, types):
                text = f"cannot apply {found.kind} to devices of type {listed_types(types, found.driver)}"
                text += f" (request: {printable(name)})"
                yield problem(found.config.path / "requests" / index, text, _kind_remedy(types))


@CLAIMS.rule(
    "GA251",
    "A config must be for devices that the claim requests",
    default=Severity.WARN,
    remedy="remove the config, or request devices of its type",
    source="dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/device_state.go matchesDeviceType",
)
def effective_configs(subject: Subject) -> Iterator[Problem]:
    """A config without requests is for all devices of its type; if there are none, it has no effect.

    So it does with a config for devices of another driver.
    """
    for found in nvidia_configs(subject, *TYPE_OF):
        type_ = TYPE_OF[found.kind]
        text = f'is for devices of type "{type_}" of {found.driver}, and'
        if subject.kind == "DeviceClass":
            types = types_selected(subject)
            if type_ not in types and not _is_refused(found, types):
                yield problem(found.at("kind"), f"{text} the class selects none")
        elif not found.config.requests:
            if subject.requests and not reached_requests(found, subject):
                yield problem(found.at("kind"), f"{text} no request can get one")
        else:
            yield from _foreign_requests(found, subject, text)


def _foreign_requests(found: NvidiaConfig, subject: Subject, text: str) -> Iterator[Problem]:
    types_by_name = {
        subrequest.full_name: requested_types(subrequest, subject.facts)
        for subrequest in reached_requests(found, subject)
    }
    for index, name in _named_requests(found):
        types = types_by_name.get(name, frozenset({TYPE_OF[found.kind]}))
        if TYPE_OF[found.kind] not in types and not _is_refused(found, types):
            path = found.config.path / "requests" / index
            yield problem(path, f'the {found.kind} {text} request "{printable(name)}" can get none')


def _named_requests(found: NvidiaConfig) -> Iterator[tuple[int, str]]:
    names = found.config.fields.get("requests")
    for index, name in enumerate(names if isinstance(names, list) else ()):
        if isinstance(name, str):
            yield index, name


def _is_refused(found: NvidiaConfig, types: frozenset[str]) -> bool:
    """True if devices of the config's driver can be meant, and none of them is of its type."""
    return TYPE_OF[found.kind] not in types and bool(listed_types(types, found.driver))


def _kind_remedy(types: frozenset[str]) -> str | None:
    kinds = [kind for kind in (_KIND_OF.get(type_) for type_ in sorted(types)) if kind is not None]
    return f"write opaque.parameters.kind: {kinds[0]}" if len(kinds) == 1 else None


@CLAIMS.rule(
    "GA252",
    "A config must not hide another for the same request",
    default=Severity.WARN,
    remedy="write all settings in one config, or name each request in one config only",
    source="dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/device_state.go getConfigResultsMap, GetOpaqueDeviceConfigs",
    kinds=CLAIM_OR_TEMPLATE,
)
def hidden_configs(subject: Subject) -> Iterator[Problem]:
    """Configs are not merged: a device has the last that is for it, and of the others it has nothing.

    A config for all devices that a later one amends for some of them is meant like that, and so is a config of a claim
    beside that of a class.
    """
    if subject.kind == "DeviceClass":
        return
    configs = list(nvidia_configs(subject, *TYPE_OF))
    for position, found in enumerate(configs):
        hidden = [
            (subrequest, _later_config(subrequest, found, configs[position + 1 :], subject))
            for subrequest in reached_requests(found, subject)
        ]
        if found.config.requests:
            for subrequest, later in hidden:
                if later is not None:
                    path = found.config.path / "requests" / _position(found, subrequest)
                    text = f'has no effect on "{printable(subrequest.full_name)}", for which {later.config.path} comes later'
                    yield problem(path, text)
        elif hidden and all(later is not None for _, later in hidden):
            yield problem(found.config.path, "has no effect, since later configs are for all requests that it is for")


def _later_config(
    subrequest: Subrequest, found: NvidiaConfig, later: Sequence[NvidiaConfig], subject: Subject
) -> NvidiaConfig | None:
    """A later config that the devices of a request certainly have."""
    types = requested_types(subrequest, subject.facts) & TYPES_OF_DRIVER[found.driver]
    for other in later:
        fits = other.driver == found.driver and other.kind == found.kind
        if fits and (
            subrequest.full_name in other.config.requests
            or (not other.config.requests and types == {TYPE_OF[other.kind]})
        ):
            return other
    return None


def _position(found: NvidiaConfig, subrequest: Subrequest) -> int:
    names: list[object] = found.config.fields["requests"]
    return names.index(subrequest.full_name)


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
