"""Constraints, and the requests that constraints and configs refer to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.decision import Severity
from policies.dra.claims.field_errors import REQUIRED, duplicate, invalid, qualified_name_error
from policies.dra.claims.subject import CLAIM_OR_TEMPLATE, CLAIMS
from policies.kubernetes.misspellings import closest
from policies.kubernetes.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.dra.claims.subject import Subject

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
