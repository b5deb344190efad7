"""The devices of the cluster that selectors of a class and of a request match, or fail on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from policies.dra.cel import CelCompileError, CelRuntimeError
from policies.dra.published_devices import Evaluation, published_devices
from policies.dra.resource_claims import MOST_ENTRIES
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

    CompiledSelectors = Sequence[tuple[SelectorText, Selector]]
    """Selectors as they are written, each with its compiled form."""

__all__ = [
    "DeviceSelection",
    "EvaluatedSelector",
    "class_selectors",
    "compiled_selectors",
    "devices_for_request",
    "devices_of_class",
    "evaluated_selectors",
    "new_selectors",
    "select_devices",
]


class DeviceSelection(NamedTuple):
    """The groups of devices that selectors match, and those on which one fails."""

    matched: Sequence[DeviceGroup]
    failed: Sequence[tuple[DeviceGroup, str]]
    """The groups on which a selector fails, each with CEL's message."""
    complete: bool = True
    """False if evaluating the selectors on all devices would be too much work; then there are no matches."""


class EvaluatedSelector(NamedTuple):
    """A selector of a request, evaluated on the devices that those before it match."""

    text: SelectorText
    compiled: Selector
    groups: Sequence[DeviceGroup]
    """The devices that it is evaluated on."""
    selection: DeviceSelection


def new_selectors(subject: Subject) -> Sequence[tuple[Subrequest | None, CompiledSelectors]]:
    """The new selectors of each request, or of the class under review, compiled.

    Skips requests without selectors, requests with a selector that does not compile, which another rule reports, and requests
    whose selectors are too much work.
    """
    return subject.facts.effort.cache(new_selectors, lambda: [*_new_selectors(subject)])


def _new_selectors(subject: Subject) -> Iterator[tuple[Subrequest | None, CompiledSelectors]]:
    if not subject.has_new_selectors:
        return
    for subrequest in (None,) if subject.kind == "DeviceClass" else subject.reviewed_subrequests:
        wanted = compiled_selectors(subject, subrequest)
        if wanted:
            yield subrequest, wanted


def compiled_selectors(subject: Subject, subrequest: Subrequest | None) -> CompiledSelectors | None:
    """The selectors of a request, or of the class under review, compiled.

    None if one of them does not compile, which another rule reports, or if the object has too many.
    """
    return subject.facts.effort.cache(
        (compiled_selectors, subrequest), lambda: _compiled_selectors(subject, subrequest)
    )


def _compiled_selectors(subject: Subject, subrequest: Subrequest | None) -> CompiledSelectors | None:
    effort = subject.facts.effort
    texts = subject.selectors_of[subrequest][:MOST_ENTRIES]
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
    texts = facts.class_selectors(name)
    if texts is None or not facts.effort.admit_class(name, texts[:MOST_ENTRIES]):
        return UNKNOWN
    return [facts.effort.compile(text) for text in texts[:MOST_ENTRIES]]


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


def evaluated_selectors(subject: Subject, subrequest: Subrequest | None) -> Sequence[EvaluatedSelector] | None:
    """The selectors of a request, or of the class under review, evaluated; None if something is unknown."""
    return subject.facts.effort.cache(
        (evaluated_selectors, subrequest), lambda: _evaluated_selectors(subject, subrequest)
    )


def _evaluated_selectors(subject: Subject, subrequest: Subrequest | None) -> Sequence[EvaluatedSelector] | None:
    seen, wanted = _reached_devices(subject.facts, subrequest), compiled_selectors(subject, subrequest)
    if seen is None or wanted is None:
        return None
    known, groups = seen
    found: list[EvaluatedSelector] = []
    for text, selector in wanted:
        selection = select_devices(known, groups, [selector], subject.facts.effort)
        found.append(EvaluatedSelector(text, selector, groups, selection))
        groups = selection.matched
    return found


def _reached_devices(
    facts: Facts, subrequest: Subrequest | None
) -> tuple[PublishedDevices, Sequence[DeviceGroup]] | None:
    """The devices of the class of a request; all for the class under review."""
    if subrequest is None:
        known = facts.view.derive(published_devices)
        return None if known is UNKNOWN else (known, known.groups)
    seen = devices_of_class(facts, subrequest.device_class)
    return None if seen is None else (seen[0], seen[1].matched)


def devices_for_request(subject: Subject, subrequest: Subrequest) -> DeviceSelection | None:
    """The devices of its class that a request selects; None if class, slices or selectors are unknown."""
    seen, evaluated = devices_of_class(subject.facts, subrequest.device_class), evaluated_selectors(subject, subrequest)
    if seen is None or evaluated is None:
        return None
    return DeviceSelection(
        evaluated[-1].selection.matched if evaluated else seen[1].matched,
        [failure for each in evaluated for failure in each.selection.failed],
        all(each.selection.complete for each in evaluated),
    )


def select_devices(
    known: PublishedDevices, groups: Iterable[DeviceGroup], selectors: Iterable[Selector], effort: Effort
) -> DeviceSelection:
    """The groups that all selectors match; each selector is evaluated on the matches of the one before."""
    matched, failed = tuple(groups), list[tuple["DeviceGroup", str]]()
    for selector in selectors:
        evaluation = _evaluate(known, matched, selector, effort)
        if evaluation is None:
            effort.was_cut = True
            return DeviceSelection((), failed, complete=False)
        matched = tuple(evaluation.matched)
        failed += evaluation.failed
    return DeviceSelection(matched, failed)


def _evaluate(
    known: PublishedDevices, groups: tuple[DeviceGroup, ...], selector: Selector, effort: Effort
) -> Evaluation | None:
    """What a selector says of groups of devices; None if it is too much work."""
    key = selector.number, groups
    found = known.evaluations.get(key)
    if found is not None:
        return found if effort.admit_evaluation(selector, found.groups) else None
    apart = known.divide(groups, selector.reads)
    verdicts = None if apart is None else effort.verdicts(selector, apart)
    if apart is None or verdicts is None:
        return None
    found = Evaluation(
        apart,
        tuple(group for group, verdict in zip(apart, verdicts, strict=True) if verdict is True),
        [
            (group, verdict.message)
            for group, verdict in zip(apart, verdicts, strict=True)
            if isinstance(verdict, CelRuntimeError)
        ],
    )
    known.evaluations.put(key, found, len(groups) + found.weight)
    return found
