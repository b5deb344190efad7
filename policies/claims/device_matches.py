"""Devices that match a request: enough of them, with the capacity that it requires."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import partial
from typing import TYPE_CHECKING

from policies.cel import CelCompileError, split_conjuncts
from policies.claims.claim_subject import CLAIMS
from policies.claims.compared_values import misspellings
from policies.claims.field_errors import qualified_name_error
from policies.claims.selected_devices import compiled_selectors, devices_for_request, devices_of_class
from policies.devices.conditions import describe_failure
from policies.devices.published_devices import device_count, largest_node, shown_value
from policies.devices.resource_claims import MOST_DEVICES
from policies.kubernetes.names import closest, format_count, inflect, printable
from policies.kubernetes.objects import lookup
from policies.kubernetes.quantities import INT64_MAX, quantity_or_none
from policies.kubernetes.resourceslices import Read
from policies.kubernetes.versions import Feature
from policies.rules.checks import Problem
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from fractions import Fraction
    from typing import Any

    from policies.cel import Selector
    from policies.claims.claim_subject import Subject
    from policies.devices.effort import Effort
    from policies.devices.published_devices import DeviceGroup, PublishedDevices
    from policies.devices.resource_claims import Subrequest


_LISTED = 5


def requested_capacity(subrequest: Subrequest) -> Mapping[str, Any]:
    """The requested amounts by name, as they are written; empty if other rules report them."""
    found = subrequest.capacity or {}
    if len(found) > 32 or any(qualified_name_error(name) for name in found):
        return {}
    return found if all(quantity_or_none(value) is not None for value in found.values()) else {}


def with_capacity(
    known: PublishedDevices, groups: Sequence[DeviceGroup], wanted: Mapping[str, Any]
) -> Sequence[DeviceGroup] | None:
    """The devices that have all requested capacities; None if there are too many kinds of devices.

    The rest of a device does not count, nor what its request policy makes of an amount.

    Source: k8s.io/dynamic-resource-allocation/structured/internal/incubating/consumable_capacity.go.
    """
    if not wanted:
        return groups
    apart = known.divide(groups, frozenset(Read("capacity", None, name.rpartition("/")[2]) for name in wanted))
    if apart is None:
        return None
    amounts = [(name, quantity_or_none(value)) for name, value in wanted.items()]
    return [
        group
        for group in apart
        if all(
            _published_capacity(group, name) is not None and amount is not None and _has(group, name) >= amount
            for name, amount in amounts
        )
    ]


def shortage(
    known: PublishedDevices, groups: Sequence[DeviceGroup], wanted: Mapping[str, Any]
) -> tuple[str, str, str] | None:
    """The first capacity that no device has enough of, with message and remedy; None if each exists."""
    count = device_count(groups)
    whose = "the only device that matches" if count == 1 else f"none of the {count} devices that match"
    for name, value in wanted.items():
        having = [group for group in groups if _published_capacity(group, name) is not None]
        if not having:
            lacks = "does not have it" if count == 1 else "has it"
            items = [group.first.body.get("capacity") for group in groups]
            found = sorted({str(known) for each in items if isinstance(each, dict) for known in each})
            identifiers = {known.rpartition("/")[2]: known for known in found}
            remedy = "remove it; these devices have no capacity"
            if guess := closest(name.rpartition("/")[2], identifiers):
                remedy = f'write "{identifiers[guess]}"'
            elif found:
                more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
                there = "there is only" if len(found) == 1 else "there are"
                remedy = f"remove it; {there} {printable(', '.join(found[:_LISTED]))}{more}"
            return name, f"is an unknown capacity: {whose} {lacks}", remedy
        if with_capacity(known, having, {name: value}) == []:
            apart = known.divide(having, frozenset({Read("capacity", None, name.rpartition("/")[2])})) or having
            most = shown_value(_published_capacity(max(apart, key=lambda group: _has(group, name)), name))
            text = f"requests {printable(str(value))}, and the largest of the devices that match has {printable(most)}"
            return name, text, f"request at most {printable(most)}, or wait for a node with more"
    return None


def _published_capacity(group: DeviceGroup, name: str) -> Any:
    """A capacity as the slice has it; names count as they are written, with or without their domain."""
    items = group.first.body.get("capacity")
    return items.get(name) if isinstance(items, dict) else None


def _has(group: DeviceGroup, name: str) -> Fraction | float:
    """The amount of a capacity; infinite if it cannot be read, so that nothing is reported."""
    amount = quantity_or_none(lookup(_published_capacity(group, name), ("value",)))
    return float("inf") if amount is None else amount


_VALUES = 3


def near_misses(known: PublishedDevices, groups: Sequence[DeviceGroup], texts: Iterable[str], effort: Effort) -> str:
    """Describe what devices that almost match fail; empty if none comes near, or it is too much work."""
    conditions = [conjunct.text for text in texts for conjunct in split_conjuncts(text)]
    if len(conditions) > 32 or not effort.admit_hints(conditions):
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
    by_failed: defaultdict[Selector, list[DeviceGroup]] = defaultdict(list)
    for group, row in zip(apart, zip(*verdicts, strict=True), strict=True):
        failed = [selector for selector, verdict in zip(selectors, row, strict=True) if verdict is not True]
        if len(failed) == 1:
            by_failed[failed[0]].append(group)
    phrases = []
    for selector, failing in sorted(by_failed.items(), key=lambda item: -device_count(item[1]))[:2]:
        count = device_count(failing)
        has = inflect(describe_failure(selector.text, partial(_values, failing)).text, count)
        subject = (
            "1 device fails only one condition: it" if count == 1 else f"{count} devices fail only one condition: they"
        )
        phrases.append(f"; {subject} {has}")
    return "".join(phrases)


def _values(groups: Sequence[DeviceGroup], read: Read) -> str | None:
    """The values that devices have, most frequent first; None if no device has a value."""
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
    remedy="select devices that exist, or wait for such a node",
    source="ResourceSlices of the cluster; k8s.io/dynamic-resource-allocation/structured",
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
        yield Problem(subrequest.path / "deviceClassName", text, "wait for a node with such devices and their driver")
        return
    choice = devices_for_request(subject, subrequest)
    if choice is None or choice.failed or not choice.complete:
        return
    total = device_count(of_this_class.matched)
    if not choice.matched:
        if any(misspelt for _, selector in wanted for misspelt in misspellings(selector, subject.facts)):
            return  # that is why, and another rule says it
        none = "the only device" if total == 1 else f"none of the {total} devices"
        matches = "does not match" if total == 1 else "matches"
        texts = [text.text for text, _ in wanted]
        near = near_misses(known, of_this_class.matched, texts, subject.effort)
        text = f'{none} of class "{subrequest.device_class}" {matches}, {_PENDING}{near}'
        yield Problem(subrequest.path / "selectors", text)
        return
    # A version without the feature drops the field; another rule reports that.
    wanted_capacity = (
        requested_capacity(subrequest) if Feature.DRAConsumableCapacity.is_on(subject.facts.view) is not False else {}
    )
    enough, path = with_capacity(known, choice.matched, wanted_capacity), subrequest.path / "capacity" / "requests"
    if enough is None:
        return
    if not enough and (short := shortage(known, choice.matched, wanted_capacity)):
        name, message, remedy = short
        yield Problem(path / name, f"{message}, {_PENDING}", remedy)
    elif not enough:
        text = f"is more than any one device has together, {_PENDING}"
        yield Problem(path, text, "request less of one capacity")
    elif subrequest.allocation_mode == "ExactCount" and (most := _most_for(enough, subrequest.count)):
        text = f"requests {format_count(subrequest.count, 'device')}, and no node has more than {most[1]} of this kind"
        remedy = f"request at most {most[1]}, and use more pods for more nodes"
        yield Problem(subrequest.path / "count", f"{text} ({most[0]}); a claim is for one node", remedy)


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
        seen = devices_of_class(subject.facts, name)
        if seen is None or seen[1].failed or not seen[1].complete or not seen[1].matched:
            continue
        if most := _most_for(seen[1].matched, count):
            text = f'{format_count(count, "device")} of class "{printable(name)}" are requested together'
            text += f", and no node has more than {most[1]} ({most[0]}); a claim is for one node"
            remedy = f"request at most {most[1]}, and use more pods for more nodes"
            yield Problem(subject.devices_path / "requests", text, remedy)


def _most_for(matched: Sequence[DeviceGroup], wanted: int) -> tuple[str, int] | None:
    """The node with the most devices, and how many; None if it has enough, or devices are shareable."""
    if (
        wanted > MOST_DEVICES
        or any(group.is_shareable for group in matched)
        or most_on_a_node(matched, wanted) >= wanted
    ):
        return None
    return largest_node(group.by_node for group in matched)


def most_on_a_node(matched: Sequence[DeviceGroup], wanted: int) -> int:
    """The most that one node reaches; found early where it is enough."""
    if any(group.most_on_a_node >= wanted for group in matched):
        return wanted
    return largest_node(group.by_node for group in matched)[1]


@CLAIMS.rule(
    "GA227",
    "A claim must not request more devices than it can hold",
    remedy="split the claim: a pod can have several",
    source="k8s.io/dynamic-resource-allocation/structured; k8s.io/api/resource/v1/types.go AllocationResultsMaxSize",
)
def results(subject: Subject) -> Iterator[Problem]:
    """An allocation has at most 32 devices for all requests; the API server does not count them.

    The scheduler does, and fails the pod on every node. Of a prioritized list the smallest alternative counts. How many
    devices `All` is depends on the node: 8 GPUs cut into 7 slices each are 56.
    """
    if not subject.has_new_selectors:
        return
    # Of All, one device is the fewest.
    counts = [
        [each.count if each.allocation_mode == "ExactCount" else 1 for each in request.subrequests]
        for request in subject.requests
    ]
    fewest = [min(of_request, default=0) for of_request in counts]
    if any(not 0 <= count <= INT64_MAX for count in fewest):
        return
    least = sum(fewest)
    if least > MOST_DEVICES:
        text = f"number of requested devices {least} exceeds the claim limit of {MOST_DEVICES}, so no pod can get them"
        yield Problem(subject.devices_path / "requests", text)
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
                yield Problem(subrequest.path / "allocationMode", text, remedy, severity=Severity.WARN)
