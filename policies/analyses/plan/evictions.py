"""Pods that changed taints of devices end, where they can start again, and the quotas they free."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from policies.admission import controller_label
from policies.fleet.device_evictions import pods_with_evicting_taints
from policies.kubernetes.names import format_list
from policies.kubernetes.objects import lookup, name_of
from policies.outcome import FitFinder, Outcome, freed_limits

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from policies.fleet.device_evictions import EvictingTaint, TaintedPod
    from policies.outcome import Fit, FitComparison, LimitComparison, Situation, Subject


@dataclass(frozen=True, slots=True)
class PlannedEviction:
    """A pod that Kubernetes ends because of a changed taint of a device that it holds."""

    node: str
    name: str
    """`pod team-a/train`."""
    workload: str
    """The controller of the pod, `ReplicaSet web-5d8f`; empty if it has none."""
    devices: tuple[str, ...]
    """`driver/pool/device` of each device with the taint."""
    taint: str
    """`example.com/repair:NoExecute of DeviceTaintRule repair`."""
    delay_seconds: int
    """The seconds for which the claim tolerates the taint."""
    when: str
    """`at once`, `30 seconds after 2026-11-30T10:00:00Z`."""
    afterwards: str
    """The fate of the pod, a clause without a full stop."""
    nodes: tuple[str, ...]
    """The nodes on which it can start again at once."""


@dataclass(frozen=True, slots=True)
class FoundPlace:
    """Pods that find a place because a taint of devices is gone."""

    subject: str
    pods: tuple[str, ...]
    room: int | None
    """The number of the pods that find a place at once; null if it is unknown."""
    nodes: tuple[str, ...]
    """The nodes on which one of them can start at once."""


def found_places(fits: Iterable[FitComparison], after: Situation) -> tuple[FoundPlace, ...]:
    """The subjects with pods that wait, or without pods, that gain a place, with the nodes."""
    gained = [each for each in fits if each.outcome is Outcome.GAINED and each.after.room and _waits(each.subject)]
    if not gained:
        return ()
    finder = FitFinder(after)
    return tuple(
        FoundPlace(each.subject.label, each.subject.pod_names, each.after.room, finder.nodes_now(each.subject))
        for each in gained
    )


def _waits(subject: Subject) -> bool:
    """True if a pod of the subject is not bound to a node, or there is none yet."""
    pods = subject.pods
    return subject.is_pod and (not pods or any(not lookup(pod, ("spec", "nodeName")) for pod in pods))


@dataclass(frozen=True, slots=True)
class Evictions:
    """The effects of changed taints on running pods."""

    ended: tuple[PlannedEviction, ...] = ()
    """Those that end soonest first."""
    kept: tuple[str, ...] = ()
    """The pods that would have ended without the change, `pod team-a/train`."""
    freed: tuple[LimitComparison, ...] = ()
    """The limits of quotas that count less once the pods have ended."""
    spared: int = 0
    """The number of pods with such devices that Kubernetes does not end, because they come from extended resources."""


def find_evictions(before: Situation, after: Situation, subjects: Iterable[Subject], namespace: str = "") -> Evictions:
    """The pods that end after a change and not before it, and the other way round.

    Args:
        before: The cluster as it is.
        after: The cluster as it would be.
        subjects: The pods and claims of the cluster.
        namespace: The only namespace; empty for all.
    """
    was, will_be = (
        {key: each for key, each in view.derive(pods_with_evicting_taints).items() if namespace in ("", key[0])}
        for view, _ in (before, after)
    )
    changed = {key: _new_taints(each, was.get(key)) for key, each in will_be.items()}
    ended = {key: taints for key, taints in changed.items() if taints and will_be[key].ends}
    places = _places({"/".join(key) for key in ended}, subjects, after) if ended else {}
    found = [_eviction(will_be[key], taints, places.get("/".join(key))) for key, taints in ended.items()]
    return Evictions(
        tuple(sorted(found, key=lambda each: (each.delay_seconds, each.name))),
        tuple(sorted(f"pod {'/'.join(key)}" for key, each in was.items() if each.ends and key not in will_be)),
        tuple(freed_limits([will_be[key].pod for key in ended], after)) if ended else (),
        sum(bool(taints) and not will_be[key].ends for key, taints in changed.items()),
    )


def _new_taints(now: TaintedPod, before: TaintedPod | None) -> list[EvictingTaint]:
    """The taints that end a pod only after the change, or sooner."""
    known: Mapping[tuple[str, str], int] = {}
    if before is not None and before.ends == now.ends:
        known = {(each.origin, each.device): each.delay for each in before.taints}
    return [each for each in now.taints if each.delay < known.get((each.origin, each.device), each.delay + 1)]


class _Place(NamedTuple):
    """The places of the pods of one subject that end, while its other pods go on."""

    number: int
    """The number of such pods."""
    fit: Fit
    nodes: tuple[str, ...]


def _places(ended: set[str], subjects: Iterable[Subject], after: Situation) -> Mapping[str, _Place]:
    """By `namespace/name` of the pods that end, where they can start again."""
    finder = FitFinder(after)
    found: dict[str, _Place] = {}
    for subject in subjects:
        names = ended.intersection(subject.pod_names)
        if names:
            pods = tuple(pod for pod in subject.pods if f"{subject.namespace}/{name_of(pod)}" in names)
            part = replace(subject, pods=pods, count=len(pods))
            fit = finder.fit(part)
            place = _Place(len(pods), fit, finder.nodes_now(part) if fit.room else ())
            found |= dict.fromkeys(names, place)
    return found


def _eviction(found: TaintedPod, taints: Sequence[EvictingTaint], place: _Place | None) -> PlannedEviction:
    first = taints[0]
    workload = controller_label(found.pod)
    return PlannedEviction(
        str(lookup(found.pod, ("spec", "nodeName"))),
        f"pod {'/'.join(found.key)}",
        workload,
        tuple(each.device for each in taints if each.origin == first.origin),
        f"{first.text} of {first.origin}",
        first.delay,
        first.when,
        _afterwards(place, is_made_again=bool(workload)),
        () if place is None else place.nodes,
    )


def _afterwards(place: _Place | None, *, is_made_again: bool) -> str:
    """The fate of a pod that has ended, a clause."""
    again = "it" if is_made_again else "no controller makes it again; a pod like it"
    if place is None or place.fit.room is None:
        return f"where {again} can start is unknown"
    if place.nodes:
        several = (
            f"; {place.fit.room:,} of {place.number:,} pods that end like it find a place" if place.number > 1 else ""
        )
        return f"{again} can start again on {format_list(place.nodes, 3)}{several}"
    if place.fit.is_possible:
        return f"{again} waits until others end: {place.fit.why}"
    return f"{again} cannot start again: {place.fit.why}"
