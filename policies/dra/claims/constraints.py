"""Constraints: what the devices of a claim have in common, or must not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.decision import Severity
from policies.dra.claims.checks import CLAIMS
from policies.dra.claims.field_errors import REQUIRED, invalid
from policies.dra.claims.name_errors import qualified_name_error

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
)
def constrained_attributes(subject: Subject) -> Iterator[Problem]:
    """A constraint compares one attribute of all devices, so it names it in full: the domain, a slash, the identifier.

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
        if isinstance(name, str) and (error := _error(name)):
            yield problem(constraint.path / written[0], invalid(name, error), _remedy(name))


def _error(name: str) -> str:
    if "/" not in name and not qualified_name_error(name):
        return "a fully qualified name must be a domain and a name separated by a slash"
    return qualified_name_error(name)


def _remedy(name: str) -> str:
    """What to write in the place of a name that lacks only its domain."""
    if "/" in name or qualified_name_error(name):
        return "write the name as the ResourceSlices have it, with its domain"
    domain = "resource.kubernetes.io" if name in _STANDARD else "gpu.nvidia.com"
    return f"write {domain}/{name}"
