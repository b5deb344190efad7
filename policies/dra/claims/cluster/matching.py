"""Which devices of the cluster the selectors of a class and of a request choose, and on which they fail."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from policies.dra.cel import CelCompileError, CelRuntimeError, Features, compile_selector
from policies.dra.claims.cluster.fleet import fleet
from policies.dra.claims.limits import MOST
from policies.kubernetes.paths import lookup
from policies.view import UNKNOWN, Unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from policies.dra.cel import Selector
    from policies.dra.claims.cluster.fleet import Fleet, Group
    from policies.dra.claims.facts import Facts
    from policies.dra.claims.requests import Asked
    from policies.dra.claims.subject import SelectorText, Subject

__all__ = [
    "MOST_COST_OF_ALL",
    "Choice",
    "asked_for",
    "chosen",
    "class_selectors",
    "compiled",
    "is_new",
    "of_class",
    "stored_features",
    "texts_of",
    "wanted_by",
]

_LONGEST = 10 * 1024
_MOST_SELECTORS = 64
_MOST_TEXT = 64 * 1024
"""Of one object; whoever writes more has other plans than to get devices, and is not looked at."""
MOST_COST_OF_ALL = 500_000
"""What asking all devices of one selector may cost by CEL's own measure; about a tenth of a second."""


class Choice(NamedTuple):
    """What one selector, or several in their order, make of groups of devices."""

    matched: Sequence[Group]
    failed: Sequence[tuple[Group, str]]
    """Where it fails, and why in CEL's words."""
    complete: bool = True
    """Whether all devices were asked; where that is too much work, none of them is."""


def is_new(subject: Subject) -> bool:
    """Whether what is asked is asked now: a claim that exists cannot change, and a class as it was says nothing new."""
    if subject.old is None:
        return True
    path = subject.devices_path / "selectors"
    return subject.kind == "DeviceClass" and lookup(subject.old, path) != lookup(subject.object, path)


def asked_for(subject: Subject) -> Iterator[Asked]:
    """The requests and alternatives that are within the limits of lists; what is beyond is told elsewhere."""
    for asked in subject.asked:
        if all(step < MOST for step in asked.path if isinstance(step, int)):
            yield asked


def texts_of(subject: Subject, asked: Asked | None) -> list[SelectorText]:
    """The selectors of a request, or of the class under review, in their order."""
    path = None if asked is None else asked.path
    own = (each for each in subject.selectors if path == (None if each.asked is None else each.asked.path))
    return list(islice(own, MOST))


def compiled(text: str, features: Features) -> Selector | None:
    """A selector; None for one that does not compile or is too long, which is told elsewhere."""
    if len(text) > _LONGEST:
        return None
    try:
        return compile_selector(text, features)
    except CelCompileError:
        return None


def wanted_by(subject: Subject, asked: Asked | None) -> list[tuple[SelectorText, Selector]] | None:
    """The selectors of a request, or of the class under review, compiled.

    None if one of them does not compile, or if there are more than are looked at.
    """
    if len(subject.selectors) > _MOST_SELECTORS or sum(len(each.text) for each in subject.selectors) > _MOST_TEXT:
        return None
    features = subject.facts.cel_features()
    texts = texts_of(subject, asked)
    found = [(text, selector) for text in texts if (selector := compiled(text.text, features)) is not None]
    return found if len(found) == len(texts) else None


def stored_features(facts: Facts) -> Features:
    """What the scheduler compiles stored selectors with."""
    return Features(consumable_capacity=facts.offers("DRAConsumableCapacity") is not False, list_type_attributes=False)


def class_selectors(facts: Facts, name: str) -> list[Selector | CelCompileError] | Unknown:
    """The selectors of a class; unknown where the class cannot be seen or does not exist."""
    found = facts.device_class(name)
    if not isinstance(found, dict):
        return UNKNOWN
    features = stored_features(facts)
    outcomes: list[Selector | CelCompileError] = []
    listed = lookup(found, ("spec", "selectors"))
    for item in islice(listed if isinstance(listed, list) else (), MOST):
        text = lookup(item, ("cel", "expression"))
        if not isinstance(text, str):
            continue
        try:
            outcomes.append(compile_selector(text, features))
        except CelCompileError as error:
            outcomes.append(error)
    return outcomes


def of_class(facts: Facts, name: str) -> tuple[Fleet, Choice] | None:
    """The devices of a class; None where slices or the class are not known, or the class has a selector that is none."""
    known = facts.view.derive(fleet)
    selectors = class_selectors(facts, name)
    if known is UNKNOWN or selectors is UNKNOWN:
        return None
    usable = [selector for selector in selectors if not isinstance(selector, CelCompileError)]
    return (known, chosen(known, known.groups, usable)) if len(usable) == len(selectors) else None


def chosen(known: Fleet, groups: Iterable[Group], selectors: Iterable[Selector]) -> Choice:
    """Some groups, asked all selectors in their order; what one does not choose, the next is not asked about."""
    matched, failed = list(groups), list[tuple["Group", str]]()
    for selector in selectors:
        apart = known.apart(matched, selector.reads)
        if apart is None or selector.max_cost * len(apart) > MOST_COST_OF_ALL:
            return Choice((), failed, complete=False)
        verdicts = selector.matches_all([group.sample for group in apart])
        matched = [group for group, verdict in zip(apart, verdicts, strict=True) if verdict is True]
        failed += [
            (group, verdict.message)
            for group, verdict in zip(apart, verdicts, strict=True)
            if isinstance(verdict, CelRuntimeError)
        ]
    return Choice(matched, failed)
