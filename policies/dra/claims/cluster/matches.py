"""Whether devices match a request, enough of them, and no more than a claim can hold."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.decision import Severity
from policies.dra.claims.cluster.enough_capacity import requested_capacity, shortage, with_capacity
from policies.dra.claims.cluster.matching import (
    compiled_selectors,
    devices_for_request,
    devices_of_class,
)
from policies.dra.claims.cluster.near_misses import near_misses
from policies.dra.claims.cluster.spelling import misspellings
from policies.dra.claims.cluster.wording import devices
from policies.dra.claims.subject import CLAIM_OR_TEMPLATE, CLAIMS
from policies.dra.device_groups import device_count, largest_node
from policies.dra.resource_claims import MOST_DEVICES
from policies.kubernetes.printable import printable
from policies.kubernetes.quantities import INT64_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.dra.claims.cluster.enough_capacity import Shortage
    from policies.dra.claims.subject import Subject
    from policies.dra.device_groups import DeviceGroup
    from policies.dra.resource_claims import DeviceRequest, Subrequest


_PENDING = "so the pod would stay Pending"


@CLAIMS.rule(
    "GA222",
    "Enough devices of the cluster must match a claim",
    default=Severity.WARN,
    remedy="compare with what exists, or wait for such a node",
    source="ResourceSlices of the cluster; k8s.io/dynamic-resource-allocation/structured",
    kinds=CLAIM_OR_TEMPLATE,
)
def matching_devices(subject: Subject) -> Iterator[Problem]:
    """A claim that no device matches is stored silently, and the pod is Pending without an end.

    That may pass: an autoscaled cluster has no such node until the first pod requests one. It may also be a selector that
    never matches. A prioritized list is reported only if no alternative can be met. Devices in use count as well, because
    they become free.
    """
    if not subject.has_new_selectors or subject.kind == "DeviceClass":
        return
    problems = {
        subrequest.path: tuple(_request_problems(subject, subrequest)) for subrequest in subject.reviewed_subrequests
    }
    for request in subject.requests:
        found = [problems.get(subrequest.path, ()) for subrequest in request.subrequests]
        if all(found):
            yield from (each for problems in found for each in problems)
    if not any(problems.values()):
        yield from _too_few_together(subject)


def _request_problems(subject: Subject, subrequest: Subrequest) -> Iterator[Problem]:
    seen, wanted = devices_of_class(subject.facts, subrequest.device_class), compiled_selectors(subject, subrequest)
    if seen is None or wanted is None:
        return
    known, of_this_class = seen
    if of_this_class.failed or not of_this_class.complete:
        return
    if not of_this_class.matched:
        text = f'no ResourceSlice has a device of class "{subrequest.device_class}" now, {_PENDING}'
        yield problem(subrequest.path / "deviceClassName", text, "wait for a node with such devices and their driver")
        return
    choice = devices_for_request(subject, subrequest)
    if choice is None or choice.failed or not choice.complete:
        return
    total = device_count(of_this_class.matched)
    if not choice.matched:
        if any(misspelt for _, selector in wanted for misspelt in misspellings(selector, subject.facts)):
            return  # that is why, and another rule says it
        none = "the only device" if total == 1 else f"none of the {devices(total)}"
        matches = "does not match" if total == 1 else "matches"
        texts = [text.text for text, _ in wanted]
        near = near_misses(known, of_this_class.matched, texts, subject.facts.effort)
        text = f'{none} of class "{subrequest.device_class}" {matches}, {_PENDING}{near}'
        yield problem(subrequest.path / "selectors", text)
        return
    # A version without the feature drops the field; another rule reports that.
    wanted_capacity = (
        requested_capacity(subrequest) if subject.facts.offers("DRAConsumableCapacity") is not False else {}
    )
    enough = with_capacity(known, choice.matched, wanted_capacity)
    if enough is None:
        return
    if enough:
        yield from _too_few(subrequest, enough)
    else:
        yield _short_of_capacity(subrequest, shortage(known, choice.matched, wanted_capacity))


def _short_of_capacity(subrequest: Subrequest, short: Shortage | None) -> Problem:
    path = subrequest.path / "capacity" / "requests"
    if short is None:
        return problem(
            path, f"requests more than any one device has together, {_PENDING}", "request less of one of them"
        )
    return problem(path / short.name, f"{short.message}, {_PENDING}", short.remedy)


def _too_few(subrequest: Subrequest, matched: Sequence[DeviceGroup]) -> Iterator[Problem]:
    if (
        subrequest.allocation_mode != "ExactCount"
        or subrequest.count > MOST_DEVICES
        or any(group.is_shareable for group in matched)
    ):
        return
    if most_on_a_node(matched, subrequest.count) < subrequest.count:
        node, most = _largest(matched)
        text = f"requests {devices(subrequest.count)}, and no node has more than {most} of this kind ({node}); a claim is for one node"
        yield problem(subrequest.path / "count", text, f"request at most {most}, and use more pods for more nodes")


def _too_few_together(subject: Subject) -> Iterator[Problem]:
    """Problems for classes of which all requests together need more devices than any node has.

    Whichever devices a request selects, they are of its class. Those that admin access sees may be in use, and those
    that several can hold count once for all.
    """
    wanted: Counter[str] = Counter()
    for request in subject.requests:
        for subrequest in request.subrequests if not request.is_prioritized else ():
            if subrequest.allocation_mode == "ExactCount" and not subrequest.has_admin_access:
                wanted[subrequest.device_class] += subrequest.count
    for name, count in wanted.items():
        seen = devices_of_class(subject.facts, name) if count <= MOST_DEVICES else None
        if seen is None or seen[1].failed or not seen[1].complete or not seen[1].matched:
            continue
        matched = seen[1].matched
        if any(group.is_shareable for group in matched) or most_on_a_node(matched, count) >= count:
            continue
        node, most = _largest(matched)
        text = (
            f'request {devices(count)} of class "{printable(name)}" together, and no node has more than {most} '
            f"({node}); a claim is for one node"
        )
        yield problem(
            subject.devices_path / "requests", text, f"request at most {most}, and use more pods for more nodes"
        )


def most_on_a_node(matched: Sequence[DeviceGroup], wanted: int) -> int:
    """The most that one node reaches; found early where it is enough."""
    return wanted if any(group.most_on_a_node >= wanted for group in matched) else _largest(matched)[1]


def _largest(matched: Sequence[DeviceGroup]) -> tuple[str, int]:
    return largest_node(group.by_node for group in matched)


@CLAIMS.rule(
    "GA227",
    "A claim must not request more devices than it can hold",
    default=Severity.DENY,
    remedy="split the claim: a pod can have several",
    source="k8s.io/dynamic-resource-allocation/structured; k8s.io/api/resource/v1/types.go AllocationResultsMaxSize",
    kinds=CLAIM_OR_TEMPLATE,
)
def results(subject: Subject) -> Iterator[Problem]:
    """An allocation has at most 32 devices for all requests; the API server does not count them.

    The scheduler does, and fails the pod on every node. Of a prioritized list the smallest alternative counts. How many
    devices `All` is depends on the node: 8 GPUs cut into 7 slices each are 56.
    """
    if not subject.has_new_selectors:
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
    for subrequest in subject.reviewed_subrequests:
        single = subrequest.path in exact or subrequest.path[:-1] in exact
        if (
            subrequest.allocation_mode == "All"
            and single
            and (choice := devices_for_request(subject, subrequest)) is not None
        ):
            node, count = largest_node(group.by_node for group in choice.matched)
            total = count + least - 1
            if total > MOST_DEVICES:
                others = f", with those of other requests {total}" if total > count else ""
                text = f"is {count} devices on {node}{others}, and a claim can hold {MOST_DEVICES}, so no pod gets it there"
                remedy = "request a count, or select fewer devices"
                yield problem(subrequest.path / "allocationMode", text, remedy, severity=Severity.WARN)


def _fewest(request: DeviceRequest) -> int:
    """The fewest devices that meet a request; of All that is one."""
    counts = [
        subrequest.count if subrequest.allocation_mode == "ExactCount" else 1 for subrequest in request.subrequests
    ]
    return min(counts, default=0)
