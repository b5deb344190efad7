"""The fields of configs that NVIDIA's device plugin and DRA drivers read, and their allowed values.

Missing lists, names or numbers of replicas below a sharing strategy of the device plugin are left to the rules on
sharing, whose messages say more.

Sources: github.com/NVIDIA/k8s-device-plugin api/config/v1 (v0.20);
github.com/kubernetes-sigs/dra-driver-nvidia-gpu api/nvidia.com/resource/v1beta1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from policies.kubernetes.names import closest, shown, write_field
from policies.kubernetes.objects import lookup
from policies.kubernetes.schema import Field, parse_schema
from policies.nvidia.identifiers import UNPARSED, brief, device_errors, name_error
from policies.nvidia.releases import NVIDIAFeature

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator


STRATEGIES = ("none", "single", "mixed")
"""The MIG strategies."""

_STRATEGY = """
    renameByDefault: boolean
    failRequestsGreaterThanOne: boolean
    resources: resources
      name: elsewhere
      replicas: elsewhere
      devices: devices
      rename: name"""
_RESOURCE = """
    pattern!: pattern
    name!: name"""

GRAMMAR = parse_schema(f"""
version: string one of "v1", ""
flags: object
  migStrategy: string one of "none", "single", "mixed"
  failOnInitError: boolean
  mpsRoot: string
  nvidiaDriverRoot: string
  nvidiaDevRoot: string
  gdrcopyEnabled: boolean
  gdsEnabled: boolean
  mofedEnabled: boolean
  useNodeFeatureAPI: boolean
  deviceDiscoveryStrategy: string one of "auto", "nvml", "tegra"
  plugin: object
    passDeviceSpecs: boolean
    deviceListStrategy: strings one of "envvar", "volume-mounts", "cdi-annotations", "cdi-cri"
    deviceIDStrategy: string one of "uuid", "index"
    cdiAnnotationPrefix: string
    nvidiaCTKPath: string
    containerDriverRoot: string
    sharedDevicesAllocationPolicy: string one of "distributed", "packed"
  gfd: object
    oneshot: boolean
    noTimestamp: boolean
    sleepInterval: duration
    outputFile: string
    machineTypeFile: string
resources: object
  gpus: list{_RESOURCE}
  mig: list{_RESOURCE}
sharing: object
  timeSlicing: strategy{_STRATEGY}
  mps: strategy{_STRATEGY}
imex: object
  channelIDs: channels
  required: boolean
""")

_UPSTREAM = {
    "version": "unknown version: {}",
    "migStrategy": "unknown MIG strategy: {}",
    "deviceIDStrategy": "invalid --device-id-strategy option: {}",
    "deviceDiscoveryStrategy": "invalid --device-discovery-strategy option {}",
    "deviceListStrategy": "invalid --device-list-strategy option: invalid strategy: {}",
    "sharedDevicesAllocationPolicy": "invalid --shared-devices-allocation-policy option: {}",
}
"""The messages of the device plugin for values that are not among the choices of a field."""

_ELSEWHERE = {
    "sharing.resources": "indent it below timeSlicing or mps",
    "resources.migs": 'write "mig"',
}
"""Fields that guides put in the wrong place, each with the remedy."""

_EXACT = ("strategy", "resources", "list")
"""Types whose mappings Go reads as maps of its own, so that keys count only as they are spelt."""

_OF_PLUGIN = ("deviceliststrategy", "deviceidstrategy", "shareddevicesallocationpolicy")
"""Fields that the plugin validates after it has read the document. Source: cmd/nvidia-device-plugin/main.go validateFlags."""

_EXITS = "the device plugin would exit"
_UNPARSED = f"{_EXITS}, unable to parse its config file"
_DURATION = re.compile(r"[-+]?(?:0|(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+)")
_SECOND = 1_000_000_000

Steps = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class GrammarProblem:
    """A field or value that the device plugin cannot read, or ignores."""

    kind: Literal["value", "unknown"]
    steps: Steps
    message: str
    remedy: str

    @property
    def exit(self) -> str:
        """The message with which the device plugin exits; empty if it starts."""
        _, is_quoted, words = self.message.partition(f"{_EXITS} with: ")
        return words if is_quoted else UNPARSED if _UNPARSED in self.message else ""

    def is_replaced(self, flags: Collection[str]) -> bool:
        """True if the value can be read, and the plugin validates another one of the same flag in its place.

        Args:
            flags: The names, in lower case, of flags that the environment sets.
        """
        names = {str(step).lower() for step in self.steps}
        return self.exit not in ("", UNPARSED) and not names.isdisjoint(flags)

    @property
    def is_of_plugin(self) -> bool:
        """True if the plugin alone validates the field, and GPU Feature Discovery starts nevertheless."""
        names = {str(step).lower() for step in self.steps}
        return self.exit != UNPARSED and not names.isdisjoint(_OF_PLUGIN)


def grammar_problems(value: Any) -> Iterator[GrammarProblem]:
    """The violations of the grammar in a configuration; a null counts as missing, as in Go."""
    if isinstance(value, dict):
        yield from _in_fields(GRAMMAR, value, ())


def misspelt_key(mapping: dict[str, Any], name: str, known: tuple[str, ...]) -> str | None:
    """The key by which a mapping misspells a field that it does not have."""
    return next((key for key in mapping if key not in known and closest(key, known) == name), None)


def _in_fields(schema: Field, value: dict[str, Any], steps: Steps) -> Iterator[GrammarProblem]:
    exact = schema.type in _EXACT
    names = {name if exact else name.lower(): name for name in schema.fields}
    seen: dict[str, str] = {}
    for key, item in value.items():
        name = names.get(key if exact else key.lower())
        here = (*steps, key)
        if name is None:
            yield from _unknown(schema, key, here, value)
        elif name in seen:
            text = f'is the same field as "{seen[name]}"; the device plugin reads only one'
            yield GrammarProblem("unknown", here, text, f"remove {key} or {seen[name]}")
        else:
            seen[name] = key
            yield from _in_value(schema.fields[name], name, item, here)
    for name, field in schema.fields.items():
        if field.required and name not in value:
            text = f"has no {name}; {_EXITS} with: resources must have a '{name}' field set"
            yield GrammarProblem("value", steps, text, f"add {name}")


def _unknown(schema: Field, key: str, steps: Steps, mapping: dict[str, Any]) -> Iterator[GrammarProblem]:
    guess = closest(key, schema.fields)
    if schema.type in ("strategy", "resources") and _is_told_elsewhere(schema, key, guess, mapping):
        return
    path = ".".join(str(step) for step in steps)
    homes = list(dict.fromkeys(_homes(GRAMMAR, key.lower(), "")))
    text = "unknown field: the device plugin ignores it silently"
    strategy = lookup(mapping[key], ("strategy",)) if steps == ("mig",) else None
    if strategy in STRATEGIES:
        yield GrammarProblem("unknown", steps, text, f"write flags: {{migStrategy: {strategy}}}")
    elif path in _ELSEWHERE:
        yield GrammarProblem("unknown", steps, text, _ELSEWHERE[path])
    elif guess:
        yield GrammarProblem("unknown", steps, text, write_field(key, schema.fields, mapping, ""))
    elif len(homes) == 1:
        yield GrammarProblem("unknown", steps, text, f"indent it below {homes[0]}")
    else:
        remedy = f"remove it; there are {', '.join(schema.fields)}"
        yield GrammarProblem("unknown", steps, text, remedy)


def _is_told_elsewhere(schema: Field, key: str, guess: str | None, mapping: dict[str, Any]) -> bool:
    """True if the rules on sharing name the key when they miss a field."""
    if schema.type == "strategy" and key == "replicas" and "resources" not in mapping:
        return True
    required = ("resources",) if schema.type == "strategy" else ("name", "replicas")
    return (
        guess is not None
        and guess in required
        and guess not in mapping
        and misspelt_key(mapping, guess, tuple(schema.fields)) == key
    )


def _homes(schema: Field, key: str, path: str) -> Iterator[str]:
    for name, field in schema.fields.items():
        if name.lower() == key and path:
            yield path
        yield from _homes(field, key, f"{path}.{name}" if path else name)


def _in_value(field: Field, name: str, value: Any, steps: Steps) -> Iterator[GrammarProblem]:
    if field.type == "devices":
        for below, text, remedy in device_errors(value):
            yield GrammarProblem("value", (*steps, *below), text, remedy)
    elif field.type == "name":
        if error := name_error(value):
            yield GrammarProblem("value", steps, *error)
    elif value is not None:
        yield from _in_present(field, name, value, steps)


def _in_present(field: Field, name: str, value: Any, steps: Steps) -> Iterator[GrammarProblem]:
    match field.type, value:
        case (("object" | "strategy"), dict()):
            yield from _in_fields(field, value, steps)
        case (("list" | "resources"), list()):
            for index, item in enumerate(value):
                if isinstance(item, dict):
                    yield from _in_fields(field, item, (*steps, index))
                elif field.type == "list":
                    yield _wrong_type((*steps, index), item, "a mapping")
        case "object", _:
            yield _wrong_type(steps, value, "a mapping")
        case "list", _:
            yield _wrong_type(steps, value, "a list")
        case "boolean", _:
            if not isinstance(value, bool):
                yield _wrong_type(steps, value, "true or false, without quotes")
        case (("string" | "pattern"), str()):
            yield from _of_choices(field, name, value, steps)
        case (("string" | "pattern"), _):
            yield _of_no_text(field, value, steps)
        case "strings", list():
            for index, item in enumerate(value):
                yield from _in_present(Field("string", choices=field.choices), name, item, (*steps, index))
        case "strings", _:
            yield from _in_present(Field("string", choices=field.choices), name, value, steps)
        case "duration", _:
            yield from _of_duration(value, steps)
        case "channels", _:
            yield from _of_channels(value, steps)


def _of_no_text(field: Field, value: Any, steps: Steps) -> GrammarProblem:
    if steps == ("version",):
        return GrammarProblem(
            "value", steps, f"is {shown(value)}; {_EXITS} with: unknown version: {shown(value)}", "write v1"
        )
    listed = ", ".join(f'"{choice}"' for choice in field.choices)
    return _wrong_type(steps, value, f"one of {listed}" if listed else "text, in quotes")


def _of_choices(field: Field, name: str, value: str, steps: Steps) -> Iterator[GrammarProblem]:
    if field.choices and value not in field.choices:
        guess = closest(value, field.choices)
        listed = ", ".join(choice for choice in field.choices if choice)
        remedy = f'write "{guess}"' if guess else f"write {'one of ' if ',' in listed else ''}{listed}"
        text = f"is {shown(value)}; {_EXITS} with: {_UPSTREAM[name].format(brief(value))}"
        yield GrammarProblem("value", steps, text, remedy)


def _of_duration(value: Any, steps: Steps) -> Iterator[GrammarProblem]:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        yield GrammarProblem("value", steps, f"is {shown(value)}; {_EXITS} with: invalid duration", _INTERVAL)
    elif isinstance(value, str):
        if value != "infinite" and not _DURATION.fullmatch(value):
            unit = "missing unit in" if value.isdecimal() else "invalid"
            text = f"is {shown(value)}; {_EXITS} with: time: {unit} duration {shown(value)}"
            yield GrammarProblem("value", steps, text, f'write "{value}s"' if value.isdecimal() else _INTERVAL)
    elif value != 0 and abs(value) < _SECOND:
        text = f"is the number {value}, which is read as nanoseconds; GPU Feature Discovery would never rest"
        yield GrammarProblem("value", steps, text, f'write "{value}s"')


_INTERVAL = 'write a duration such as "60s", or "infinite"'


def _of_channels(value: Any, steps: Steps) -> Iterator[GrammarProblem]:
    if not isinstance(value, list) or not all(isinstance(item, int) and not isinstance(item, bool) for item in value):
        yield _wrong_type(steps, value, "[] or [0]")
    elif value not in ([], [0]):
        found = " ".join(map(str, value))
        text = f"{_EXITS} with: invalid IMEX config: channelIDs must be [] or [0]; found [{found}]"
        yield GrammarProblem("value", steps, f"is {shown(value)}; {text}", "write [0], or remove it")


def _wrong_type(steps: Steps, value: Any, wanted: str) -> GrammarProblem:
    return GrammarProblem("value", steps, f"is {shown(value)}; {_UNPARSED}", f"write {wanted}")


API_VERSION = "resource.nvidia.com/v1beta1"

TYPE_OF = {
    "GpuConfig": "gpu",
    "MigDeviceConfig": "mig",
    "VfioDeviceConfig": "vfio",
    "ComputeDomainChannelConfig": "channel",
    "ComputeDomainDaemonConfig": "daemon",
}
"""The type of the devices that a kind of config is for."""

DRIVERS = {
    "gpu.nvidia.com": ("GpuConfig", "MigDeviceConfig", "VfioDeviceConfig"),
    "compute-domain.nvidia.com": ("ComputeDomainChannelConfig", "ComputeDomainDaemonConfig"),
}
"""The kinds that each driver reads."""

TYPES_OF_DRIVER = {driver: frozenset(TYPE_OF[kind] for kind in kinds) for driver, kinds in DRIVERS.items()}

ADDED = {
    ("VfioDeviceConfig", ""): NVIDIAFeature.VfioDeviceConfig,
    ("VfioDeviceConfig", "iommu"): NVIDIAFeature.VfioIOMMU,
    ("GpuConfig", "sharing.mpsConfig.multiUser"): NVIDIAFeature.MultiUserMPS,
    ("MigDeviceConfig", "sharing.mpsConfig.multiUser"): NVIDIAFeature.MultiUserMPS,
}
"""The kinds, and fields of kinds, that came later than the first releases of the driver."""

_BLOCKS = {
    "kind": """
apiVersion: string
kind: string
""",
    "mps": """
mpsConfig: object
  defaultActiveThreadPercentage: integer
  defaultPinnedDeviceMemoryLimit: quantity
  defaultPerDevicePinnedMemoryLimit: {quantity}
  multiUser: boolean
""",
}

_TEXTS = {
    "GpuConfig": """
+ kind
sharing: object
  strategy: string
  timeSlicingConfig: object
    interval: string
  + mps
""",
    "MigDeviceConfig": """
+ kind
sharing: object
  strategy: string
  + mps
""",
    "VfioDeviceConfig": """
+ kind
iommu: object
  backendPolicy: string
  enableAPIDevice: boolean
""",
    "ComputeDomainChannelConfig": """
+ kind
domainID: string
allocationMode: string
""",
    "ComputeDomainDaemonConfig": """
+ kind
domainID: string
""",
}

SCHEMAS: dict[str, Field] = {kind: parse_schema(text, _BLOCKS) for kind, text in _TEXTS.items()}
