"""Requests: their names, what they request of a DeviceClass, and which taints and capacity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.claims.field_errors import (
    LONGEST_LABEL,
    REQUIRED,
    as_dns_label,
    as_dns_subdomain,
    duplicate,
    invalid,
    label_error,
    label_key_error,
    label_value_error,
    qualified_name_error,
    subdomain_error,
    unsupported_value,
)
from policies.claims.subject import CLAIM_OR_TEMPLATE, CLAIMS
from policies.devices.claim_schemas import EXACT_REQUEST_FIELDS
from policies.kubernetes.objects import FieldPath
from policies.kubernetes.phrases import closest
from policies.kubernetes.quantities import QuantityError, parse_quantity
from policies.nvidia.identifiers import GPU_RESOURCE
from policies.rules.decision import Severity
from policies.rules.registry import Problem, problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.claims.subject import Subject
    from policies.devices.resource_claims import DeviceRequest, Subrequest


@CLAIMS.rule(
    "GA204",
    "Requests must have unique, valid names",
    default=Severity.DENY,
    remedy="write a name of lower case letters, digits and '-'",
    source="k8s.io/kubernetes pkg/apis/resource/validation validateDeviceRequest",
    kinds=CLAIM_OR_TEMPLATE,
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
            yield problem(path / "name", REQUIRED, "add a name, such as gpu")
        elif isinstance(name, str):
            if error := label_error(name):
                yield problem(path / "name", invalid(name, error), _name_remedy(name))
            elif name in seen:
                yield problem(path / "name", duplicate(name), "give each its own name")
            seen.add(name)


def _name_remedy(name: str) -> str | None:
    if len(name) > LONGEST_LABEL:
        return "write a shorter one"
    meant = as_dns_label(name)
    return f'write "{meant}"' if meant else None


@CLAIMS.rule(
    "GA205",
    "A request must be either exact or a list of alternatives",
    default=Severity.DENY,
    remedy="write exactly for one kind of device, or firstAvailable for alternatives in the order of preference",
    source="k8s.io/kubernetes pkg/apis/resource/validation validateDeviceRequest",
    kinds=CLAIM_OR_TEMPLATE,
)
def one_way_of_asking(subject: Subject) -> Iterator[Problem]:
    """The scheduler allocates an exact request, or the first alternative that it can meet; never both."""
    if subject.version == "v1beta1":
        for request in subject.requests:
            if request.fields.get("firstAvailable") and _flat_fields(request):
                text = "exactly one of `deviceClassName` or `firstAvailable` is required, but multiple fields are set"
                remedy = f"move {', '.join(_flat_fields(request))} into the alternatives, or remove firstAvailable"
                yield problem(request.path, f"Invalid value: {text}", remedy)
        return
    for request in subject.requests:
        exact, alternatives = request.fields.get("exactly") is not None, bool(request.fields.get("firstAvailable"))
        text = "exactly one of `exactly` or `firstAvailable` is required"
        if exact and alternatives:
            remedy = "move what is under exactly into the alternatives, or remove firstAvailable"
            yield problem(request.path, f"Invalid value: {text}, but multiple fields are set", remedy)
        # GA201 reports the fields that v1beta1 has in the request.
        elif not exact and not alternatives and not _flat_fields(request):
            yield problem(request.path, f"{REQUIRED}: {text}")


def _flat_fields(request: DeviceRequest) -> list[str]:
    return [name for name in EXACT_REQUEST_FIELDS if request.fields.get(name) is not None]


_MODES = ("All", "ExactCount")


@CLAIMS.rule(
    "GA206",
    "A request must name a DeviceClass",
    default=Severity.DENY,
    remedy="add deviceClassName, such as gpu.nvidia.com for whole GPUs or mig.nvidia.com for slices",
    source="k8s.io/kubernetes pkg/apis/resource/validation validateDeviceClass",
    kinds=CLAIM_OR_TEMPLATE,
)
def class_names(subject: Subject) -> Iterator[Problem]:
    """A request names a class, which selects the driver's devices, and by which quotas count.

    A class has the name of an object. The names of extended resources, such as nvidia.com/gpu, are not names of objects.
    """
    for subrequest in subject.subrequests:
        name = subrequest.fields.get("deviceClassName")
        if name is None or name == "":
            if not _class_is_misplaced(subject, subrequest):
                yield problem(subrequest.path / "deviceClassName", REQUIRED)
        elif isinstance(name, str) and (error := subdomain_error(name)):
            meant = {GPU_RESOURCE: "gpu.nvidia.com"}.get(name) or as_dns_subdomain(name)
            remedy = f'write "{meant}"' if meant else "write the name of a DeviceClass"
            yield problem(subrequest.path / "deviceClassName", invalid(name, error), remedy)


def _class_is_misplaced(subject: Subject, subrequest: Subrequest) -> bool:
    """True if the class is under `exactly` in v1beta1, or under a misspelt name."""
    misspelt = any(
        name not in EXACT_REQUEST_FIELDS and closest(name, ("deviceClassName",)) for name in subrequest.fields
    )
    return misspelt or (subject.version == "v1beta1" and "exactly" in subrequest.fields)


@CLAIMS.rule(
    "GA207",
    "A request must be for a number of devices that it can get",
    default=Severity.DENY,
    remedy="write count: 1 or more, or allocationMode: All without a count",
    source="k8s.io/kubernetes pkg/apis/resource/validation validateDeviceAllocationMode",
    kinds=CLAIM_OR_TEMPLATE,
)
def amounts(subject: Subject) -> Iterator[Problem]:
    """A request is for a number of devices or for all of a node; a number contradicts All.

    A count of 0 is taken for one that is missing, and stands for 1.
    """
    for subrequest in subject.subrequests:
        mode, count = subrequest.fields.get("allocationMode"), subrequest.fields.get("count")
        if isinstance(mode, str) and mode and mode not in _MODES:
            guess = closest(mode, _MODES)
            remedy = f'write "{guess}"' if guess else 'write "ExactCount" or "All"'
            yield problem(subrequest.path / "allocationMode", unsupported_value(mode, _MODES), remedy)
        if not isinstance(count, int) or isinstance(count, bool):
            continue
        if mode == "All" and count != 0:
            text = invalid(count, "must not be specified when allocationMode is 'All'")
            yield problem(subrequest.path / "count", text, "remove count, or write allocationMode: ExactCount")
        elif count < 0:
            yield problem(subrequest.path / "count", invalid(count, "must be greater than zero"))
        elif count == 0 and mode in (None, "", "ExactCount"):
            text = "is 0, which the API server takes for a count that is missing: it stands for 1"
            remedy = "write count: 1, or remove the request"
            yield problem(subrequest.path / "count", text, remedy, severity=Severity.WARN)


_OPERATORS = ("Equal", "Exists")
_EFFECTS = ("NoExecute", "NoSchedule", "None")


@CLAIMS.rule(
    "GA209",
    "Tolerations must be for taints that devices can have",
    default=Severity.DENY,
    remedy="write {key: gpu.nvidia.com/xid, operator: Exists, effect: NoSchedule}, or what the taint is",
    source="k8s.io/kubernetes pkg/apis/resource/validation validateDeviceToleration",
    kinds=CLAIM_OR_TEMPLATE,
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
    key, operator, value, effect = (_text_of(item, field) for field in ("key", "operator", "value", "effect"))
    if key and (error := label_key_error(key)):
        yield problem(path / "key", invalid(key, error), "write the key as the device's taint has it")
    if operator and operator not in _OPERATORS:
        yield problem(path / "operator", unsupported_value(operator, _OPERATORS), _choice_remedy(operator, _OPERATORS))
    if effect and effect not in _EFFECTS:
        yield problem(path / "effect", unsupported_value(effect, _EFFECTS), _choice_remedy(effect, _EFFECTS))
    if operator == "Exists" and value:
        text = invalid(value, "must be empty for operator `Exists`")
        yield problem(path / "value", text, "remove value, or write operator: Equal")
    elif operator in ("", "Equal") and (error := label_value_error(value)):
        yield problem(path / "value", invalid(value, error), "write the value as the device's taint has it")
    elif operator in ("", "Equal") and not key and "key" not in item:
        text = "is missing, which stands for all keys, and that is meant to go with operator: Exists"
        yield problem(path / "key", text, "write a key, or operator: Exists", severity=Severity.WARN)
    if isinstance(item.get("tolerationSeconds"), int) and effect != "NoExecute":
        text = "has no effect without effect: NoExecute, since only that takes pods off their devices"
        remedy = "remove tolerationSeconds, or write effect: NoExecute"
        yield problem(path / "tolerationSeconds", text, remedy, severity=Severity.WARN)


def _text_of(item: dict[str, Any], field: str) -> str:
    value = item.get(field)
    return value if isinstance(value, str) else ""


def _choice_remedy(text: str, known: tuple[str, ...]) -> str:
    guess = closest(text, known)
    return f'write "{guess}"' if guess else f"write one of {', '.join(known)}"


@CLAIMS.rule(
    "GA210",
    "Capacity must be requested by names that devices can have",
    default=Severity.DENY,
    remedy="write the name as the ResourceSlices have it",
    source="k8s.io/api/resource/v1/types.go CapacityRequirements and QualifiedName",
    kinds=CLAIM_OR_TEMPLATE,
)
def capacity_names(subject: Subject) -> Iterator[Problem]:
    """The API server takes any name here, but no ResourceSlice can have a capacity of such a name.

    A name is an identifier, memory, or one with its domain before it. A claim that requests what no device can have is
    never allocated, and a negative amount is a mistake.
    """
    for subrequest in subject.subrequests:
        for name, amount in (subrequest.capacity or {}).items():
            path = ("capacity", "requests", name)
            if error := qualified_name_error(name):
                text = f"{invalid(name, error)}, so no device has it"
                yield problem(FieldPath((*subrequest.path, *path)), text)
            elif _is_negative(amount):
                text = invalid(amount, "must be greater than or equal to 0")
                yield problem(FieldPath((*subrequest.path, *path)), text, "write an amount")


def _is_negative(amount: object) -> bool:
    try:
        return parse_quantity(amount) < 0
    except QuantityError:
        return False
