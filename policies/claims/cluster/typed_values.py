"""Versions and amounts, which are no texts and no numbers, and what selectors do with them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from policies.cel import Call, CelRuntimeError, ListLiteral, Literal, Quantity, Semver
from policies.claims.cluster.classes import new_selectors
from policies.claims.cluster.tree import place_of, text_of, walk
from policies.claims.cluster.wording import cut, path_of, text_place
from policies.claims.subject import CLAIMS
from policies.nvidia.identifiers import DRIVER
from policies.rules.decision import Severity
from policies.rules.registry import Problem, problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.cel import Selector
    from policies.claims.cluster.absence import Place
    from policies.claims.cluster.tree import Bound
    from policies.claims.subject import Subject

__all__ = ["Mistake", "mistakes"]

_VERSIONS = {("attributes", DRIVER, name) for name in ("driverVersion", "cudaDriverVersion", "cudaComputeCapability")}
_COMPARING = {"_==_": "==", "_!=_": "!=", "_<_": "<", "_<=_": "<=", "_>_": ">", "_>=_": ">="}
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_OF_TEXT = {
    "startsWith",
    "endsWith",
    "contains",
    "matches",
    "find",
    "findAll",
    "split",
    "replace",
    "lowerAscii",
    "upperAscii",
}
_OF_TEXT |= {"substring", "indexOf", "lastIndexOf", "trim", "size", "charAt"}
_NUMBERS = re.compile(r"v?[0-9]+(\.[0-9]+){0,2}")
_MAJOR = re.compile(r"([0-9]+)\.?")
_UNITS = re.compile(r"([0-9.]+) ?([MGTP])(i?)B", re.IGNORECASE)
"""How people write amounts: GB are 1000 MB, and so are G in Kubernetes."""
_STOPS = "stops the pod on every node"


class Mistake(NamedTuple):
    """Something in a selector that fails or is never true."""

    offset: int
    message: str
    remedy: str


@CLAIMS.rule(
    "GA229",
    "Versions and quantities must be compared as such",
    default=Severity.WARN,
    remedy='compare versions by compareTo(semver("580.95.05", true))',
    source="k8s.io/apiserver/pkg/cel/semver.go Equal; k8s.io/apiserver/pkg/cel/library/{semver,quantity}.go",
)
def typed_values(subject: Subject) -> Iterator[Problem]:
    """driverVersion, cudaDriverVersion and cudaComputeCapability are versions: neither texts nor numbers.

    The compiler cannot know, since attributes have their type only on a device. There, `==` with a text is no false but
    an error, as are the functions of texts, and an error stops the pod on every node. So does a version with leading
    zeros, unless semver normalises it, and an amount such as 40GB, which is not a quantity.
    """
    for _, wanted in new_selectors(subject):
        for text, selector in wanted:
            for found in mistakes(selector):
                place = text_place(text, found.offset)
                yield problem(text.path, found.message, found.remedy, place=place)


def mistakes(selector: Selector) -> tuple[Mistake, ...]:
    """Everything that treats a version or an amount as what it is not."""
    return selector.derive(_find_mistakes)


def _find_mistakes(selector: Selector) -> tuple[Mistake, ...]:
    return tuple(_mistakes(selector))


def _mistakes(selector: Selector) -> Iterator[Mistake]:
    for node, bound in walk(selector.root):
        if isinstance(node, Call):
            yield from _comparison(node, bound)
            yield from _text_function(node, bound)
            yield from _literal(node)


def _comparison(node: Call, bound: Bound) -> Iterator[Mistake]:
    if node.function == "@in":
        place, members = place_of(node.arguments[0], bound), node.arguments[1]
        if place in _VERSIONS and isinstance(members, ListLiteral):
            text = f"looks for {_name(place)}, which is a version, among other values; that {_STOPS}"
            remedy = f"compare it with each by {_spelt(place)}.compareTo(semver(..., true)) == 0"
            yield Mistake(node.offset, text, remedy)
        return
    operator = _COMPARING.get(node.function)
    if operator is None:
        return
    for turned, (one, other) in enumerate((node.arguments, node.arguments[::-1])):
        place = place_of(one, bound)
        if place not in _VERSIONS or not isinstance(other, Literal) or isinstance(other.value, bool):
            continue
        sort = (
            "text" if isinstance(other.value, str) else "a number" if isinstance(other.value, int | float) else "null"
        )
        is_never_true = turned and node.function in ("_==_", "_!=_")
        result = f"is always {'true' if node.function == '_!=_' else 'false'}" if is_never_true else _STOPS
        text = f"compares {_name(place)}, which is a version, with {sort}; that {result}"
        sign = _TURNED.get(operator, operator) if turned else operator
        yield Mistake(node.offset, text, f"write {_spelt(place)}.compareTo({_semver(other)}) {sign} 0")


def _text_function(node: Call, bound: Bound) -> Iterator[Mistake]:
    place = None if node.target is None else place_of(node.target, bound)
    if place not in _VERSIONS or node.function not in _OF_TEXT:
        return
    start = _MAJOR.fullmatch(text_of(node.arguments[0]) or "") if node.arguments else None
    whole = node.function in ("startsWith", "contains") and start is not None
    remedy = (
        f"{_spelt(place)}.major() == {start[1]}" if whole and start else "major(), minor(), or compareTo(semver(...))"
    )
    text = f"calls {node.function} on {_name(place)}, which is a version and no text; that {_STOPS}"
    yield Mistake(node.offset, text, f"write {remedy}" if whole else f"use {remedy}")


def _literal(node: Call) -> Iterator[Mistake]:
    """A version or an amount that is written so that it can never be read."""
    text = text_of(node.arguments[0]) if len(node.arguments) == 1 and node.target is None else None
    if text is None or node.function not in ("semver", "quantity"):
        return
    try:
        Semver.read(text) if node.function == "semver" else Quantity.read(text)
    except CelRuntimeError as error:
        why = cut(error.message)
        remedy = f'write semver("{text}", true)' if _NUMBERS.fullmatch(text) else "write a version such as 580.95.5"
        if node.function == "quantity":
            why = "because it is not an amount that Kubernetes can read"
            units = _UNITS.fullmatch(text)
            written = f"{units[1]}{units[2].upper()}{units[3].lower()}" if units else ""
            remedy = f'write quantity("{written}")' if written else 'write quantity("40Gi") or the like'
        yield Mistake(node.offset, f'{node.function}("{cut(text)}") is an error, {why}; that {_STOPS}', remedy)


def _semver(literal: Literal) -> str:
    text = str(literal.value)
    return f'semver("{text}", true)' if _NUMBERS.fullmatch(text) else "semver(..., true)"


def _name(place: Place | None) -> str:
    return place[-1] if place else ""


def _spelt(place: Place | None) -> str:
    return f"{path_of(place[0], place[1])}.{place[2]}" if place else ""
