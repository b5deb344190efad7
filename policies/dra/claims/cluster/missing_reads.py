"""Reads of selectors that devices may lack, found once for several rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from policies.dra.cel import CelCompileError
from policies.dra.claims.cluster.absence import Assumption, outcome
from policies.dra.claims.cluster.matching import (
    class_selectors,
    evaluated_selectors,
    new_selectors,
)
from policies.dra.claims.cluster.nvidia_devices import DRIVERS, KINDS, REMOVED, SINCE, is_published, shipped_kinds
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.dra.cel import Selector
    from policies.dra.claims.cluster.abstract import Place
    from policies.dra.claims.cluster.matching import CompiledSelectors, EvaluatedSelector
    from policies.dra.claims.cluster.nvidia_devices import DeviceSchema
    from policies.dra.claims.effort import Effort
    from policies.dra.claims.facts import Facts
    from policies.dra.claims.subject import SelectorText, Subject
    from policies.dra.device_groups import DeviceGroup
    from policies.dra.resource_claims import Subrequest

__all__ = ["Failure", "Missing", "Reason", "failures", "missing_reads"]

Reason = Literal["domain", "release", "optional", "unknown"]
"""Why it is missing: no driver publishes the domain, the release of the driver does not publish it, only some devices have
it, or the driver never heard of it."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A read that fails on some devices."""

    selector: SelectorText
    place: Place
    offset: int
    """Of the read in the expression."""
    reason: Reason
    device_class: str
    """Empty where the class itself is under review."""
    lacking: tuple[DeviceGroup, ...] = ()
    """The devices that it fails on; empty if no ResourceSlice shows devices."""
    candidates: tuple[DeviceGroup, ...] = ()
    """All devices that the selector is evaluated on."""
    kinds: tuple[DeviceSchema, ...] = ()
    """The kinds of NVIDIA's devices that it fails on, if no ResourceSlice shows devices."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A selector that fails on devices for another reason than that they lack something."""

    selector: SelectorText
    compiled: Selector
    message: str
    devices: tuple[DeviceGroup, ...]


def missing_reads(subject: Subject) -> tuple[Missing, ...]:
    """All reads of selectors that are not guarded against what devices lack."""
    return subject.facts.effort.cache(missing_reads, lambda: tuple(_missing_reads(subject)))


def _missing_reads(subject: Subject) -> Iterator[Missing]:
    for subrequest, wanted in new_selectors(subject):
        evaluated = _selectors_on_devices(subject, subrequest)
        if evaluated:
            name = subrequest.device_class if subrequest else ""
            yield from _on_devices(evaluated, name, subject.facts.effort)
        else:
            yield from _on_kinds(subject.facts, wanted, subrequest)


def failures(subject: Subject) -> Iterator[Failure]:
    """All selectors that fail on devices of the cluster though these have what is read."""
    for subrequest, _ in new_selectors(subject):
        for each in _selectors_on_devices(subject, subrequest):
            failing: dict[str, list[DeviceGroup]] = {}
            for group, message in each.selection.failed:
                if not message.startswith("no such key: "):
                    failing.setdefault(message, []).append(group)
            yield from (
                Failure(each.text, each.compiled, message, tuple(groups)) for message, groups in failing.items()
            )


def _selectors_on_devices(subject: Subject, subrequest: Subrequest | None) -> Sequence[EvaluatedSelector]:
    """The evaluated selectors of a request, or of the class under review; empty without devices."""
    evaluated = evaluated_selectors(subject, subrequest)
    return evaluated if evaluated and evaluated[0].groups else ()


def _on_devices(evaluated: Sequence[EvaluatedSelector], device_class: str, effort: Effort) -> Iterator[Missing]:
    groups = evaluated[0].groups
    for each in evaluated:
        if not each.selection.failed:
            continue
        for place in _places(each.compiled):
            lacking = tuple(group for group, _ in each.selection.failed if not group.has(*place))
            if not lacking or not effort.admit_reading(len(each.text.text)):
                continue
            error = outcome(each.compiled, Assumption(place)).error
            if error is not None:
                reason = _reason(place, lacking, groups)
                yield Missing(each.text, place, error, reason, device_class, lacking, tuple(groups))


def _reason(place: Place, lacking: Sequence[DeviceGroup], groups: Sequence[DeviceGroup]) -> Reason:
    part, domain, _ = place
    if not any(domain in group.domains(part) for group in groups):
        return "domain"
    of_nvidia = all(group.first.driver in DRIVERS for group in lacking)
    nobody = not any(group.has(*place) for group in groups)
    if of_nvidia and (place in REMOVED or (place in SINCE and nobody)):
        return "release"
    return "unknown" if nobody else "optional"


def _on_kinds(facts: Facts, wanted: CompiledSelectors, subrequest: Subrequest | None) -> Iterator[Missing]:
    """What NVIDIA's devices may lack, where no device of the cluster can be looked at."""
    kinds = _of_the_driver() if subrequest is None else kinds_of(facts, subrequest.device_class)
    name = "" if subrequest is None else subrequest.device_class
    effort, size = facts.effort, sum(len(text.text) for text, _ in wanted)
    release = facts.driver_version()
    for text, selector in wanted:
        for place in _places(selector):
            found: dict[Reason, list[tuple[DeviceSchema, int]]] = {}
            for kind in kinds:
                reason = _reason_of_kind(place, kind, None if release is UNKNOWN else release)
                if reason is None or (reason == "domain" and subrequest is None):
                    continue
                if not effort.admit_reading(size):
                    return
                error = _failure_offset(wanted, text, Assumption(place, kind.known))
                if error is not None:
                    found.setdefault(reason, []).append((kind, error))
            for reason, places in found.items():
                yield Missing(text, place, places[0][1], reason, name, kinds=tuple(kind for kind, _ in places))


def kinds_of(facts: Facts, name: str) -> tuple[DeviceSchema, ...]:
    """The kinds of NVIDIA's devices that a class may select; none where that is not known."""
    return facts.effort.cache((kinds_of, name), lambda: _kinds_of(facts, name))


def _kinds_of(facts: Facts, name: str) -> tuple[DeviceSchema, ...]:
    selectors = class_selectors(facts, name)
    if selectors is UNKNOWN:
        return _of_shipped(facts, name)
    usable = [selector for selector in selectors if not isinstance(selector, CelCompileError)]
    if len(usable) < len(selectors):
        return ()
    found = [
        kind for kind in KINDS if all(outcome(selector, Assumption((), kind.known)).can_be_true for selector in usable)
    ]
    cut = any(kind.type in _USUAL for kind in found)
    return tuple(kind for kind in found if kind.type in _USUAL or not cut)


def _of_the_driver() -> tuple[DeviceSchema, ...]:
    """The kinds on which a class under review is evaluated wherever NVIDIA's driver is."""
    return tuple(kind for kind in KINDS if kind.type in _USUAL)


def _of_shipped(facts: Facts, name: str) -> tuple[DeviceSchema, ...]:
    """The kind of one of NVIDIA's own classes; none where the class certainly does not exist."""
    return () if facts.device_class(name) is None else shipped_kinds(name)


def _reason_of_kind(place: Place, kind: DeviceSchema, release: str | None) -> Reason | None:
    """Why devices of a kind may lack something; None where they have it."""
    if place in kind.always:
        return "release" if release is not None and not is_published(place, release) else None
    if place[1] not in kind.domains:
        return "domain"
    if release is not None:
        if not is_published(place, release):
            return "release"
        if place in REMOVED:
            return None
    if place in REMOVED:
        return "release"
    return "optional" if place in kind.sometimes else "unknown"


def _failure_offset(wanted: CompiledSelectors, text: SelectorText, assumption: Assumption) -> int | None:
    """Where a selector can fail, if those before it can be true; None if it cannot."""
    for earlier, selector in wanted:
        value = outcome(selector, assumption)
        if earlier is text:
            return value.error
        if not value.can_be_true:
            return None
    return None


def _places(selector: Selector) -> list[Place]:
    """The attributes and capacities that a selector reads by name."""
    reads = selector.reads or frozenset()
    named = (
        (read.part, read.domain, read.name)
        for read in reads
        if read.domain is not None and read.name and read.part in _PARTS
    )
    return sorted(named)


_PARTS = ("attributes", "capacity")
_USUAL = ("gpu", "mig")
"""The kinds that do not depend on a feature gate of the driver; others count for a class that selects nothing else."""
