"""Limits: how long the lists of a claim or class may be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.checks import Problem, problem
from policies.decision import Severity
from policies.dra.claims.field_errors import too_many
from policies.dra.claims.subject import CLAIMS
from policies.dra.resource_claims import MOST_ENTRIES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.dra.claims.subject import Subject
    from policies.kubernetes.paths import FieldPath

_MOST_ALTERNATIVES = 8
_MOST_TOLERATIONS = 16


@CLAIMS.rule(
    "GA208",
    "Lists must not exceed the limits of the API server",
    default=Severity.DENY,
    remedy="split the claim: a pod can have several",
    source="k8s.io/api/resource/v1/types.go, the constants ending in MaxSize",
)
def list_lengths(subject: Subject) -> Iterator[Problem]:
    """The API server limits most lists of a claim to 32 entries, and firstAvailable to 8.

    Of tolerations, 16 is the documented limit, which Kubernetes 1.36 does not enforce.
    """
    for owner, name, items in _lists(subject):
        if isinstance(items, list) and len(items) > MOST_ENTRIES:
            yield problem(owner / name, too_many(len(items), MOST_ENTRIES), _REMEDIES.get(name))
    for request in subject.requests:
        alternatives = request.fields.get("firstAvailable")
        if isinstance(alternatives, list) and len(alternatives) > _MOST_ALTERNATIVES:
            text = too_many(len(alternatives), _MOST_ALTERNATIVES)
            yield problem(request.path / "firstAvailable", text, "keep the alternatives that matter most")
    for part in subject.referring:
        if len(part.requests) > MOST_ENTRIES:
            yield problem(
                part.path / "requests", too_many(len(part.requests), MOST_ENTRIES), "leave it out to mean all requests"
            )
    for subrequest in subject.subrequests:
        tolerations = subrequest.fields.get("tolerations")
        if isinstance(tolerations, list) and len(tolerations) > _MOST_TOLERATIONS:
            text = f"has {len(tolerations)} items; {_MOST_TOLERATIONS} is the documented limit"
            remedy = "tolerate all of a kind by operator: Exists"
            yield problem(subrequest.path / "tolerations", text, remedy, severity=Severity.WARN)


_REMEDIES: dict[str, str] = {
    "selectors": "join selectors by && in one expression",
    "constraints": "name several requests in one constraint",
    "config": "name several requests in one config",
}


def _lists(subject: Subject) -> Iterator[tuple[FieldPath, str, Any]]:
    """The lists of at most 32 entries: the path of the owner, the name of the field, and its value."""
    names = ("selectors", "config") if subject.kind == "DeviceClass" else ("requests", "constraints", "config")
    for name in names if isinstance(subject.devices, dict) else ():
        yield subject.devices_path, name, subject.devices.get(name)
    for subrequest in subject.subrequests:
        yield subrequest.path, "selectors", subrequest.fields.get("selectors")
