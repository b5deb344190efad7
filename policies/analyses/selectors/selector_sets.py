"""Selector sets: the selectors that a device must match to serve one request, or to be of one class."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from policies.cel import STORED, CelCompileError, CelFeatures, Conjunct, compile_selector, split_conjuncts
from policies.claims.claim_subject import CLAIMS
from policies.devices.resource_claims import MOST_ENTRIES, Claim, selector_expressions
from policies.kubernetes.objects import FieldPath, lookup, name_of, namespace_of
from policies.kubernetes.resourceslices import LONGEST_SELECTOR

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policies.cel import Read, Selector
    from policies.claims.claim_subject import Facts
    from policies.kubernetes.objects import Object


@dataclass(frozen=True, slots=True, eq=False)
class SelectorSet:
    """The selectors of a request or of a class."""

    label: str
    """For people: `request gpu of ResourceClaim team-a/train`, `DeviceClass gpu.nvidia.com`, `the expression`."""
    request: str
    """The request, `gpu` or `gpu/large`; empty for a class and an expression."""
    device_class: str
    """The class whose devices are evaluated; empty for all devices."""
    texts: tuple[str, ...]
    """The expressions, without those of the class of a request."""
    document: Object
    """The ResourceClaim, ResourceClaimTemplate or DeviceClass that has them; made up for an expression."""
    owner: FieldPath
    """The path of the mapping with `selectors` in the document."""


def selector_sets_of(document: Object) -> list[SelectorSet]:
    """The selector sets of a claim or claim template, one for each request, or of a DeviceClass.

    Empty for other objects. Entries without an expression are left out; review reports them.
    """
    kind, name = str(document.get("kind") or ""), name_of(document)
    if kind == "DeviceClass":
        spec = lookup(document, ("spec",))
        texts = _texts(selector_expressions(spec))
        found = SelectorSet(f"DeviceClass {name}", "", "", texts, document, FieldPath(("spec",)))
        return [found] if isinstance(spec, dict) else []
    if kind not in CLAIMS.kinds:
        return []
    claim = Claim(document, "ResourceClaimTemplate") if kind == "ResourceClaimTemplate" else Claim(document)
    whose = f"{kind} {namespace_of(document)}/{name}" if namespace_of(document) else f"{kind} {name}"
    return [
        SelectorSet(
            label=f"request {each.full_name} of {whose}",
            request=each.full_name,
            device_class=each.device_class,
            texts=_texts(each.selectors),
            document=document,
            owner=each.path,
        )
        for each in claim.subrequests
    ]


def selector_set_of_expression(text: str, device_class: str = "") -> SelectorSet:
    """The selector set of one expression, for the devices of a class, or for all devices."""
    selectors = [{"cel": {"expression": text}}]
    if not device_class:
        document = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "expression"},
            "spec": {"selectors": selectors},
        }
        return replace(selector_sets_of(document)[0], label="the expression")
    exactly = {"deviceClassName": device_class, "selectors": selectors}
    document = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "expression", "namespace": "default"},
        "spec": {"devices": {"requests": [{"name": "expression", "exactly": exactly}]}},
    }
    return replace(
        selector_sets_of(document)[0], label=f"the expression, for devices of class {device_class}", request=""
    )


def edited_selector_set(selector_set: SelectorSet, text: str) -> SelectorSet:
    """The selector set with its selectors replaced by one expression."""
    document = deepcopy(selector_set.document)
    owner = lookup(document, selector_set.owner)
    owner["selectors"] = [{"cel": {"expression": text}}]
    return replace(selector_set, texts=(text,), document=document)


def _texts(expressions: tuple[str | None, ...]) -> tuple[str, ...]:
    return tuple(each for each in expressions if each is not None)


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


def compiled_selectors(selector_set: SelectorSet, facts: Facts) -> list[CompiledSelector]:
    """The selectors of a set, those of its class first."""
    name = selector_set.device_class
    of_class = (facts.class_selectors(name) or ()) if name else ()
    return [
        *(_compile(f"DeviceClass {name}", text, STORED) for text in of_class[:MOST_ENTRIES]),
        *(_compile("", text, facts.cel_features()) for text in selector_set.texts[:MOST_ENTRIES]),
    ]


def reads_of(selectors: Iterable[CompiledSelector]) -> frozenset[Read] | None:
    """The fields of a device that selectors read; None if one may read anything."""
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
