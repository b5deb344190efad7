"""References: the requests that constraints and configs speak of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.decision import Severity
from policies.dra.claims.checks import CLAIMS
from policies.dra.claims.field_errors import duplicate, invalid
from policies.kubernetes.misspellings import closest
from policies.kubernetes.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.dra.claims.subject import Subject

_UNKNOWN = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
_LISTED = 5


@CLAIMS.rule(
    "GA212",
    "Constraints and configs must refer to requests of the claim",
    default=Severity.DENY,
    remedy="write the name of a request, or leave requests out to mean all",
    source="k8s.io/kubernetes pkg/apis/resource/validation validateRequestNameRef",
)
def references(subject: Subject) -> Iterator[Problem]:
    """A reference is to a request with all its alternatives, `gpu`, or to one alternative, `gpu/large`.

    A list of references names each once; without a list, all requests are meant.
    """
    if subject.kind == "DeviceClass":
        return
    known = list(_names(subject))
    for part in subject.referring:
        written = part.fields.get("requests")
        seen = set()
        for index, name in enumerate(written if isinstance(written, list) else ()):
            path = part.path / "requests" / index
            if not isinstance(name, str):
                continue
            if name not in known:
                yield problem(path, invalid(name, _UNKNOWN), _remedy(name, known))
            elif name in seen:
                yield problem(path, duplicate(name), "name each request once")
            seen.add(name)


def _names(subject: Subject) -> Iterator[str]:
    for request in subject.requests:
        yield request.name
        if request.is_prioritized:
            yield from (subrequest.full_name for subrequest in request.subrequests)


def _remedy(name: str, known: list[str]) -> str | None:
    guess = next((other for other in known if other.endswith(f"/{name}")), None) or closest(name, known)
    if guess:
        return f'write "{printable(guess)}"'
    listed = ", ".join(printable(other) for other in known[:_LISTED])
    more = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
    return f"write one of {listed}{more}" if known else None
