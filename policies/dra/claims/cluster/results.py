"""How many devices a claim can hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.decision import Severity
from policies.dra.claims.cluster.matching import asked_for, for_request, is_new
from policies.dra.claims.subject import CLAIMS
from policies.dra.device_groups import largest_node
from policies.kubernetes.quantities import INT64_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.dra.claims.subject import Subject
    from policies.dra.resource_claims import DeviceRequest

__all__ = ["MOST_DEVICES"]

MOST_DEVICES = 32
"""In one allocation. Source: k8s.io/api/resource/v1/types.go AllocationResultsMaxSize."""
"""What is no such number is told by the rules on shapes and counts."""


@CLAIMS.rule(
    "GA227",
    "A claim must not ask for more devices than it can hold",
    default=Severity.DENY,
    remedy="split the claim: a pod can have several",
    source="k8s.io/dynamic-resource-allocation/structured; k8s.io/api/resource/v1/types.go AllocationResultsMaxSize",
)
def results(subject: Subject) -> Iterator[Problem]:
    """An allocation lists 32 devices at most, over all requests of a claim, and the API server does not count them.

    The scheduler does, and fails the pod on every node. Of a prioritized list the smallest alternative counts. How many
    devices `All` is depends on the node: 8 GPUs cut into 7 slices each are 56.
    """
    if not is_new(subject):
        return
    fewest = [_fewest(request) for request in subject.requests]
    if any(not 0 <= count <= INT64_MAX for count in fewest):
        return
    least = sum(fewest)
    if least > MOST_DEVICES:
        text = f"number of requested devices {least} exceeds the claim limit of {MOST_DEVICES}, so no pod can get them"
        yield problem(subject.devices_path / "requests", text)
        return
    exact = {request.path for request in subject.requests if not request.is_prioritized}
    for subrequest in asked_for(subject):
        single = subrequest.path in exact or subrequest.path[:-1] in exact
        if subrequest.allocation_mode == "All" and single and (choice := for_request(subject, subrequest)) is not None:
            node, count = largest_node(group.by_node for group in choice.matched)
            total = count + least - 1
            if total > MOST_DEVICES:
                others = f", with those of other requests {total}" if total > count else ""
                text = f"is {count} devices on {node}{others}, and a claim can hold {MOST_DEVICES}, so no pod gets it there"
                remedy = "ask for a count, or select fewer devices"
                yield problem(subrequest.path / "allocationMode", text, remedy, severity=Severity.WARN)


def _fewest(request: DeviceRequest) -> int:
    """The fewest devices that meet a request; of All that is one."""
    counts = [
        subrequest.count if subrequest.allocation_mode == "ExactCount" else 1 for subrequest in request.subrequests
    ]
    return min(counts, default=0)
