"""The configs that NVIDIA's drivers read, and the requests whose devices they are for.

Source: dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/device_state.go getConfigResultsMap.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from policies.claims.claim_subject import CLAIMS, CLAIMS_AND_CLASSES, cache_per_review
from policies.devices.deviceclasses import SHIPPED_TYPES, TYPES
from policies.devices.resource_claims import MOST_DEVICES, MOST_ENTRIES, is_within_lists
from policies.devices.selected_types import selected_types
from policies.kubernetes.names import closest, printable
from policies.kubernetes.objects import FieldPath, lookup
from policies.kubernetes.schema import find_problems
from policies.kubernetes.versions import Feature
from policies.nvidia.config_grammar import ADDED, API_VERSION, DRIVERS, SCHEMAS, TYPE_OF, TYPES_OF_DRIVER
from policies.nvidia.identifiers import COMPUTE_DOMAIN_DRIVER, DRIVER
from policies.nvidia.releases import NVIDIAFeature
from policies.rules.checks import Problem
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.claims.claim_subject import Facts, Subject
    from policies.devices.resource_claims import Config, Subrequest
    from policies.kubernetes.schema import Field, SchemaProblem


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
        """The problems by the schema of its kind."""
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
    configs = _nvidia_configs(subject)
    return [found for found in configs if found.kind in kinds] if kinds else configs


@cache_per_review
def _nvidia_configs(subject: Subject) -> Sequence[NvidiaConfig]:
    found: list[NvidiaConfig] = []
    # Another rule reports a list that is too long.
    for config in subject.new_configs[:MOST_ENTRIES]:
        parameters, driver = config.parameters, config.driver
        if driver in DRIVERS and isinstance(parameters, dict):
            kind, version = parameters.get("kind"), parameters.get("apiVersion")
            is_read = isinstance(kind, str) and kind in DRIVERS[driver] and version in (None, API_VERSION)
            found.append(NvidiaConfig(config, parameters, str(kind) if is_read else ""))
    return found


def requested_types(subrequest: Subrequest, facts: Facts) -> frozenset[str]:
    """The types of devices that a request can get; all of them where its class is not known."""

    def types() -> frozenset[str]:
        of_class, own = _types_of_class(subrequest.device_class, facts), _own_selectors(subrequest)
        is_admitted = of_class and facts.effort.admit_own(subrequest.path, own)
        return of_class & selected_types(own) if is_admitted else of_class

    return facts.effort.cache((requested_types, subrequest.path), types)


def types_selected(subject: Subject) -> frozenset[str]:
    """The types of devices that a DeviceClass under review selects."""
    texts = [selector.text for selector in subject.selectors[:MOST_ENTRIES]]
    return selected_types(texts) if subject.effort.admit_own(subject.devices_path, texts) else TYPES


def reached_requests(found: NvidiaConfig, subject: Subject) -> tuple[Subrequest, ...]:
    """The requests to whose devices the driver may apply a config.

    It compares the names that a config has exactly; one without names is for all devices of its type.
    """
    names, type_ = found.config.requests, TYPE_OF.get(found.kind, "")
    return tuple(
        each
        for each in subject.reviewed_subrequests
        if (each.full_name in names if names else type_ in requested_types(each, subject.facts))
    )


def later_config(found: NvidiaConfig, subrequest: Subrequest, subject: Subject) -> NvidiaConfig | None:
    """The later config that the driver certainly takes for the devices of a request; None without one."""
    configs = nvidia_configs(subject, *TYPE_OF)
    types = requested_types(subrequest, subject.facts) & TYPES_OF_DRIVER[found.driver]
    for later in configs[configs.index(found) + 1 :]:
        names = later.config.requests
        is_taken = subrequest.full_name in names if names else types == {TYPE_OF[later.kind]}
        if later.driver == found.driver and is_taken:
            return later
    return None


def applied_configs(subject: Subject, *kinds: str) -> Sequence[NvidiaConfig]:
    """The configs of some kinds that a device can have; the driver checks the values of no others.

    Other rules report the configs that have no effect.

    Source: dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/device_state.go prepareDevices.
    """
    configs = nvidia_configs(subject, *kinds)
    if subject.kind == "DeviceClass":
        last, types = {found.kind: found for found in configs}, types_selected(subject)
        return [found for found in configs if last[found.kind] is found and TYPE_OF[found.kind] in types]
    if not subject.requests:
        return configs
    return [
        found
        for found in configs
        if any(later_config(found, each, subject) is None for each in reached_requests(found, subject))
    ]


def names_requests(found: NvidiaConfig, subject: Subject) -> bool:
    """True if a config certainly names requests when the driver reads it.

    The scheduler writes the requests of a class into its configs since Kubernetes 1.35. Before, such a config was for all
    requests of the claim.

    Source: k8s.io/dynamic-resource-allocation/structured/internal/stable/allocator_stable.go Allocate.
    """
    if subject.kind != "DeviceClass":
        return bool(found.config.requests)
    return Feature.RequestsInClassConfigs.is_on(subject.facts.view) is True


def most_devices(found: NvidiaConfig, subject: Subject) -> int:
    """The most devices that a config can apply to at once; of a prioritized list one alternative counts."""
    if subject.kind == "DeviceClass":
        return MOST_DEVICES
    names = {subrequest.full_name for subrequest in reached_requests(found, subject)}
    total = 0
    for request in subject.requests:
        reached = [each for each in request.subrequests if each.full_name in names]
        counts = [MOST_DEVICES if each.allocation_mode == "All" else max(each.count, 0) for each in reached]
        total += max(counts, default=0)
    return min(total, MOST_DEVICES) or MOST_DEVICES


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


@CLAIMS.rule(
    "GA249",
    "A config must name the alternatives of a prioritized list, not the list",
    default=Severity.WARN,
    remedy="write the alternatives, as in gpu/large, or leave requests out to mean all devices of the type",
    source="dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/device_state.go getConfigResultsMap",
)
def named_alternatives(subject: Subject) -> Iterator[Problem]:
    """In Kubernetes the name of a list stands for its alternatives; in NVIDIA's driver it does not.

    The devices that were allocated are those of `gpu/large`. The driver finds no config of that name and takes its
    default silently, so that a GPU that was to be shared is not. The default config of ComputeDomains has no domain, so
    such a claim is refused.
    """
    lists = {request.name: request for request in subject.requests if request.is_prioritized}
    for found in nvidia_configs(subject):
        type_ = TYPE_OF.get(found.kind)
        for index, name in _named_requests(found):
            missing = [
                each.full_name
                for each in (lists[name].subrequests if name in lists else ())
                if each.full_name not in found.config.requests
                and (type_ is None or type_ in requested_types(each, subject.facts))
            ]
            if missing:
                devices = ", ".join(f'"{printable(alternative)}"' for alternative in missing)
                text = f'"{printable(name)}" is a prioritized list, whose devices are those of {devices}; '
                text += f"{found.driver} compares names exactly and ignores the config"
                path = found.config.path / "requests" / index
                severity = Severity.DENY if found.driver == COMPUTE_DOMAIN_DRIVER else None
                yield Problem(path, text, f"write {', '.join(map(printable, missing))}", severity=severity)


@CLAIMS_AND_CLASSES.rule(
    "GA250",
    "A config must be for devices of its type",
    remedy="write the kind of config that these devices have",
    source="dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/device_state.go getConfigResultsMap, validateDeviceConfigType; "
    "k8s.io/dynamic-resource-allocation/structured/internal/stable/allocator_stable.go Allocate",
)
def matching_types(subject: Subject) -> Iterator[Problem]:
    """If a GpuConfig is for a request that gets a MIG device, the driver refuses to prepare the device.

    That goes for a config that names the request, and for one of its class: Kubernetes 1.34 writes no names into that, and
    the driver ignores it. What a request gets is known by its class and by its selectors; nothing is said where they leave
    it open, or where a later config is for the request.
    """
    for found in nvidia_configs(subject, *TYPE_OF):
        cannot = f"cannot apply {found.kind} to devices of type"
        if subject.kind == "DeviceClass":
            types = types_selected(subject)
            is_last = found is [each for each in nvidia_configs(subject) if each.driver == found.driver][-1]
            if _is_refused(found, types) and is_last:
                text = f"{cannot} {listed_types(types, found.driver)}, which the class is for"
                severity = None if names_requests(found, subject) else Severity.WARN
                yield Problem(found.at("kind"), text, _kind_remedy(types), severity=severity)
            continue
        for path, subrequest, types in _types_by_name(found, subject):
            if _is_refused(found, types) and later_config(found, subrequest, subject) is None:
                text = f"{cannot} {listed_types(types, found.driver)} (request: {printable(subrequest.full_name)})"
                yield Problem(path, text, _kind_remedy(types))


def _types_by_name(found: NvidiaConfig, subject: Subject) -> Iterator[tuple[FieldPath, Subrequest, frozenset[str]]]:
    """Path, subrequest and types of devices of the requests that a config names."""
    reached = {each.full_name: each for each in reached_requests(found, subject)}
    for index, name in _named_requests(found):
        if name in reached:
            yield found.config.path / "requests" / index, reached[name], requested_types(reached[name], subject.facts)


@CLAIMS_AND_CLASSES.rule(
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
                yield Problem(found.at("kind"), f"{text} the class selects none")
        elif not found.config.requests:
            if subject.requests and not reached_requests(found, subject):
                yield Problem(found.at("kind"), f"{text} no request can get one")
        else:
            for path, subrequest, types in _types_by_name(found, subject):
                if type_ not in types and not _is_refused(found, types):
                    name = printable(subrequest.full_name)
                    yield Problem(path, f'the {found.kind} {text} request "{name}" can get none')


def _named_requests(found: NvidiaConfig) -> Iterator[tuple[int, str]]:
    names = found.config.fields.get("requests")
    for index, name in enumerate(names if isinstance(names, list) else ()):
        if isinstance(name, str):
            yield index, name


def _is_refused(found: NvidiaConfig, types: frozenset[str]) -> bool:
    """True if devices of the config's driver can be meant, and none of them is of its type."""
    return TYPE_OF[found.kind] not in types and bool(listed_types(types, found.driver))


def _kind_remedy(types: frozenset[str]) -> str | None:
    kinds = [kind for kind, type_ in TYPE_OF.items() if type_ in types]
    return f"write opaque.parameters.kind: {kinds[0]}" if len(kinds) == 1 else None


@CLAIMS.rule(
    "GA252",
    "A config must not hide another for the same request",
    default=Severity.WARN,
    remedy="write all settings in one config, or name each request in one config only",
    source="dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/device_state.go getConfigResultsMap, GetOpaqueDeviceConfigs",
)
def hidden_configs(subject: Subject) -> Iterator[Problem]:
    """Configs are not merged: a device has the last that is for it, and of the others it has nothing.

    A config for all devices that a later one amends for some of them is meant like that, and so is a config of a claim
    beside that of a class.
    """
    if subject.kind == "DeviceClass":
        return
    for found in nvidia_configs(subject, *TYPE_OF):
        hidden = []
        for subrequest in reached_requests(found, subject):
            later = later_config(found, subrequest, subject)
            hidden.append((subrequest.full_name, later if later is not None and later.kind == found.kind else None))
        if found.config.requests:
            names: list[object] = found.config.fields["requests"]
            for name, later in hidden:
                if later is not None:
                    text = f'has no effect on "{printable(name)}", for which {later.config.path} comes later'
                    yield Problem(found.config.path / "requests" / names.index(name), text)
        elif hidden and all(later is not None for _, later in hidden):
            yield Problem(found.config.path, "has no effect, since later configs are for all requests that it is for")


_DRIVER_OF = {kind: driver for driver, kinds in DRIVERS.items() for kind in kinds}


@CLAIMS_AND_CLASSES.rule(
    "GA240",
    "The parameters of a config must be of a kind that the driver reads",
    remedy=f"write apiVersion: {API_VERSION} and the kind of a config",
    source="dra-driver-nvidia-gpu api/nvidia.com/resource/v1beta1/api.go init; device_state.go GetOpaqueDeviceConfigs, "
    "prepareDevices of cmd/gpu-kubelet-plugin and cmd/compute-domain-kubelet-plugin",
)
def readable_kinds(subject: Subject) -> Iterator[Problem]:
    """The driver decodes a config when it prepares devices; if that fails, pods stay ContainerCreating.

    The driver for GPUs reads GpuConfig, MigDeviceConfig and VfioDeviceConfig, that for ComputeDomains the configs of
    channels and daemons. NVIDIA's own webhook, where it is installed, knows no VfioDeviceConfig and refuses it too. A
    config for a driver that does not exist has no reader. Since 0.5 the driver for GPUs ignores a config of another
    driver's kind that names no request.
    """
    running = subject.facts.driver_version()
    for found in nvidia_configs(subject):
        yield from _kind_problems(found, subject)
        yield from _version_problems(found)
        added = ADDED.get((found.kind, ""))
        if added is not None and added.is_in(running) is False:
            text = (
                f'no kind "{found.kind}" is registered for version "{API_VERSION}" in the driver\'s release {running}'
            )
            yield Problem(found.at("kind"), text, f"upgrade the driver to {added.since}, or remove the config")
    for config in subject.new_configs:
        parameters = config.parameters
        if not config.driver or config.driver in DRIVERS or not isinstance(parameters, dict):
            continue
        kind = parameters.get("kind")
        # Without a reader, but certainly meant for a driver of NVIDIA.
        has_version = parameters.get("apiVersion") == API_VERSION
        if isinstance(kind, str) and kind in _DRIVER_OF and (has_version or config.driver.endswith("nvidia.com")):
            text = f'"{printable(config.driver)}" is not a driver that reads {kind}, so the config has no effect'
            path, remedy = config.path / "opaque" / "driver", f'write "{_DRIVER_OF[kind]}"'
            if not has_version:
                remedy += f", and parameters.apiVersion: {API_VERSION}"
            yield Problem(path, text, remedy, severity=Severity.WARN)


def _kind_problems(found: NvidiaConfig, subject: Subject) -> Iterator[Problem]:
    kind, known = found.parameters.get("kind"), DRIVERS[found.driver]
    if isinstance(kind, str) and kind in known:
        return
    path, one_of_these = found.at("kind"), f"one of {', '.join(known)}"
    if kind is None or kind == "":
        yield Problem(path, "Object 'Kind' is missing", f"write {one_of_these}")
    elif not isinstance(kind, str):
        yield Problem(path, "couldn't get version/kind; json parse error: kind is not text", f"write {one_of_these}")
    elif kind in _DRIVER_OF or kind in ("ComputeDomain", "ComputeDomainClique"):
        text, severity = f"runtime object is not a recognized configuration: {found.driver} reads no {kind}", None
        fails = NVIDIAFeature.KindsOfOtherDrivers.is_in(subject.facts.driver_version()) is False
        if found.driver == DRIVER and not names_requests(found, subject) and not fails:
            text, severity = f"has no effect, since {found.driver} reads no {kind}", Severity.WARN
        remedy = f"create the {kind} as an object of its own"
        if kind in _DRIVER_OF:
            remedy = f"write driver: {_DRIVER_OF[kind]}, or {one_of_these}"
        yield Problem(path, text, remedy, severity=severity)
    else:
        guess, version = closest(kind, known) or closest(kind, _DRIVER_OF), found.parameters.get("apiVersion")
        shown = printable(version) if version and isinstance(version, str) else API_VERSION
        text = f'no kind "{printable(kind)}" is registered for version "{shown}"'
        yield Problem(path, text, f'write "{guess}"' if guess else f"write {one_of_these}")


def _version_problems(found: NvidiaConfig) -> Iterator[Problem]:
    version, kind = found.parameters.get("apiVersion"), found.parameters.get("kind")
    if version == API_VERSION:
        return
    path, remedy = found.at("apiVersion"), f"write {API_VERSION}"
    if version is None or version == "":
        yield Problem(path, "Object 'apiVersion' is missing", remedy)
    elif not isinstance(version, str):
        yield Problem(path, "couldn't get version/kind; json parse error: apiVersion is not text", remedy)
    elif isinstance(kind, str) and kind in DRIVERS[found.driver]:
        text = f'no kind "{kind}" is registered for version "{printable(version)}"'
        yield Problem(path, text, remedy)


@CLAIMS_AND_CLASSES.rule(
    "GA241",
    "The fields of a config must belong to its kind",
    remedy="remove it",
    source="dra-driver-nvidia-gpu api/nvidia.com/resource/v1beta1/api.go StrictDecoder; cmd/gpu-kubelet-plugin/device_state.go "
    "GetOpaqueDeviceConfigs",
)
def strict_fields(subject: Subject) -> Iterator[Problem]:
    """Kubernetes does not check parameters; the driver decodes them strictly. Events of pods show errors.

    Upper and lower case count. A field of a newer release is one that the release before does not know.
    """
    running = subject.facts.driver_version()
    for found in nvidia_configs(subject):
        for wrong in found.schema_problems:
            if wrong.kind == "unknown":
                inner = FieldPath(wrong.path[len(found.at()) :])
                text = f'strict decoding error: unknown field "{printable(str(inner))}"'
                yield Problem(wrong.path, text, _remedy(found, wrong, inner))
        for (kind, field), added in ADDED.items():
            steps = tuple(field.split("."))
            is_newer = field and kind == found.kind and added.is_in(running) is False
            if is_newer and lookup(found.parameters, steps) is not None:
                text = f'strict decoding error: unknown field "{field}" in the driver\'s release {running}'
                yield Problem(found.at(*steps), text, f"upgrade the driver to {added.since}, or remove it")


@CLAIMS_AND_CLASSES.rule(
    "GA242",
    "The values of a config must have the types of its kind",
    remedy="write a value of that type",
    source="dra-driver-nvidia-gpu api/nvidia.com/resource/v1beta1/sharing.go, iommu.go and computedomainconfig.go, the types of "
    "fields; cmd/gpu-kubelet-plugin/device_state.go GetOpaqueDeviceConfigs",
)
def decodable_values(subject: Subject) -> Iterator[Problem]:
    """The driver cannot decode a config with a value of another type, and does not prepare the devices.

    Nothing else is checked of a part that has the wrong type. A null counts as a field that is not there.
    """
    problems = (wrong for found in nvidia_configs(subject) for wrong in found.schema_problems)
    yield from (Problem(each.path, each.message, each.remedy) for each in problems if each.kind == "type")


def _remedy(found: NvidiaConfig, wrong: SchemaProblem, inner: FieldPath) -> str:
    name = wrong.path[-1]
    if found.kind == "MigDeviceConfig" and name in ("timeSlicingConfig", "interval"):
        return "remove it; the time slices of MIG devices cannot be set"
    if wrong.remedy.startswith(("write ", "move ")):
        return wrong.remedy
    schema = SCHEMAS[found.kind]
    if place := next((place for place in _places(schema, FieldPath()) if place[-1] == name), None):
        parent = FieldPath(place[:-1])
        return f"write it under {parent}" if parent else "write it beside apiVersion and kind"
    for step in inner[:-1]:
        schema = schema.fields[str(step)]
    fields = sorted(schema.fields.keys() - {"apiVersion", "kind"})
    return f"remove it; {'there is only' if len(fields) == 1 else 'there are'} {', '.join(fields)}"


def _places(schema: Field, path: FieldPath) -> Iterator[FieldPath]:
    """All fields that a config can have."""
    for name, field in schema.fields.items():
        yield path / name
        yield from _places(field, path / name)
