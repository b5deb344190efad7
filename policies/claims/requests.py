"""Requests, constraints and configs: their names, what they request, and what they refer to."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from policies.claims.claim_subject import CLAIMS, CLAIMS_AND_CLASSES
from policies.claims.field_errors import (
    LONGEST_LABEL,
    REQUIRED,
    as_dns_label,
    as_dns_subdomain,
    driver_name_error,
    duplicate,
    invalid,
    label_error,
    label_key_error,
    label_value_error,
    qualified_name_error,
    subdomain_error,
    too_long,
    unsupported_value,
)
from policies.devices.claim_schemas import EXACT_REQUEST_FIELDS
from policies.devices.device_taint_rules import EFFECTS
from policies.kubernetes.names import closest, printable, write_closest
from policies.kubernetes.quantities import quantity_or_none
from policies.kubernetes.versions import Feature
from policies.nvidia.identifiers import GPU_RESOURCE
from policies.rules.checks import Problem
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.claims.claim_subject import Subject
    from policies.devices.resource_claims import Config, DeviceRequest, Subrequest
    from policies.kubernetes.objects import FieldPath


@CLAIMS.rule(
    "GA204",
    "Requests must have unique, valid names",
    remedy="write a name of lower case letters, digits and '-'",
    source="k8s.io/kubernetes pkg/apis/resource/validation validateDeviceRequest",
)
def request_names(subject: Subject) -> Iterator[Problem]:
    """The name of a request is unique in the claim, and the name of an alternative in its list.

    Containers refer to `gpu`, constraints and configs to `gpu` or to an alternative, `gpu/large`.
    """
    yield from _name_problems((request.path, request.fields) for request in subject.requests)
    for request in subject.requests:
        if request.is_prioritized:
            yield from _name_problems((subrequest.path, subrequest.fields) for subrequest in request.subrequests)


def _name_problems(named: Iterable[tuple[FieldPath, dict[str, Any]]]) -> Iterator[Problem]:
    seen = set()
    for path, fields in named:
        name = fields.get("name")
        if name is None or name == "":
            yield Problem(path / "name", REQUIRED, "add a name, such as gpu")
        elif isinstance(name, str):
            if error := label_error(name):
                meant = as_dns_label(name)
                remedy = "write a shorter one" if len(name) > LONGEST_LABEL else f'write "{meant}"' if meant else None
                yield Problem(path / "name", invalid(name, error), remedy)
            elif name in seen:
                yield Problem(path / "name", duplicate(name), "give each its own name")
            seen.add(name)


@CLAIMS.rule(
    "GA205",
    "A request must be either exact or a list of alternatives",
    remedy="write exactly for one kind of device, or firstAvailable for alternatives in the order of preference",
    source="k8s.io/kubernetes pkg/apis/resource/validation validateDeviceRequest",
)
def one_way_of_asking(subject: Subject) -> Iterator[Problem]:
    """The scheduler allocates an exact request, or the first alternative that it can meet; never both."""
    if subject.version == "v1beta1":
        for request in subject.requests:
            if request.fields.get("firstAvailable") and _flat_fields(request):
                text = "exactly one of `deviceClassName` or `firstAvailable` is required, but multiple fields are set"
                remedy = f"move {', '.join(_flat_fields(request))} into the alternatives, or remove firstAvailable"
                yield Problem(request.path, f"Invalid value: {text}", remedy)
        return
    for request in subject.requests:
        exact, alternatives = request.fields.get("exactly") is not None, bool(request.fields.get("firstAvailable"))
        text = "exactly one of `exactly` or `firstAvailable` is required"
        if exact and alternatives:
            remedy = "move what is under exactly into the alternatives, or remove firstAvailable"
            yield Problem(request.path, f"Invalid value: {text}, but multiple fields are set", remedy)
        # GA201 reports the fields that v1beta1 has in the request.
        elif not exact and not alternatives and not _flat_fields(request):
            yield Problem(request.path, f"{REQUIRED}: {text}")


def _flat_fields(request: DeviceRequest) -> list[str]:
    return [name for name in EXACT_REQUEST_FIELDS if request.fields.get(name) is not None]


_MODES = ("All", "ExactCount")


@CLAIMS.rule(
    "GA206",
    "A request must name a DeviceClass",
    remedy="add deviceClassName, such as gpu.nvidia.com for whole GPUs or mig.nvidia.com for slices",
    source="k8s.io/kubernetes pkg/apis/resource/validation validateDeviceClass",
)
def class_names(subject: Subject) -> Iterator[Problem]:
    """A request names a class, which selects the driver's devices, and by which quotas count.

    A class has the name of an object. The names of extended resources, such as nvidia.com/gpu, are not names of objects.
    """
    for subrequest in subject.subrequests:
        name = subrequest.fields.get("deviceClassName")
        if name is None or name == "":
            if not _class_is_misplaced(subject, subrequest):
                yield Problem(subrequest.path / "deviceClassName", REQUIRED)
        elif isinstance(name, str) and (error := subdomain_error(name)):
            meant = {GPU_RESOURCE: "gpu.nvidia.com"}.get(name) or as_dns_subdomain(name)
            remedy = f'write "{meant}"' if meant else "write the name of a DeviceClass"
            yield Problem(subrequest.path / "deviceClassName", invalid(name, error), remedy)


def _class_is_misplaced(subject: Subject, subrequest: Subrequest) -> bool:
    """True if the class is under `exactly` in v1beta1, or under a misspelt name."""
    misspelt = any(
        name not in EXACT_REQUEST_FIELDS and closest(name, ("deviceClassName",)) for name in subrequest.fields
    )
    return misspelt or (subject.version == "v1beta1" and "exactly" in subrequest.fields)


@CLAIMS.rule(
    "GA207",
    "A request must be for a number of devices that it can get",
    remedy="write count: 1 or more, or allocationMode: All without a count",
    source="k8s.io/kubernetes pkg/apis/resource/validation validateDeviceAllocationMode",
)
def amounts(subject: Subject) -> Iterator[Problem]:
    """A request is for a number of devices or for all of a node; a number contradicts All.

    A count of 0 is taken for one that is missing, and stands for 1.
    """
    for subrequest in subject.subrequests:
        mode, count = subrequest.fields.get("allocationMode"), subrequest.fields.get("count")
        if isinstance(mode, str) and mode and mode not in _MODES:
            remedy = write_closest(mode, _MODES, 'write "ExactCount" or "All"')
            yield Problem(subrequest.path / "allocationMode", unsupported_value(mode, _MODES), remedy)
        if not isinstance(count, int) or isinstance(count, bool):
            continue
        if mode == "All" and count != 0:
            text = invalid(count, "must not be specified when allocationMode is 'All'")
            yield Problem(subrequest.path / "count", text, "remove count, or write allocationMode: ExactCount")
        elif count < 0:
            yield Problem(subrequest.path / "count", invalid(count, "must be greater than zero"))
        elif count == 0 and mode in (None, "", "ExactCount"):
            text = "is 0, which the API server takes for a count that is missing: it stands for 1"
            remedy = "write count: 1, or remove the request"
            yield Problem(subrequest.path / "count", text, remedy, severity=Severity.WARN)


_OPERATORS = ("Equal", "Exists")


@CLAIMS.rule(
    "GA209",
    "Tolerations must be for taints that devices can have",
    remedy="write {key: gpu.nvidia.com/xid, operator: Exists, effect: NoSchedule}, or what the taint is",
    source="k8s.io/kubernetes pkg/apis/resource/validation validateDeviceToleration",
)
def toleration_syntax(subject: Subject) -> Iterator[Problem]:
    """Tolerations of devices are those of pods, with the effects NoSchedule, NoExecute and None.

    Exists stands for every value, and Equal, which is meant where no operator is written, for the one that is written.
    """
    for subrequest in subject.subrequests:
        tolerations = subrequest.fields.get("tolerations")
        for index, item in enumerate(tolerations if isinstance(tolerations, list) else ()):
            if isinstance(item, dict):
                yield from _toleration_problems(item, subrequest.path / "tolerations" / index)


def _toleration_problems(item: dict[str, Any], path: FieldPath) -> Iterator[Problem]:
    found = (item.get(field) for field in ("key", "operator", "value", "effect"))
    key, operator, value, effect = (text if isinstance(text, str) else "" for text in found)
    if key and (error := label_key_error(key)):
        yield Problem(path / "key", invalid(key, error), "write the key as the device's taint has it")
    for field, text, known in (("operator", operator, _OPERATORS), ("effect", effect, EFFECTS)):
        if text and text not in known:
            remedy = write_closest(text, known, f"write one of {', '.join(known)}")
            yield Problem(path / field, unsupported_value(text, known), remedy)
    if operator == "Exists" and value:
        text = invalid(value, "must be empty for operator `Exists`")
        yield Problem(path / "value", text, "remove value, or write operator: Equal")
    elif operator in ("", "Equal") and (error := label_value_error(value)):
        yield Problem(path / "value", invalid(value, error), "write the value as the device's taint has it")
    elif operator in ("", "Equal") and not key and "key" not in item:
        text = "is missing, which stands for all keys, and that is meant to go with operator: Exists"
        yield Problem(path / "key", text, "write a key, or operator: Exists", severity=Severity.WARN)
    if isinstance(item.get("tolerationSeconds"), int) and effect != "NoExecute":
        text = "has no effect without effect: NoExecute, since only that takes pods off their devices"
        remedy = "remove tolerationSeconds, or write effect: NoExecute"
        yield Problem(path / "tolerationSeconds", text, remedy, severity=Severity.WARN)


@CLAIMS.rule(
    "GA210",
    "Capacity must be requested by names that devices can have",
    remedy="write the name as the ResourceSlices have it",
    source="k8s.io/api/resource/v1/types.go CapacityRequirements and QualifiedName; "
    "k8s.io/dynamic-resource-allocation/structured/internal/incubating/consumable_capacity.go CmpRequestOverCapacity",
)
def capacity_names(subject: Subject) -> Iterator[Problem]:
    """The API server takes any name here, but no ResourceSlice can have a capacity of such a name.

    A name is an identifier, memory, or one with its domain before it. A claim that requests what no device can have is
    never allocated, unless Kubernetes drops the field (GA225). A negative amount would give a device that is shared more
    than it has.
    """
    is_dropped = not subject.served and Feature.DRAConsumableCapacity.is_on(subject.facts.view) is False
    for subrequest in subject.subrequests:
        for name, amount in (subrequest.capacity or {}).items():
            path = subrequest.path / "capacity" / "requests" / name
            if error := qualified_name_error(name):
                text = f"{invalid(name, error)}, so no device has it"
                yield Problem(path, text, severity=Severity.WARN if is_dropped else None)
            elif (quantity_or_none(amount) or 0) < 0:
                yield Problem(path, invalid(amount, "must be greater than or equal to 0"), "write an amount")


_CONSTRAINED = ("matchAttribute", "distinctAttribute")
_STANDARD_ATTRIBUTES = {"pcieRoot", "pciBusID", "numaNode"}
"""Attributes of the domain resource.kubernetes.io that NVIDIA's driver publishes."""


@CLAIMS.rule(
    "GA211",
    "A constraint must name one attribute, with its domain",
    remedy="write matchAttribute: resource.kubernetes.io/pcieRoot, or another attribute with its domain",
    source="k8s.io/kubernetes pkg/apis/resource/validation validateDeviceConstraint, validateFullyQualifiedName",
)
def constrained_attributes(subject: Subject) -> Iterator[Problem]:
    """A constraint names the attribute that it compares in full: the domain, a slash, the identifier.

    In a selector the domain is a key of its own, and a driver may leave out its own; here nothing can be left out. Of
    two attributes in one constraint the scheduler reads only matchAttribute.
    """
    for constraint in subject.constraints:
        written = [name for name in _CONSTRAINED if constraint.fields.get(name) is not None]
        if not written:
            text = 'exactly one of "matchAttribute" or "distinctAttribute" is required'
            yield Problem(constraint.path, f"{REQUIRED}: {text}")
        elif len(written) > 1:
            text = "is never looked at beside matchAttribute; a constraint has one attribute"
            remedy = "write it as a constraint of its own"
            yield Problem(constraint.path / "distinctAttribute", text, remedy, severity=Severity.WARN)
        name = constraint.fields.get(written[0]) if written else None
        if not isinstance(name, str):
            continue
        error, remedy = qualified_name_error(name), "write the name as the ResourceSlices have it, with its domain"
        if "/" not in name and not error:
            error = "a fully qualified name must be a domain and a name separated by a slash"
            remedy = f"write {'resource.kubernetes.io' if name in _STANDARD_ATTRIBUTES else 'gpu.nvidia.com'}/{name}"
        if error:
            yield Problem(constraint.path / written[0], invalid(name, error), remedy)


_UNKNOWN_REQUEST = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)
_LISTED = 5


@CLAIMS.rule(
    "GA212",
    "Constraints and configs must refer to requests of the claim",
    remedy="write the name of a request, or leave requests out to mean all",
    source="k8s.io/kubernetes pkg/apis/resource/validation validateRequestNameRef",
)
def references(subject: Subject) -> Iterator[Problem]:
    """A reference is to a request with all its alternatives, `gpu`, or to one alternative, `gpu/large`.

    A list of references names each once; without a list, all requests are meant.
    """
    if subject.kind == "DeviceClass":
        return
    known = []
    for request in subject.requests:
        alternatives = request.subrequests if request.is_prioritized else ()
        known += [request.name, *(alternative.full_name for alternative in alternatives)]
    more = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
    one_of_these = f"write one of {', '.join(map(printable, known[:_LISTED]))}{more}" if known else None
    for part in subject.referring:
        written = part.fields.get("requests")
        seen = set()
        for index, name in enumerate(written if isinstance(written, list) else ()):
            if not isinstance(name, str):
                continue
            if name not in known:
                guess = next((other for other in known if other.endswith(f"/{name}")), None) or closest(name, known)
                remedy = f'write "{printable(guess)}"' if guess else one_of_these
                yield Problem(part.path / "requests" / index, invalid(name, _UNKNOWN_REQUEST), remedy)
            elif name in seen:
                yield Problem(part.path / "requests" / index, duplicate(name), "name each request once")
            seen.add(name)


_LONGEST_PARAMETERS = 10 * 1024
"""Bytes of parameters, as JSON."""


@CLAIMS_AND_CLASSES.rule(
    "GA213",
    "A config must name its driver and have parameters",
    remedy="write a config such as opaque: {driver: gpu.nvidia.com, parameters: {apiVersion: resource.nvidia.com/v1beta1, "
    "kind: GpuConfig}}",
    source="k8s.io/kubernetes pkg/apis/resource/validation validateOpaqueConfiguration, validateRawExtension",
)
def opaque_configs(subject: Subject) -> Iterator[Problem]:
    """The named driver reads the config, a JSON object of at most 10 KiB, when it prepares the devices.

    What the parameters say is the driver's business; other rules look at those of NVIDIA's driver.
    """
    for config in subject.configs:
        opaque = config.fields.get("opaque")
        if opaque is None:
            # GA201 reports parameters beside opaque.
            if not {"driver", "parameters"} & config.fields.keys():
                yield Problem(config.path / "opaque", REQUIRED)
        elif isinstance(opaque, dict):
            driver, parameters = opaque.get("driver"), opaque.get("parameters")
            if driver is None or driver == "":
                remedy = "add driver: gpu.nvidia.com, or whose config it is"
                yield Problem(config.path / "opaque" / "driver", REQUIRED, remedy)
            elif isinstance(driver, str) and (error := driver_name_error(driver)):
                remedy = "write the name of the driver as its ResourceSlices have it"
                yield Problem(config.path / "opaque" / "driver", invalid(driver, error), remedy)
            yield from _parameter_problems(config, parameters)


def _parameter_problems(config: Config, parameters: Any) -> Iterator[Problem]:
    if parameters is None:
        yield Problem(config.parameters_path, REQUIRED, "add parameters, with the apiVersion and kind of a config")
    elif not isinstance(parameters, dict):
        is_text = isinstance(parameters, str)
        remedy = "remove the | or the quotes, so that it is a mapping" if is_text else "write a mapping"
        yield Problem(config.parameters_path, "Invalid value: must be a valid JSON object", remedy)
    elif (size := _size(parameters)) > _LONGEST_PARAMETERS:
        text = f"{too_long(_LONGEST_PARAMETERS)}, and has {size}"
        yield Problem(config.parameters_path, text, "shorten the parameters")


def _size(parameters: Any) -> int:
    """Bytes as JSON without blanks, counted without recursion, because parameters may be nested deeply."""
    size, pending = 0, [parameters]
    while pending:
        value = pending.pop()
        if isinstance(value, dict | list):
            size += len("{}") + max(0, len(value) - 1)
            pending += value
            if isinstance(value, dict):
                size += len(":") * len(value)
                pending += value.values()
        else:
            size += len(_as_json(value).encode(errors="surrogatepass"))
    return size


_as_json = json.JSONEncoder(ensure_ascii=False).encode
