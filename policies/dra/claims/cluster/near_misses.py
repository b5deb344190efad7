"""Near misses: devices that fail only one of the terms that a request asks for, and what they have instead."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from policies.dra.claims.cluster.conjuncts import conjuncts
from policies.dra.claims.cluster.fleet import shown_value
from policies.dra.claims.cluster.matching import compiled
from policies.dra.claims.cluster.wording import cut, devices
from policies.kubernetes.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policies.dra.cel import Features, Selector
    from policies.dra.claims.cluster.fleet import Fleet, Group

__all__ = ["near_misses"]

_MOST_TERMS = 32
_TOLD = 2
_VALUES = 3


def near_misses(known: Fleet, groups: Sequence[Group], texts: Iterable[str], features: Features) -> str:
    """What devices that almost match fail, for people; empty where none comes near, or there is only one term."""
    terms = [term for text in texts for term in conjuncts(text)]
    selectors = [compiled(term, features) for term in terms]
    whole = [selector for selector in selectors if selector is not None]
    if len(terms) > _MOST_TERMS or len(whole) < len(terms):
        return ""
    apart: list[Group] | None = list(groups)
    for selector in whole:
        apart = None if apart is None else known.apart(apart, selector.reads)
    if apart is None:
        return ""
    failing = _failing(whole, apart)
    return "".join(
        f"; {devices(sum(len(group.members) for group in missing))} {_fail(missing)} only {cut(selector.text)}"
        f"{_instead(selector, missing)}"
        for selector, missing in sorted(failing.items(), key=lambda item: -_count(item[1]))[:_TOLD]
    )


def _failing(selectors: Sequence[Selector], groups: Sequence[Group]) -> dict[Selector, list[Group]]:
    """Groups by the one term that they fail."""
    verdicts = [selector.matches_all([group.sample for group in groups]) for selector in selectors]
    found: defaultdict[Selector, list[Group]] = defaultdict(list)
    for group, row in zip(groups, zip(*verdicts, strict=True), strict=True):
        failed = [selector for selector, verdict in zip(selectors, row, strict=True) if verdict is not True]
        if len(failed) == 1:
            found[failed[0]].append(group)
    return found


def _fail(groups: Sequence[Group]) -> str:
    return "fails" if _count(groups) == 1 else "fail"


def _count(groups: Sequence[Group]) -> int:
    return sum(len(group.members) for group in groups)


def _instead(selector: Selector, groups: Sequence[Group]) -> str:
    """What the devices have of what the term reads, if it reads one thing."""
    reads = [read for read in selector.reads or () if read.domain is not None and read.name]
    if len(reads) != 1:
        return ""
    part, domain, name = reads[0].part, reads[0].domain or "", reads[0].name or ""
    values: Counter[str] = Counter()
    for group in groups:
        item = group.first.item(part, domain, name)
        if item is not None:
            values[printable(shown_value(item))] += len(group.members)
    if not values:
        return ""
    shown = " or ".join(value for value, _ in values.most_common(_VALUES))
    more = " and others" if len(values) > _VALUES else ""
    return f", {'it has' if _count(groups) == 1 else 'they have'} {shown}{more}"
