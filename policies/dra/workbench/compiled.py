"""Compiled selector sets: selectors and their conditions, ready to be evaluated one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from policies.dra.cel import CelCompileError, CelFeatures, Conjunct, compile_selector, split_conjuncts
from policies.dra.claims.effort import STORED
from policies.dra.resource_claims import LONGEST_SELECTOR, MOST_ENTRIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policies.dra.cel import Read, Selector
    from policies.dra.claims.facts import Facts
    from policies.dra.workbench.selector_sets import SelectorSet

__all__ = ["CompiledClause", "CompiledSelector", "compiled_selectors", "reads_of"]

MOST_CLAUSES = 16
"""Conditions of one selector that are evaluated one by one; the last one holds all further ones."""


class CompiledClause(NamedTuple):
    """One condition of a selector."""

    text: str
    selector: Selector | None
    """None if it does not compile by itself."""


class CompiledSelector(NamedTuple):
    """One selector with its conditions."""

    owner: str
    """The class; empty for the analyzed selectors themselves."""
    text: str
    selector: Selector | None
    """None if it does not compile."""
    clauses: tuple[CompiledClause, ...]


def compiled_selectors(selection: SelectorSet, facts: Facts) -> list[CompiledSelector]:
    """The selectors of a set, those of its class first."""
    name = selection.device_class
    of_class = (facts.class_selectors(name) or ()) if name else ()
    return [
        *(_compile(f"DeviceClass {name}", text, STORED) for text in of_class[:MOST_ENTRIES]),
        *(_compile("", text, facts.cel_features()) for text in selection.texts[:MOST_ENTRIES]),
    ]


def reads_of(selectors: Iterable[CompiledSelector]) -> frozenset[Read] | None:
    """What selectors read of a device; None if one may read anything."""
    found: set[Read] = set()
    for each in selectors:
        reads = None if each.selector is None else each.selector.reads
        if reads is None:
            return None
        found |= reads
    return frozenset(found)


def _compile(owner: str, text: str, features: CelFeatures) -> CompiledSelector:
    selector = _selector_or_none(text, features)
    if selector is None:
        return CompiledSelector(owner, text, None, ())
    parts = _parts(text, split_conjuncts(text))
    return CompiledSelector(
        owner,
        text,
        selector,
        # The only condition may be in parentheses; it is the selector.
        tuple(CompiledClause(part, _selector_or_none(part, features)) for part in parts)
        if len(parts) > 1
        else (CompiledClause(parts[0], selector),),
    )


def _parts(text: str, conjuncts: Sequence[Conjunct]) -> list[str]:
    parts = [each.text for each in conjuncts]
    if len(parts) <= MOST_CLAUSES:
        return parts
    return [*parts[: MOST_CLAUSES - 1], " && ".join(parts[MOST_CLAUSES - 1 :])]


def _selector_or_none(text: str, features: CelFeatures) -> Selector | None:
    if len(text) > LONGEST_SELECTOR:
        return None
    try:
        return compile_selector(text, features)
    except CelCompileError:
        return None
