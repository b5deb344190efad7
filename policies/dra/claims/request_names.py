"""Names of requests, by which containers, constraints and configs refer to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.checks import Problem, problem
from policies.decision import Severity
from policies.dra.claims.checks import CLAIMS
from policies.dra.claims.field_errors import REQUIRED, duplicate, invalid
from policies.dra.claims.name_errors import LONGEST_LABEL, as_dns_label, label_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.dra.claims.subject import Subject
    from policies.kubernetes.paths import FieldPath


@CLAIMS.rule(
    "GA204",
    "Requests must have unique, valid names",
    default=Severity.DENY,
    remedy="write a name of lower case letters, digits and '-'",
    source="k8s.io/kubernetes pkg/apis/resource/validation validateDeviceRequest",
)
def request_names(subject: Subject) -> Iterator[Problem]:
    """A request has a name that no other request of the claim has, and so has each alternative within its list.

    Containers ask for `gpu`, and constraints and configs speak of `gpu` or, of an alternative, of `gpu/large`.
    """
    yield from _names((request.path, request.fields) for request in subject.requests)
    for request in subject.requests:
        if request.is_prioritized:
            yield from _names((subrequest.path, subrequest.fields) for subrequest in request.subrequests)


def _names(named: Iterable[tuple[FieldPath, dict[str, Any]]]) -> Iterator[Problem]:
    seen = set()
    for path, fields in named:
        name = fields.get("name")
        if name is None or name == "":
            yield problem(path / "name", REQUIRED, "add a name, such as gpu")
        elif isinstance(name, str):
            if error := label_error(name):
                yield problem(path / "name", invalid(name, error), _write(name))
            elif name in seen:
                yield problem(path / "name", duplicate(name), "give each its own name")
            seen.add(name)


def _write(name: str) -> str | None:
    if len(name) > LONGEST_LABEL:
        return "write a shorter one"
    meant = as_dns_label(name)
    return f'write "{meant}"' if meant else None
