"""How many devices a claim can hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.decision import Severity
from policies.dra.claims.checks import CLAIMS
from policies.dra.claims.cluster.matching import asked_for, for_request, is_new
from policies.dra.inventory import largest_node
from policies.kubernetes.quantities import INT64_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.dra.claims.subject import Subject
    from policies.dra.device_requests import Request

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
    exact = {request.path for request in subject.requests if not request.prioritized}
    for asked in asked_for(subject):
        single = asked.path in exact or asked.path[:-1] in exact
        if asked.allocation_mode == "All" and single and (choice := for_request(subject, asked)) is not None:
            node, count = largest_node(group.by_node for group in choice.matched)
            total = count + least - 1
            if total > MOST_DEVICES:
                others = f", with those of other requests {total}" if total > count else ""
                text = f"is {count} devices on {node}{others}, and a claim can hold {MOST_DEVICES}, so no pod gets it there"
                remedy = "ask for a count, or select fewer devices"
                yield problem(asked.path / "allocationMode", text, remedy, severity=Severity.WARN)


def _fewest(request: Request) -> int:
    """The fewest devices that meet a request; of All that is one."""
    counts = [asked.count if asked.allocation_mode == "ExactCount" else 1 for asked in request.alternatives]
    return min(counts, default=0)
