"""Texts that no device has: labels in place of attributes, and texts similar to a published one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from policies.cel import Call, ListLiteral
from policies.claims.cluster.classes import new_selectors
from policies.claims.cluster.nvidia_devices import KINDS
from policies.claims.cluster.tree import place_of, text_of, walk
from policies.claims.cluster.wording import cut, path_of, text_place
from policies.claims.subject import CLAIMS
from policies.devices.published_devices import published_devices
from policies.kubernetes.phrases import closest
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.identifiers import DRIVER, VENDOR_PREFIX
from policies.nvidia.known_products import KNOWN_PRODUCTS, ProductNames, bare_name
from policies.nvidia.mig import MIGProfile
from policies.nvidia.products import Product
from policies.rules.decision import Severity
from policies.rules.registry import Problem, problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.cel import Expression, Selector
    from policies.claims.cluster.absence import Place
    from policies.claims.subject import Facts, Subject

__all__ = ["SimilarValue", "misspellings", "similar_values", "text_comparisons"]

_ARCHITECTURES = (
    "Kepler",
    "Maxwell",
    "Pascal",
    "Volta",
    "Turing",
    "Ampere",
    "Ada Lovelace",
    "Hopper",
    "Blackwell",
    "Rubin",
)
"""Source: go-nvlib pkg/nvlib/device/device.go GetArchitectureAsString."""
_BRANDS = (
    "Nvidia",
    "NvidiaRTX",
    "NvidiaVApps",
    "NvidiaVPC",
    "NvidiaVCS",
    "NvidiaVWS",
    "NvidiaCloudGaming",
    "Tesla",
    "Quadro",
    "QuadroRTX",
    "GeForce",
    "GeForceRTX",
    "Titan",
    "TitanRTX",
    "NVS",
    "Grid",
)
"""Source: go-nvlib pkg/nvlib/device/device.go GetBrandAsString."""
_FAMILIES = ("NVIDIA-", "Tesla-", "Quadro-", "GeForce-")
"""How labels of products begin; a product's own name has a blank there."""
_PARTIAL = ("startsWith", "contains", "endsWith")
_COMPARED = ("_==_", "@in", "startsWith")
"""The functions whose texts are compared with the published ones."""


class Comparison(NamedTuple):
    """A comparison of a part of a device with a text."""

    offset: int
    """Of the text in the expression."""
    place: Place
    text: str
    function: str
    """`_==_`, `_!=_`, `@in`, or a function of texts."""


class Misspelling(NamedTuple):
    """A text that a device never has."""

    offset: int
    message: str
    remedy: str


@CLAIMS.rule(
    "GA230",
    "Values must be spelled as devices have them",
    default=Severity.WARN,
    remedy="write the value as the ResourceSlices have it",
    source="github.com/NVIDIA/k8s-device-plugin internal/lm/resource.go; "
    "github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/deviceinfo.go",
)
def spelling(subject: Subject) -> Iterator[Problem]:
    """A label cannot have a blank, so nvidia.com/gpu.product has dashes for blanks of a product's name.

    The attribute has the name as it is. It is alike with the other labels and resources: the family is in lower case,
    the profile of a MIG slice has a dot for the plus sign. Such a selector is stored, and matches no device. Texts that no
    device of the cluster has are reported too if a device has a similar one.
    """
    for _, wanted in new_selectors(subject):
        for text, selector in wanted:
            for found in misspellings(selector, subject.facts):
                yield problem(text.path, found.message, found.remedy, place=text_place(text, found.offset))


def misspellings(selector: Selector, facts: Facts) -> Iterator[Misspelling]:
    """Texts that attributes of NVIDIA's devices never have, and texts similar to a published one."""
    told_at = set()
    for offset, place, text, function in text_comparisons(selector):
        exact = function not in _PARTIAL
        told = (
            _LOOKUPS[place[-1]](text, exact) if place[:2] == ("attributes", DRIVER) and place[-1] in _LOOKUPS else None
        )
        if told is not None and not _is_published(facts, place, text, exact=exact):
            why, instead = told
            told_at.add(offset)
            yield Misspelling(offset, f'"{cut(text)}" is no {place[-1]} that devices have: {why}', instead)
    for found in similar_values(selector, facts):
        if found.offset not in told_at:
            yield Misspelling(*found)


def text_comparisons(selector: Selector) -> tuple[Comparison, ...]:
    """The comparisons of parts of a device with texts."""
    return selector.derive(_find_comparisons)


def _find_comparisons(selector: Selector) -> tuple[Comparison, ...]:
    return tuple(
        Comparison(literal.offset, place, text, node.function)
        for node, bound in walk(selector.root)
        if isinstance(node, Call)
        for part, literal in _compared_parts(node)
        if (place := place_of(part, bound)) is not None and (text := text_of(literal))
    )


def _compared_parts(node: Call) -> Sequence[tuple[Expression, Expression]]:
    """What a function compares with what."""
    if node.function in ("_==_", "_!=_"):
        one, other = node.arguments
        return (one, other), (other, one)
    if node.function == "@in" and isinstance(node.arguments[1], ListLiteral):
        return [(node.arguments[0], element) for element in node.arguments[1].elements]
    if node.function in _PARTIAL and node.target is not None and len(node.arguments) == 1:
        return ((node.target, node.arguments[0]),)
    return ()


def _product(text: str, exact: bool) -> tuple[str, str] | None:
    if " " in text or not text.startswith(_FAMILIES):
        return None
    label = Product.parse(text)
    name = f'{path_of("attributes", DRIVER)}.productName.replace(" ", "-")'
    suffix = " and a suffix" if label.name != text else ""
    why = f"it is the label nvidia.com/gpu.product{suffix}, which has dashes for blanks"
    if not exact:
        return why, f'write {name}.startsWith("{label.name}")'
    return why, f'write {name} == "{label.name}"'


def _architecture(text: str, exact: bool) -> tuple[str, str] | None:
    if text in (*_ARCHITECTURES, "Unknown") or (not exact and any(text in known for known in _ARCHITECTURES)):
        return None
    plain = text.lower().replace("-", " ").replace("_", " ")
    found = next((known for known in _ARCHITECTURES if known.lower().split()[0] == plain.split(" ")[0]), None)
    if found is None:
        return f"there are {', '.join(_ARCHITECTURES)}", "write one of these"
    return "case and blanks count", f'write "{found}"'


def _brand(text: str, exact: bool) -> tuple[str, str] | None:
    if any(text == brand if exact else text in brand for brand in _BRANDS):
        return None
    plain = text.lower().replace(" ", "").replace("-", "")
    found = next((brand for brand in _BRANDS if brand.lower() == plain), None)
    # What is like none of them may be the brand of a GPU that is not made yet.
    return None if found is None else ("case and blanks count", f'write "{found}"')


def _profile(text: str, exact: bool) -> tuple[str, str] | None:
    if not exact or MIGProfile.parse(text) is not None:
        return None
    profile = MIGProfile.from_label(text.removeprefix(VENDOR_PREFIX).removeprefix("mig-"))
    if profile is None:
        return "a profile is 1g.10gb or 1g.10gb+me", 'write a profile, as "nvidia-smi mig -lgip" lists them'
    return "this is how resources and labels spell it", f'write "{profile}"'


def _type(text: str, exact: bool) -> tuple[str, str] | None:
    types = [kind.type for kind in KINDS if kind.driver == DRIVER]
    if not exact or text in types:
        return None
    listed = f"there are {', '.join(types)}"
    return listed, f'write "{text.lower()}"' if text.lower() in types else "write one of these"


_LOOKUPS = {"productName": _product, "architecture": _architecture, "brand": _brand, "profile": _profile, "type": _type}


def _is_published(facts: Facts, place: Place, text: str, *, exact: bool) -> bool:
    """True if some device of the cluster has it after all."""
    known = facts.view.derive(published_devices)
    if known is UNKNOWN:
        return False
    values = (group.sample.attributes.get(place[1], {}).get(place[2]) for group in known.groups)
    return any(isinstance(value, str) and (value == text if exact else text in value) for value in values)


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
    """Texts in `==`, `in` and `startsWith` that are similar to a published one.

    Texts that differ in numbers only, and names of known products, are left out: such a device may come later.
    """
    for offset, place, text, function in text_comparisons(selector):
        if function in _COMPARED and place[0] == "attributes":
            yield from _similar_text(
                offset, place, text, _published_texts(facts, place), begins=function == "startsWith"
            )


def _similar_text(offset: int, place: Place, text: str, values: set[str], *, begins: bool) -> Iterator[SimilarValue]:
    if begins:
        if not any(value.startswith(text) for value in values) and any(text in value for value in values):
            message = f'no device of the cluster has a {place[-1]} that starts with "{cut(text)}", but some contain it'
            yield SimilarValue(offset, message, f'write contains("{cut(text)}")')
        return
    label = text.replace(" ", "-")
    if text in values or (label in KNOWN_PRODUCTS and label not in {value.replace(" ", "-") for value in values}):
        return
    if place[-1] == "productName":
        products = ProductNames.of(value.replace(" ", "-") for value in values).products_like(label)
        named = [value for value in values if bare_name(value.replace(" ", "-")) in products]
        meant = named[0] if len(named) == 1 else None
    else:
        meant = closest(text, values, likeness=_LIKENESS)
        meant = None if meant is None or _DIGITS.sub("#", meant) == _DIGITS.sub("#", text) else meant
    if meant is not None:
        yield SimilarValue(offset, f'no device of the cluster has the {place[-1]} "{cut(text)}"', f'write "{meant}"')


def _published_texts(facts: Facts, place: Place) -> set[str]:
    """The texts that devices have for an attribute; none while devices are unknown."""
    known = facts.view.derive(published_devices)
    groups = () if known is UNKNOWN else known.groups
    values = {
        value for group in groups if isinstance(value := group.sample.attributes.get(place[1], {}).get(place[2]), str)
    }
    return values if len(values) <= _MOST_VALUES else set()
