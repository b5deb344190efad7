"""Constraints and configs: the requests that they refer to, and what a driver gets to read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from policies.claims.field_errors import REQUIRED, driver_name_error, duplicate, invalid, qualified_name_error, too_long
from policies.claims.subject import CLAIM_OR_TEMPLATE, CLAIMS
from policies.kubernetes.phrases import closest, printable
from policies.rules.decision import Severity
from policies.rules.registry import Problem, problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.claims.subject import Subject
    from policies.devices.resource_claims import Config


_ATTRIBUTES = ("matchAttribute", "distinctAttribute")
_STANDARD = {"pcieRoot", "pciBusID", "numaNode"}
"""Attributes of the domain resource.kubernetes.io that NVIDIA's driver publishes."""


@CLAIMS.rule(
    "GA211",
    "A constraint must name one attribute, with its domain",
    default=Severity.DENY,
    remedy="write matchAttribute: resource.kubernetes.io/pcieRoot, or another attribute with its domain",
    source="k8s.io/kubernetes pkg/apis/resource/validation validateDeviceConstraint, validateFullyQualifiedName",
    kinds=CLAIM_OR_TEMPLATE,
)
def constrained_attributes(subject: Subject) -> Iterator[Problem]:
    """A constraint names the attribute that it compares in full: the domain, a slash, the identifier.

    In a selector the domain is a key of its own, and a driver may leave out its own; here nothing can be left out. Of
    two attributes in one constraint the scheduler reads only matchAttribute.
    """
    for constraint in subject.constraints:
        written = [name for name in _ATTRIBUTES if constraint.fields.get(name) is not None]
        if not written:
            text = 'exactly one of "matchAttribute" or "distinctAttribute" is required'
            yield problem(constraint.path, f"{REQUIRED}: {text}")
        elif len(written) > 1:
            text = "is never looked at beside matchAttribute; a constraint has one attribute"
            remedy = "write it as a constraint of its own"
            yield problem(constraint.path / "distinctAttribute", text, remedy, severity=Severity.WARN)
        name = constraint.fields.get(written[0]) if written else None
        if isinstance(name, str) and (error := _attribute_error(name)):
            yield problem(constraint.path / written[0], invalid(name, error), _attribute_remedy(name))


def _attribute_error(name: str) -> str:
    if "/" not in name and not qualified_name_error(name):
        return "a fully qualified name must be a domain and a name separated by a slash"
    return qualified_name_error(name)


def _attribute_remedy(name: str) -> str:
    """What to write in the place of a name that lacks only its domain."""
    if "/" in name or qualified_name_error(name):
        return "write the name as the ResourceSlices have it, with its domain"
    domain = "resource.kubernetes.io" if name in _STANDARD else "gpu.nvidia.com"
    return f"write {domain}/{name}"


_UNKNOWN = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
_LISTED = 5


@CLAIMS.rule(
    "GA212",
    "Constraints and configs must refer to requests of the claim",
    default=Severity.DENY,
    remedy="write the name of a request, or leave requests out to mean all",
    source="k8s.io/kubernetes pkg/apis/resource/validation validateRequestNameRef",
    kinds=CLAIM_OR_TEMPLATE,
)
def references(subject: Subject) -> Iterator[Problem]:
    """A reference is to a request with all its alternatives, `gpu`, or to one alternative, `gpu/large`.

    A list of references names each once; without a list, all requests are meant.
    """
    if subject.kind == "DeviceClass":
        return
    known = list(_request_names(subject))
    for part in subject.referring:
        written = part.fields.get("requests")
        seen = set()
        for index, name in enumerate(written if isinstance(written, list) else ()):
            if not isinstance(name, str):
                continue
            if name not in known:
                wrong, remedy = invalid(name, _UNKNOWN), _reference_remedy(name, known)
                yield problem(part.path / "requests" / index, wrong, remedy)
            elif name in seen:
                yield problem(part.path / "requests" / index, duplicate(name), "name each request once")
            seen.add(name)


def _request_names(subject: Subject) -> Iterator[str]:
    for request in subject.requests:
        yield request.name
        if request.is_prioritized:
            yield from (subrequest.full_name for subrequest in request.subrequests)


def _reference_remedy(name: str, known: list[str]) -> str | None:
    guess = next((other for other in known if other.endswith(f"/{name}")), None) or closest(name, known)
    if guess:
        return f'write "{printable(guess)}"'
    listed = ", ".join(printable(other) for other in known[:_LISTED])
    more = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
    return f"write one of {listed}{more}" if known else None


_LONGEST = 10 * 1024
"""Bytes of parameters, as JSON."""


@CLAIMS.rule(
    "GA213",
    "A config must name its driver and have parameters",
    default=Severity.DENY,
    remedy="write opaque: {driver: gpu.nvidia.com, parameters: {apiVersion: resource.nvidia.com/v1beta1, kind: ...}}",
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
                yield problem(config.path / "opaque", REQUIRED)
        elif isinstance(opaque, dict):
            yield from _driver_problems(config, opaque.get("driver"))
            yield from _parameter_problems(config, opaque.get("parameters"))


def _driver_problems(config: Config, driver: Any) -> Iterator[Problem]:
    if driver is None or driver == "":
        wrong, remedy = REQUIRED, "add driver: gpu.nvidia.com, or whose config it is"
    elif isinstance(driver, str) and (error := driver_name_error(driver)):
        wrong, remedy = invalid(driver, error), "write the name of the driver as its ResourceSlices have it"
    else:
        return
    yield problem(config.path / "opaque" / "driver", wrong, remedy)


def _parameter_problems(config: Config, parameters: Any) -> Iterator[Problem]:
    if parameters is None:
        yield problem(config.parameters_path, REQUIRED, "add parameters, with the apiVersion and kind of a config")
    elif not isinstance(parameters, dict):
        text = (
            "remove the | or the quotes, so that it is a mapping" if isinstance(parameters, str) else "write a mapping"
        )
        yield problem(config.parameters_path, "Invalid value: must be a valid JSON object", text)
    elif (size := _size(parameters)) > _LONGEST:
        yield problem(config.parameters_path, f"{too_long(_LONGEST)}, and has {size}", "shorten the parameters")


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
