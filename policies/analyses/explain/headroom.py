"""Headrooms: the number of further pods, claims or workloads that limits and devices admit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from policies.admission import as_created, review, templates_of
from policies.analyses.explain.explanations import redactor
from policies.devices.native_quotas import QuotaUse, native_rooms
from policies.devices.pod_groups import with_shared_claims
from policies.kubernetes.objects import FieldPath, lookup, name_of, namespace_of
from policies.kubernetes.pod_templates import PodCount, created_pod, pod_of
from policies.kubernetes.quantities import ONE, bare_resource_amount, resource_amount
from policies.kubernetes.view import ChangedView
from policies.kubernetes.workloads import group_of
from policies.outcome import (
    EVERYTHING,
    Feasibility,
    ObstacleKind,
    ReplicaCount,
    device_room,
    pod_question,
    questions,
    templates_of_claims,
)
from policies.quota.charging import charge_decision
from policies.quota.counting import budgets_of
from policies.quota.demands.bills import Uncountable, charge_under
from policies.quota.ledger.open_charges import ZERO, add_amounts, sum_amounts
from policies.quota.limits.amounts import AmountScale
from policies.quota.limits.cluster_quota import without_quotas
from policies.quota.workload_totals import requests_at_once
from policies.rules.charges import Unit  # noqa: TC001 - pydantic reads the annotation
from policies.rules.request import Request
from policies.rules.settings.exemptions import exemption_in_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.outcome import Audience, DeviceRoom, Obstacle, Question
    from policies.quota.counting import Budget
    from policies.rules.charges import Amounts, ChargeRequest
    from policies.rules.settings import GPUAdmissionPolicy


@dataclass(frozen=True, slots=True)
class LimitRoom:
    """The rest of one limit, and the number that it still admits."""

    owner: str
    """The object that has the limit: `GPUQuota team-a/gpu`, `GPUQuotaGroup research.team-a`, `ResourceQuota team-a/gpus`."""
    name: str
    """The limit, or the resource of a ResourceQuota: `h100`, `requests.nvidia.com/gpu`."""
    unit: Unit | None
    """None for a resource of a ResourceQuota."""
    each: Fraction | None
    """The amount that one more takes; memory in bytes. None if it cannot be counted."""
    left: Fraction | None
    """The amount that is left; None if `each` is."""
    more: int
    """The number that it admits."""
    refuses: bool = True
    """False for a quota with `mode: Warn`, which admits more."""
    why: str = ""
    """The reason for the number as a clause; empty if the amounts say it."""

    @property
    def label(self) -> str:
        """`limit "h100" of GPUQuota team-a/gpu`, `ResourceQuota team-a/gpus`."""
        return self.owner if self.unit is None else f'limit "{self.name}" of {self.owner}'

    def amounts(self) -> tuple[str, str]:
        """The amount that one more takes, without a unit, and the rest with it: `8` and `24 GPUs`."""
        if self.each is None or self.left is None:
            return "?", "?"
        if self.unit is not None:
            scale = AmountScale.of(self.unit, self.each, self.left)
            return scale.number(self.each, self.left), scale.text(self.left, self.each)
        resource, each, left = self.name, int(self.each * ONE), int(self.left * ONE)
        return bare_resource_amount(resource, each, left), f"{resource_amount(resource, left, each)} {resource}"

    @property
    def reason(self) -> str:
        """`limit "h100" of GPUQuota team-a/gpu has 24 GPUs left, each takes 8`."""
        if self.why:
            return f"{self.owner}: {self.why}"
        each, left = self.amounts()
        return f"{self.label} has {left} left, each takes {each}"


@dataclass(frozen=True, slots=True)
class GrantRoom:
    """The number of pods, or claims, that find a place at once on GPUs of one kind."""

    gets: str
    """The GPUs that one pod gets: `8 whole NVIDIA-H100-80GB-HBM3`; empty if the pod gets none."""
    now: int
    if_empty: int


@dataclass(frozen=True, slots=True)
class Headroom:
    """The number of further pods, claims or workloads that fit; of workloads, with all of their pods."""

    label: str
    """`pod team-a/train`, `Deployment team-a/web`."""
    pods: int
    """The number of pods that one of them has; 0 for a claim."""
    more: int | None
    """The number that limits and devices admit now; None if it is unknown."""
    at_least: bool = False
    """True if counting was stopped, so that there may be more."""
    at_most: bool = False
    """True if there may be fewer, because something is unknown or pods of several templates compete for devices."""
    headline: str = ""
    """The number, and the limit or the devices that decide; without a full stop."""
    limits: tuple[LimitRoom, ...] = ()
    """The limits that count it: those of the namespace's GPUQuota, of its group, and of ResourceQuotas."""
    now: int | None = None
    """The number that the nodes and devices hold now; None if it is unknown."""
    if_empty: int | None = None
    """The same if nothing were in use."""
    grants: tuple[GrantRoom, ...] = ()
    """The devices by product; none for several pod templates."""
    remarks: tuple[str, ...] = ()
    """Unknown facts, without full stops."""

    @property
    def fits(self) -> bool:
        """True if at least one more fits."""
        return bool(self.more)


class _Part(NamedTuple):
    """The pods of one template, or a claim."""

    question: Question
    charges: tuple[tuple[ChargeRequest, PodCount], ...]
    pods: int
    brings_groups: bool = False
    """True if the pods share claims of PodGroups that each workload has for itself."""

    @property
    def needs_devices(self) -> bool:
        """True if the pods or the claim request GPUs."""
        question = self.question
        return bool(self.charges or question.claims or question.allocated or question.requests_gpu_resources)


def headroom(
    document: Object,
    namespace: str,
    view: ClusterView,
    settings: GPUAdmissionPolicy,
    *,
    audience: Audience = EVERYTHING,
) -> Headroom | None:
    """The number of further objects like this one that fit; None if it has no pods and is no claim.

    What exists counts as in use, and so does the object itself if the cluster has it.

    Args:
        document: A Pod, a workload with pod templates, a ResourceClaim or a ResourceClaimTemplate.
        namespace: The namespace of an object that names none.
        view: The cluster.
        settings: The administrator's settings.
        audience: Whose names the texts show; the numbers are the same for all.
    """
    home = namespace_of(document) or namespace
    known_templates = templates_of_claims(document, [document], home, view)
    # Reviews are those of a namespace without limits, which are compared one by one.
    parts = _parts(document, home, ChangedView(view, {**without_quotas(home, view), **known_templates}), settings)
    if not parts:
        return None
    pods = sum(part.pods for part in parts if part.question.pod is not None)
    hide = redactor([part.question for part in parts], view, audience)
    refused = next((each for part in parts for each in part.question.obstacles if each.kind in _REFUSALS), None)
    label = parts[0].question.label.partition(", ")[0]
    if refused is not None:
        return Headroom(label, pods, 0, headline=hide(f"none fits: {_obstacle_text(refused)}"))
    limits, remarks = _limit_rooms(parts, home, view, settings)
    rooms = _device_rooms([part for part in parts if part.needs_devices], view, settings)
    found = _with_number(Headroom(label, pods, None, limits=limits, remarks=remarks), rooms)
    return replace(found, headline=hide(found.headline), remarks=tuple(map(hide, found.remarks)))


_REFUSALS = (ObstacleKind.REFUSED, ObstacleKind.MALFORMED)


def _obstacle_text(obstacle: Obstacle) -> str:
    remedy = f"; {obstacle.remedy}" if obstacle.remedy else ""
    return f"{obstacle.sentence}{remedy}{f' [{obstacle.rule}]' if obstacle.rule else ''}"


_RESOURCE = "resource.k8s.io"
_GIVEN_BY_SERVER = ("uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "managedFields")


def _as_new(document: Object) -> Object:
    """The object as if it were created once more."""
    metadata = lookup(document, ("metadata",))
    kept = {field: value for field, value in document.items() if field != "status"}
    if not isinstance(metadata, dict):
        return kept
    return {**kept, "metadata": {field: value for field, value in metadata.items() if field not in _GIVEN_BY_SERVER}}


def _parts(document: Object, home: str, view: ClusterView, settings: GPUAdmissionPolicy) -> list[_Part]:
    """The pods of each template of an object, or its claim; empty for other kinds."""
    new = _as_new(document)
    if group_of(document) == _RESOURCE and document.get("kind") in ("ResourceClaim", "ResourceClaimTemplate"):
        (question,) = questions(new, home, view, settings)
        charges = tuple(
            (charge, _ONE_POD)
            for named in question.claims
            for charge in charge_decision(
                Request(named.claim.document, group=_RESOURCE, kind="ResourceClaim", namespace=home), view, settings
            ).charges
        )
        return [_Part(question, charges, 1)]
    if (group_of(document), document.get("kind")) == ("", "Pod"):
        name = next((each.label for each in questions(new, home, view, settings)), "")
        return [_part(as_created(new), name, _ONE_POD, (), home, view, settings)]
    name = f"{document.get('kind')} {home}/{name_of(document) or 'without a name'}"
    templates = templates_of(document, view, settings)
    wanted = [_ONE_POD if each.count is None else each.count for each in templates]
    if not any(each.count is not None and each.count.pods for each in templates):
        name, wanted = f"a pod of {name}", [count._replace(pods=1) for count in wanted]
    return [
        _part(pod_of(template.template, new, home), name, count, template.shared_claims, home, view, settings)
        for template, count in zip(templates, wanted, strict=True)
        if count.pods
    ]


_ONE_POD = PodCount(1, FieldPath())


def _part(
    document: Object,
    label: str,
    count: PodCount,
    shared: tuple[Object, ...],
    home: str,
    view: ClusterView,
    settings: GPUAdmissionPolicy,
) -> _Part:
    """The pods of a template; `shared` are the claims that those of a Job share by its PodGroup."""
    decision = review(Request(created_pod(document, home, view), namespace=home), view, settings)
    charges = () if decision.denials else tuple(requests_at_once([(decision, count, shared)], home, view, settings))
    pod, seen = with_shared_claims(document, shared, "group", home, view) if shared else (document, view)
    question = pod_question(pod, label, home, seen, settings, stored=False, quota_use=QuotaUse.NOTHING)
    # ResourceQuotas are compared with the other limits.
    others = tuple(each for each in question.obstacles if each.kind is not ObstacleKind.QUOTA_EXCEEDED)
    return _Part(replace(question, obstacles=others), charges, count.pods, brings_groups=pod is not document)


def _limit_rooms(
    parts: Sequence[_Part], home: str, view: ClusterView, settings: GPUAdmissionPolicy
) -> tuple[tuple[LimitRoom, ...], tuple[str, ...]]:
    """The rest of each limit that counts the pods or the claim, and remarks on unknown limits."""
    found: list[LimitRoom] = []
    remarks: list[str] = []
    if any(part.charges for part in parts) and not exemption_in_cluster("quota", home, settings):
        budgets, remarks = budgets_of(home, view, settings)
        found = [room for budget in budgets for room in _rooms_of(budget, parts)]
    requested = [
        (
            None if part.question.pod is None else part.question.pod.document,
            [each.claim for each in part.question.claims if each.is_new or part.question.pod is None],
            part.pods,
        )
        for part in parts
    ]
    for each in native_rooms(requested, home, view):
        owner, more = f"ResourceQuota {home}/{each.quota}", each.left // each.requested
        amounts = Fraction(each.requested, ONE), Fraction(each.left, ONE)
        found.append(LimitRoom(owner, each.resource, None, *amounts, more))
    return tuple(found), tuple(remarks)


def _rooms_of(budget: Budget, parts: Sequence[_Part]) -> Iterator[LimitRoom]:
    """The rest of the limits of one quota that count the pods."""
    quota, refuses = budget.quota, budget.quota.mode == "Enforce"
    each: Amounts = {}
    once: dict[tuple[str, str], Amounts] = {}
    for part in parts:
        for request, count in part.charges:
            if request.refusal is not None:
                first_limit, why = quota.limits[0], request.refusal.message
                yield LimitRoom(budget.owner, first_limit.name, first_limit.unit, None, None, 0, why=why)
                return
            try:
                charge = charge_under(request, quota)
            except Uncountable as error:
                limit = error.unknown.limit
                yield LimitRoom(budget.owner, limit.name, limit.unit, None, None, 0, refuses, str(error))
                return
            own = sum_amounts(bill.amounts for bill in charge.pieces.values())
            each = add_amounts(each, {name: count.pods * amount for name, amount in own.items()})
            shared = {} if charge.shared is None else charge.shared.pieces
            for piece, bill in shared.items():
                if part.brings_groups:
                    each = add_amounts(each, {name: count.groups * amount for name, amount in bill.amounts.items()})
                elif charge.shared is not None and not budget.charged.is_open(charge.shared.uid, piece):
                    once[charge.shared.uid, piece] = bill.amounts
    first = sum_amounts(once.values())
    for limit in quota.limits:
        amount, needed = each.get(limit.name, ZERO), first.get(limit.name, ZERO)
        if not (amount or needed):
            continue
        left = max(ZERO, limit.hard - budget.taken.get(limit.name, ZERO))
        if amount or needed > left:
            more = 0 if needed > left else int((left - needed) // amount)
            why = ""
            if needed:
                scale = AmountScale.of(limit.unit, left, limit.hard)
                why = f'{scale.text(left)} left in limit "{limit.name}", the shared claims take {scale.short(needed)}'
                why += f", then each takes {scale.short(amount)}" if amount else ""
            yield LimitRoom(budget.owner, limit.name, limit.unit, amount, left, more, refuses, why)


def _device_rooms(
    parts: Sequence[_Part], view: ClusterView, settings: GPUAdmissionPolicy
) -> list[tuple[int, DeviceRoom]]:
    """The places of the pods of each template, with their number; equal pods count together."""
    found: dict[str, tuple[int, DeviceRoom]] = {}
    for number, part in enumerate(parts):
        room = device_room(part.question, view, settings)
        if part.brings_groups:
            # All places are those of pods that share one claim, and the next workload has another one.
            now, if_empty = (_of_one_group(each, part.pods) for each in (room.now, room.if_empty))
            room = replace(room, now=now, if_empty=if_empty, by_grant={})
        key = room.key or f"template {number}"
        found[key] = found.get(key, (0, room))[0] + part.pods, room
    return [*found.values()]


def _of_one_group(count: ReplicaCount, pods: int) -> ReplicaCount:
    return ReplicaCount(min(count.count, pods), at_least=count.count >= pods)


def _with_number(found: Headroom, rooms: Sequence[tuple[int, DeviceRoom]]) -> Headroom:
    """The answer with the devices and the smallest number; `rooms` have the number of pods first."""
    if not rooms:
        return replace(found, headline="nothing limits it: it requests no GPU")
    unknown = [room.outcome for _, room in rooms if room.outcome.verdict is Feasibility.UNKNOWN]
    reasons = [(each.more, each.reason) for each in found.limits if each.refuses]
    is_lower, is_upper = False, bool(unknown or found.remarks)
    if unknown:
        first = next(iter(unknown[0].obstacles), None)
        why = unknown[0].headline() if first is None else _obstacle_text(first)
        found = replace(found, remarks=(*found.remarks, f"the number that the devices hold is unknown: {why}"))
    else:
        now, tightest = min(((room.now.count // pods, room) for pods, room in rooms), key=lambda each: each[0])
        if_empty = min(room.if_empty.count // pods for pods, room in rooms)
        is_lower = any(room.now.at_least for _, room in rooms)
        is_upper = is_upper or _compete([room for _, room in rooms])
        grants = [GrantRoom(words, here.count, empty.count) for words, (here, empty) in tightest.by_grant.items()]
        found = replace(found, now=now, if_empty=if_empty, grants=tuple(grants) if len(rooms) == 1 else ())
        reasons.append((now, _device_reason(now, if_empty, tightest)))
    if not reasons:
        return replace(found, headline="it is unknown how many more fit")
    more, reason = min(reasons, key=lambda each: each[0])
    is_lower = is_lower and more == found.now
    found = replace(found, more=more, at_least=is_lower, at_most=is_upper and more > 0)
    return replace(found, headline=f"{_number_text(found)}: {reason}")


def _compete(rooms: Sequence[DeviceRoom]) -> bool:
    """True if pods of several templates fit the same nodes, so that together fewer may fit."""
    return len(frozenset().union(*(room.nodes for room in rooms))) < sum(len(room.nodes) for room in rooms)


def _device_reason(now: int, if_empty: int, room: DeviceRoom) -> str:
    if not now and not room.now.count:
        return room.outcome.headline()
    empty = f", and for {if_empty:,} if nothing were in use" if if_empty != now else ""
    return f"the nodes have room for {'at least ' if room.now.at_least else ''}{now:,}{empty}"


def _number_text(found: Headroom) -> str:
    """`3 more fit`, `at least 1 more fits`, `none fits`."""
    if not found.more:
        return "none fits"
    bound = "at most " if found.at_most else "at least " if found.at_least else ""
    return f"{bound}{found.more:,} more fit{'s' if found.more == 1 else ''}"
