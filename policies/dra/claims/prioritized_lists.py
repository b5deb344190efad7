"""Prioritized lists: a request is exact, or has alternatives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.decision import Severity
from policies.dra.claim_schemas import EXACT_REQUEST_FIELDS
from policies.dra.claims.checks import CLAIMS
from policies.dra.claims.field_errors import REQUIRED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.dra.claims.subject import Subject
    from policies.dra.resource_claims import DeviceRequest


@CLAIMS.rule(
    "GA205",
    "A request must be either exact or a list of alternatives",
    default=Severity.DENY,
    remedy="write exactly for one kind of device, or firstAvailable for alternatives in the order of preference",
    source="k8s.io/kubernetes pkg/apis/resource/validation validateDeviceRequest",
)
def one_way_of_asking(subject: Subject) -> Iterator[Problem]:
    """The scheduler takes the devices of an exact request, or of the first alternative that can be had; never both."""
    if subject.version == "v1beta1":
        for request in subject.requests:
            if request.fields.get("firstAvailable") and _flat(request):
                text = "exactly one of `deviceClassName` or `firstAvailable` is required, but multiple fields are set"
                remedy = f"move {', '.join(_flat(request))} into the alternatives, or remove firstAvailable"
                yield problem(request.path, f"Invalid value: {text}", remedy)
        return
    for request in subject.requests:
        exact, alternatives = request.fields.get("exactly") is not None, bool(request.fields.get("firstAvailable"))
        text = "exactly one of `exactly` or `firstAvailable` is required"
        if exact and alternatives:
            remedy = "move what exactly asks for into the alternatives, or remove firstAvailable"
            yield problem(request.path, f"Invalid value: {text}, but multiple fields are set", remedy)
        # Fields that v1beta1 has in the request are told as fields that are in the wrong place.
        elif not exact and not alternatives and not _flat(request):
            yield problem(request.path, f"{REQUIRED}: {text}")


def _flat(request: DeviceRequest) -> list[str]:
    return [name for name in EXACT_REQUEST_FIELDS if request.fields.get(name) is not None]
