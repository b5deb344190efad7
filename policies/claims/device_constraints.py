"""Constraints that the devices of the cluster cannot meet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from policies.claims.claim_subject import CLAIMS
from policies.claims.device_matches import most_on_a_node
from policies.claims.field_errors import qualified_name_error
from policies.claims.missing_reads import kinds_of
from policies.claims.nvidia_attributes import REMOVED
from policies.claims.selected_devices import devices_for_request, devices_of_class
from policies.kubernetes.names import closest
from policies.rules.checks import Problem
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.claims.absence import Place
    from policies.claims.claim_subject import Subject
    from policies.devices.published_devices import DeviceGroup
    from policies.devices.resource_claims import Constraint, DeviceRequest, Subrequest
    from policies.kubernetes.resourceslices import Device

    Value = tuple[str, Any]


_KINDS = {"string": "text", "int": "a number", "bool": "true or false", "version": "a version"}


class _Need(NamedTuple):
    """A request that a constraint is on, and what of the cluster it can have."""

    subrequest: Subrequest
    groups: Sequence[DeviceGroup]

    @property
    def wanted(self) -> int:
        """The number of devices; of All at least one."""
        return self.subrequest.count if self.subrequest.allocation_mode == "ExactCount" else 1


@CLAIMS.rule(
    "GA226",
    "The devices of the cluster must be able to meet the constraints of a claim",
    default=Severity.WARN,
    remedy="constrain another attribute, or request fewer devices",
    source="k8s.io/dynamic-resource-allocation/structured/internal/incubating/constraint.go matchAttributeConstraint, "
    "distinctAttributeConstraint; github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/deviceinfo.go "
    "Attributes, GetDevice; cmd/gpu-kubelet-plugin/mig.go CommonAttributesMig",
)
def feasible_constraints(subject: Subject) -> Iterator[Problem]:
    """A device without the attribute is passed over, and one with a value of another type never agrees.

    So a constraint on what devices lack, or have in too few places, is a claim that no node can meet. A whole GPU, for
    one, has no parentUUID: only MIG slices have. In use or not, all devices count here.
    """
    if not subject.has_new_selectors:
        return
    for constraint in subject.constraints:
        field = next((name for name in ("matchAttribute", "distinctAttribute") if constraint.fields.get(name)), "")
        attribute = constraint.fields.get(field)
        if not isinstance(attribute, str) or "/" not in attribute or qualified_name_error(attribute):
            continue
        domain, _, name = attribute.partition("/")
        place: Place = ("attributes", domain, name)
        needs = []
        for request, covered in _covered_requests(subject, constraint):
            lacking = [subrequest for subrequest in covered if _is_without(subject, subrequest, place)]
            if covered and len(lacking) == len(covered):
                text = f'is on {attribute}, which no device has that request "{request.name}" can get'
                yield Problem(constraint.path / field, text, _instead(subject, covered, place))
                break
            needs.append([_need(subject, subrequest) for subrequest in covered])
        else:
            groups = (group for each in needs for need in each if need is not None for group in need.groups)
            if subject.effort.compare(sum(len(group.devices) for group in groups)):
                yield from _value_problems(constraint, field, place, needs)


def _covered_requests(subject: Subject, constraint: Constraint) -> Iterator[tuple[DeviceRequest, list[Subrequest]]]:
    """The requests that a constraint is on with certainty, whichever alternative of theirs is taken."""
    within = {subrequest.path for subrequest in subject.reviewed_subrequests}
    for request in subject.requests:
        covered = [each for each in request.subrequests if constraint.covers(each) and each.path in within]
        if covered and len(covered) == len(request.subrequests):
            yield request, covered


def _need(subject: Subject, subrequest: Subrequest) -> _Need | None:
    """The devices that a request can have; None if they are unknown, or there are none."""
    seen, choice = devices_of_class(subject.facts, subrequest.device_class), devices_for_request(subject, subrequest)
    if seen is None or choice is None or seen[1].failed or choice.failed or not choice.complete or not choice.matched:
        return None
    return None if any(group.is_shareable for group in choice.matched) else _Need(subrequest, choice.matched)


def _is_without(subject: Subject, subrequest: Subrequest, place: Place) -> bool:
    """True if no device for a request has the attribute, by the slices or by what NVIDIA publishes."""
    need = _need(subject, subrequest)
    if need is not None:
        return not any(group.has(*place) for group in need.groups)
    seen = devices_of_class(subject.facts, subrequest.device_class)
    if seen is not None and seen[1].matched:
        return False
    kinds = kinds_of(subject.facts, subrequest.device_class)
    return bool(kinds) and place not in REMOVED and not any(place in (*kind.always, *kind.sometimes) for kind in kinds)


def _instead(subject: Subject, covered: Sequence[Subrequest], place: Place) -> str:
    part, domain, name = place
    if name == "parentUUID":
        return "remove the constraint; only MIG slices, of class mig.nvidia.com, have a parentUUID"
    if place in REMOVED:
        return REMOVED[place].remedy
    known: set[tuple[str, str]] = set()
    for subrequest in covered:
        if (need := _need(subject, subrequest)) is not None:
            attributes = (group.sample.attributes for group in need.groups)
            known.update((where, str(found)) for each in attributes for where, items in each.items() for found in items)
        else:
            kinds = kinds_of(subject.facts, subrequest.device_class)
            places = (each for kind in kinds for each in (*kind.always, *kind.sometimes))
            known.update((where, found) for which, where, found in places if which == part)
    elsewhere = [f"{where}/{found}" for where, found in known if found == name]
    if len(elsewhere) == 1:
        return f"write {elsewhere[0]}"
    guess = closest(name, sorted(found for where, found in known if where == domain))
    return f"write {domain}/{guess}" if guess else "constrain an attribute that they have, or remove the constraint"


def _value_problems(
    constraint: Constraint, field: str, place: Place, needs: Sequence[Sequence[_Need | None]]
) -> Iterator[Problem]:
    """A problem if no node has enough devices whose values agree, or differ."""
    known = [[need for need in alternatives if need is not None] for alternatives in needs]
    if not known or any(len(have) < len(all_of) for have, all_of in zip(known, needs, strict=True)):
        return
    if any(most_on_a_node(need.groups, need.wanted) < need.wanted for each in known for need in each):
        return
    attribute = "/".join(place[1:])
    kinds: list[set[str]] = []
    for alternatives in known:
        groups = [group for need in alternatives for group in need.groups if group.has(*place)]
        items = [group.first.item(*place) for group in groups]
        kinds.append({kind for item in items for kind in (item if isinstance(item, dict) and len(item) == 1 else [""])})
    if any(not kind <= _KINDS.keys() for kind in kinds):
        return
    total = sum(min(need.wanted for need in alternatives) for alternatives in known)
    agrees = field == "matchAttribute"
    best = 0
    # If a request can be met from anywhere, its node is "".
    nodes = dict.fromkeys(node for each in known for need in each for group in need.groups for node in group.on_node)
    for node in nodes:
        here = [[_values(need, node, place) for need in alternatives] for alternatives in known]
        reached = _most_agreeing(known, here) if agrees else _most_differing(known, here)
        best = max(best, min(reached, total))
        if reached >= total:
            return
    names = " and ".join(f'"{alternatives[0].subrequest.request_name}"' for alternatives in known)
    if agrees and len(kinds) > 1 and not set.intersection(*kinds):
        types = " and ".join(_KINDS[min(kind)] for kind in kinds)
        yield Problem(constraint.path / field, f"never agrees: {attribute} is {types} for the devices of {names}")
        return
    verb = "agree" if agrees else "differ"
    most = "them" if len(known) > 1 and agrees else f"more than {best} that do"
    text = f"wants {total} devices for {names} that {verb} in {attribute}, and no node has {most}"
    yield Problem(constraint.path / field, text)


def _values(need: _Need, node: str, place: Place) -> list[tuple[Value, Device]]:
    """The values of the attribute on devices that the node reaches."""
    reached = (each for group in need.groups for where in {node: 0, "": 0} for each in group.on_node.get(where, ()))
    items = ((member.item(*place), member) for member in reached)
    return [(next(iter(item.items())), member) for item, member in items if isinstance(item, dict) and len(item) == 1]


def _most_agreeing(known: Sequence[Sequence[_Need]], here: Sequence[Sequence[list[tuple[Value, Device]]]]) -> int:
    """The most devices with one value that meet every request; of a single request, the most at all."""
    best = 0
    values = {value for alternatives in here for listed in alternatives for value, _ in listed}
    for value in values:
        devices = {id(member.body) for each in here for listed in each for found, member in listed if found == value}
        met = all(
            any(
                sum(found == value for found, _ in listed) >= need.wanted
                for need, listed in zip(alternatives, lists, strict=True)
            )
            for alternatives, lists in zip(known, here, strict=True)
        )
        if met or len(known) == 1:
            best = max(best, len(devices))
    return best


def _most_differing(known: Sequence[Sequence[_Need]], here: Sequence[Sequence[list[tuple[Value, Device]]]]) -> int:
    """The number of different values, if every request can have its own."""
    for alternatives, lists in zip(known, here, strict=True):
        counts = [len({value for value, _ in listed}) for listed in lists]
        if not any(count >= need.wanted for need, count in zip(alternatives, counts, strict=True)):
            return max(counts) if len(known) == 1 else 0
    return len({value for lists in here for listed in lists for value, _ in listed})
