"""Similar values: texts in selectors that no device of the cluster has, while some device has a similar one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from policies.dra.cel import Call, ListLiteral
from policies.dra.claims.cluster.tree import place_of, text_of, walk
from policies.dra.claims.cluster.wording import cut
from policies.dra.published_devices import published_devices
from policies.kubernetes.misspellings import closest
from policies.nvidia.known_products import KNOWN_PRODUCTS
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.dra.cel import Expression, Selector
    from policies.dra.claims.cluster.abstract import Place
    from policies.dra.claims.facts import Facts

__all__ = ["SimilarValue", "similar_values"]

_LIKENESS = 0.8
_MOST_VALUES = 100
"""More are names of single devices."""
_DIGITS = re.compile("[0-9]+")


class SimilarValue(NamedTuple):
    """A text that no device has, and what to write."""

    offset: int
    message: str
    remedy: str


def similar_values(selector: Selector, facts: Facts) -> Iterator[SimilarValue]:
    """Texts that attributes are compared with, by `==`, `in` and `startsWith`; nothing while devices are unknown.

    Texts that differ in numbers only, and names of known products, are left out: such a device may come later.
    """
    for node, bound in walk(selector.root):
        match node:
            case Call(function="_==_"):
                first, second = node.arguments
                pairs = [(first, second), (second, first)]
            case Call(function="@in") if isinstance(node.arguments[1], ListLiteral):
                pairs = [(node.arguments[0], element) for element in node.arguments[1].elements]
            case Call(function="startsWith") if node.target is not None:
                pairs = [(node.target, node.arguments[0])]
            case _:
                continue
        for attribute, literal in pairs:
            place, text = place_of(attribute, bound), text_of(literal)
            if place is not None and text and place[0] == "attributes":
                begins = node.function == "startsWith"
                yield from _similar(literal, place, text, _values(facts, place), begins=begins)


def _similar(literal: Expression, place: Place, text: str, values: set[str], *, begins: bool) -> Iterator[SimilarValue]:
    if begins:
        if not any(value.startswith(text) for value in values) and any(text in value for value in values):
            message = f'no device of the cluster has a {place[-1]} that starts with "{cut(text)}", but some contain it'
            yield SimilarValue(literal.offset, message, f'write contains("{cut(text)}")')
        return
    label = text.replace(" ", "-")
    if text in values or (label in KNOWN_PRODUCTS and label not in {value.replace(" ", "-") for value in values}):
        return
    meant = closest(text, values, likeness=_LIKENESS)
    if meant is not None and _DIGITS.sub("#", meant) != _DIGITS.sub("#", text):
        yield SimilarValue(
            literal.offset, f'no device of the cluster has the {place[-1]} "{cut(text)}"', f'write "{meant}"'
        )


def _values(facts: Facts, place: Place) -> set[str]:
    """The texts that devices have for an attribute; none while devices are unknown."""
    known = facts.view.derive(published_devices)
    groups = () if known is UNKNOWN else known.groups
    found = (group.sample.attributes.get(place[1], {}).get(place[2]) for group in groups)
    values = {value for value in found if isinstance(value, str)}
    return values if len(values) <= _MOST_VALUES else set()
