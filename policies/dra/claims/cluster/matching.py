"""The devices of the cluster that selectors of a class and of a request match, or fail on."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from policies.dra.cel import CelCompileError, CelRuntimeError
from policies.dra.claims.limits import MOST
from policies.dra.deviceclasses import selector_texts
from policies.dra.published_devices import published_devices
from policies.kubernetes.paths import lookup
from policies.view import UNKNOWN, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from policies.dra.cel import Selector
    from policies.dra.claims.effort import Effort
    from policies.dra.claims.facts import Facts
    from policies.dra.claims.subject import SelectorText, Subject
    from policies.dra.device_groups import DeviceGroup
    from policies.dra.published_devices import PublishedDevices
    from policies.dra.resource_claims import Subrequest

__all__ = [
    "DeviceSelection",
    "class_selectors",
    "compiled_selectors",
    "devices_for_request",
    "devices_of_class",
    "is_new",
    "reviewed_subrequests",
    "select_devices",
    "texts_of",
]


class DeviceSelection(NamedTuple):
    """The groups of devices that selectors match, and those on which one fails."""

    matched: Sequence[DeviceGroup]
    failed: Sequence[tuple[DeviceGroup, str]]
    """The groups on which a selector fails, each with CEL's message."""
    complete: bool = True
    """False if evaluating the selectors on all devices would be too much work; then there are no matches."""


def is_new(subject: Subject) -> bool:
    """True if the selectors are new: those of a claim cannot change, those of a class can."""
    if subject.old is None:
        return True
    path = subject.devices_path / "selectors"
    return subject.kind == "DeviceClass" and lookup(subject.old, path) != lookup(subject.object, path)


def reviewed_subrequests(subject: Subject) -> Iterator[Subrequest]:
    """The subrequests within the limits of lists; another rule reports the others."""
    for subrequest in subject.subrequests:
        if all(step < MOST for step in subrequest.path if isinstance(step, int)):
            yield subrequest


def texts_of(subject: Subject, subrequest: Subrequest | None) -> list[SelectorText]:
    """The selectors of a request, or of the class under review, in their order."""
    path = None if subrequest is None else subrequest.path
    own = (each for each in subject.selectors if path == (None if each.subrequest is None else each.subrequest.path))
    return list(islice(own, MOST))


def compiled_selectors(subject: Subject, subrequest: Subrequest | None) -> list[tuple[SelectorText, Selector]] | None:
    """The selectors of a request, or of the class under review, compiled.

    None if one of them does not compile, which another rule reports, or if the object has too many.
    """
    path = subject.devices_path if subrequest is None else subrequest.path
    return subject.facts.effort.cache((compiled_selectors, path), lambda: _compiled_selectors(subject, subrequest))


def _compiled_selectors(subject: Subject, subrequest: Subrequest | None) -> list[tuple[SelectorText, Selector]] | None:
    effort = subject.facts.effort
    texts = texts_of(subject, subrequest)
    path = subject.devices_path if subrequest is None else subrequest.path
    if not effort.admit_own(path, [each.text for each in texts]):
        return None
    outcomes = [(each, effort.compile(each.text)) for each in texts]
    found = [(each, selector) for each, selector in outcomes if not isinstance(selector, CelCompileError)]
    return found if len(found) == len(texts) else None


def class_selectors(facts: Facts, name: str) -> list[Selector | CelCompileError] | Unknown:
    """The selectors of a class; unknown if the class is unknown, does not exist or has too many of them."""
    return facts.effort.cache((class_selectors, name), lambda: _class_selectors(facts, name))


def _class_selectors(facts: Facts, name: str) -> list[Selector | CelCompileError] | Unknown:
    found = facts.device_class(name)
    if not isinstance(found, dict):
        return UNKNOWN
    texts = selector_texts(found)
    if texts is None or not facts.effort.admit_class(name, texts[:MOST]):
        return UNKNOWN
    return [facts.effort.compile(text) for text in texts[:MOST]]


def devices_of_class(facts: Facts, name: str) -> tuple[PublishedDevices, DeviceSelection] | None:
    """The devices of a class; None if slices or the class are unknown, or a selector does not compile."""
    return facts.effort.cache((devices_of_class, name), lambda: _devices_of_class(facts, name))


def _devices_of_class(facts: Facts, name: str) -> tuple[PublishedDevices, DeviceSelection] | None:
    known = facts.view.derive(published_devices)
    selectors = class_selectors(facts, name)
    if known is UNKNOWN or selectors is UNKNOWN:
        return None
    usable = [selector for selector in selectors if not isinstance(selector, CelCompileError)]
    return (known, select_devices(known, known.groups, usable, facts.effort)) if len(usable) == len(selectors) else None


def devices_for_request(subject: Subject, subrequest: Subrequest) -> DeviceSelection | None:
    """The devices of its class that a request selects; None if class, slices or selectors are unknown."""
    return subject.facts.effort.cache(
        (devices_for_request, subrequest.path), lambda: _devices_for_request(subject, subrequest)
    )


def _devices_for_request(subject: Subject, subrequest: Subrequest) -> DeviceSelection | None:
    seen, wanted = devices_of_class(subject.facts, subrequest.device_class), compiled_selectors(subject, subrequest)
    if seen is None or wanted is None:
        return None
    known, of_this_class = seen
    return select_devices(known, of_this_class.matched, [selector for _, selector in wanted], subject.facts.effort)


def select_devices(
    known: PublishedDevices, groups: Iterable[DeviceGroup], selectors: Iterable[Selector], effort: Effort
) -> DeviceSelection:
    """The groups that all selectors match; each selector is evaluated on the matches of the one before."""
    matched, failed = list(groups), list[tuple["DeviceGroup", str]]()
    for selector in selectors:
        apart = known.divide(matched, selector.reads)
        verdicts = None if apart is None else effort.verdicts(selector, apart)
        if apart is None or verdicts is None:
            effort.was_cut = True
            return DeviceSelection((), failed, complete=False)
        matched = [group for group, verdict in zip(apart, verdicts, strict=True) if verdict is True]
        failed += [
            (group, verdict.message)
            for group, verdict in zip(apart, verdicts, strict=True)
            if isinstance(verdict, CelRuntimeError)
        ]
    return DeviceSelection(matched, failed)
