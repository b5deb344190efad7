"""Devices that match a request: enough of them, with the capacity that it requires."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from policies.cel import CelCompileError, split_conjuncts
from policies.claims.claim_subject import CLAIM_OR_TEMPLATE, CLAIMS
from policies.claims.compared_values import misspellings
from policies.claims.field_errors import qualified_name_error
from policies.claims.selected_devices import compiled_selectors, devices, devices_for_request, devices_of_class
from policies.devices.conditions import describe_failure
from policies.devices.published_devices import device_count, largest_node, shown_value
from policies.devices.resource_claims import MOST_DEVICES
from policies.kubernetes.names import closest, inflect, printable
from policies.kubernetes.objects import lookup
from policies.kubernetes.quantities import INT64_MAX, QuantityError, parse_quantity
from policies.kubernetes.resourceslices import Read
from policies.rules.decision import Severity
from policies.rules.registry import Problem, problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from fractions import Fraction
    from typing import Any

    from policies.cel import CelRuntimeError, Selector
    from policies.claims.claim_subject import Subject
    from policies.devices.effort import Effort
    from policies.devices.published_devices import DeviceGroup, PublishedDevices
    from policies.devices.resource_claims import DeviceRequest, Subrequest

__all__ = ["Shortage", "near_misses", "requested_capacity", "shortage", "with_capacity"]


_MOST = 32
"""Capacities of one request that are looked at."""
_LISTED = 5


class Shortage(NamedTuple):
    """A capacity that no device has, or has enough of."""

    name: str
    message: str
    remedy: str


def requested_capacity(subrequest: Subrequest) -> Mapping[str, Any]:
    """The requested amounts by name, as they are written; empty if other rules report them."""
    found = subrequest.capacity or {}
    if len(found) > _MOST:
        return {}
    usable = not any(qualified_name_error(name) for name in found)
    return found if usable and all(_amount(value) is not None for value in found.values()) else {}


def with_capacity(
    known: PublishedDevices, groups: Sequence[DeviceGroup], wanted: Mapping[str, Any]
) -> Sequence[DeviceGroup] | None:
    """The devices that have all requested capacities; None if there are too many kinds of devices.

    The rest of a device does not count, nor what its request policy makes of an amount.

    Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating/consumable_capacity.go.
    """
    if not wanted:
        return groups
    reads = frozenset(Read("capacity", None, name.rpartition("/")[2]) for name in wanted)
    apart = known.divide(groups, reads)
    if apart is None:
        return None
    return [group for group in apart if all(_suffices(group, name, value) for name, value in wanted.items())]


def shortage(known: PublishedDevices, groups: Sequence[DeviceGroup], wanted: Mapping[str, Any]) -> Shortage | None:
    """The first capacity that no device has enough of; None if only their combination is missing."""
    whose = (
        "the only device that matches"
        if device_count(groups) == 1
        else f"none of the {devices(device_count(groups))} that match"
    )
    for name, value in wanted.items():
        having = [group for group in groups if _published_capacity(group, name) is not None]
        if not having:
            lacks = "does not have it" if device_count(groups) == 1 else "has it"
            return Shortage(name, f"is an unknown capacity: {whose} {lacks}", _other(groups, name))
        if with_capacity(known, having, {name: value}) == []:
            apart = known.divide(having, frozenset({Read("capacity", None, name.rpartition("/")[2])})) or having
            most = shown_value(_published_capacity(max(apart, key=lambda group: _has(group, name)), name))
            text = f"requests {printable(str(value))}, and the largest of the devices that match has {printable(most)}"
            return Shortage(name, text, f"request at most {printable(most)}, or wait for a node with more")
    return None


def _suffices(group: DeviceGroup, name: str, value: Any) -> bool:
    item = _published_capacity(group, name)
    amount = _amount(value)
    return item is not None and amount is not None and _has(group, name) >= amount


def _published_capacity(group: DeviceGroup, name: str) -> Any:
    """A capacity as the slice has it; names count as they are written, with or without their domain."""
    items = group.first.body.get("capacity")
    return items.get(name) if isinstance(items, dict) else None


def _has(group: DeviceGroup, name: str) -> Fraction | float:
    """How much there is; any amount where that cannot be read, so that nothing is said."""
    amount = _amount(lookup(_published_capacity(group, name), ("value",)))
    return float("inf") if amount is None else amount


def _amount(value: Any) -> Fraction | None:
    try:
        return parse_quantity(value)
    except QuantityError:
        return None


def _other(groups: Sequence[DeviceGroup], name: str) -> str:
    """The capacity to request instead of one that no device has."""
    found = {str(known) for group in groups for known in _names(group)}
    identifiers = {known.rpartition("/")[2]: known for known in sorted(found)}
    guess = closest(name.rpartition("/")[2], identifiers)
    if guess:
        return f'write "{identifiers[guess]}"'
    if not found:
        return "remove it; these devices have no capacity"
    more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
    return f"remove it; there are {printable(', '.join(sorted(found)[:_LISTED]))}{more}"


def _names(group: DeviceGroup) -> Sequence[str]:
    items = group.first.body.get("capacity")
    return list(items) if isinstance(items, dict) else []


_MOST_CONDITIONS = 32
_TOLD = 2
_VALUES = 3


def near_misses(known: PublishedDevices, groups: Sequence[DeviceGroup], texts: Iterable[str], effort: Effort) -> str:
    """Describe what devices that almost match fail; empty if none comes near, or it is too much work."""
    conditions = [conjunct.text for text in texts for conjunct in split_conjuncts(text)]
    if len(conditions) > _MOST_CONDITIONS:
        return ""
    if not effort.admit_hints(conditions):
        return ""
    selectors = [each for text in conditions if not isinstance(each := effort.compile(text), CelCompileError)]
    apart: list[DeviceGroup] | None = list(groups)
    for selector in selectors:
        apart = None if apart is None else known.divide(apart, selector.reads)
    if apart is None or len(selectors) < len(conditions):
        return ""
    rows = [effort.verdicts(selector, apart) for selector in selectors]
    verdicts = [row for row in rows if row is not None]
    if len(verdicts) < len(rows):
        return ""
    failing = _groups_by_failed_term(selectors, apart, verdicts)
    return "".join(
        f"; {_phrase(selector, missing)}"
        for selector, missing in sorted(failing.items(), key=lambda item: -device_count(item[1]))[:_TOLD]
    )


def _groups_by_failed_term(
    selectors: Sequence[Selector], groups: Sequence[DeviceGroup], verdicts: Sequence[Sequence[bool | CelRuntimeError]]
) -> dict[Selector, list[DeviceGroup]]:
    """Groups by the one term that they fail."""
    found: defaultdict[Selector, list[DeviceGroup]] = defaultdict(list)
    for group, row in zip(groups, zip(*verdicts, strict=True), strict=True):
        failed = [selector for selector, verdict in zip(selectors, row, strict=True) if verdict is not True]
        if len(failed) == 1:
            found[failed[0]].append(group)
    return found


def _phrase(selector: Selector, groups: Sequence[DeviceGroup]) -> str:
    count = device_count(groups)
    has = describe_failure(selector.text, lambda read: _values(read, groups)).text
    subject, verb = ("it", "fails") if count == 1 else ("they", "fail")
    return f"{devices(count)} {verb} only one condition: {subject} {inflect(has, count)}"


def _values(read: Read, groups: Sequence[DeviceGroup]) -> str | None:
    """What devices have, those values first that most have; None where none has anything."""
    values: Counter[str] = Counter()
    for group in groups:
        value = group.value_of(read)
        if value is not None:
            values[value] += len(group.devices)
    shown = " or ".join(value for value, _ in values.most_common(_VALUES))
    return f"{shown} or another" if len(values) > _VALUES else shown or None


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
