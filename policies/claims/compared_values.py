"""Values that selectors compare: texts that no device has, and versions and amounts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from policies.cel import (
    Call,
    CelRuntimeError,
    Comprehension,
    Identifier,
    ListLiteral,
    Literal,
    MapLiteral,
    Quantity,
    Select,
    Semver,
    StructLiteral,
)
from policies.claims.claim_subject import CLAIMS_AND_CLASSES
from policies.claims.nvidia_attributes import KINDS
from policies.claims.selected_devices import cut, new_selectors, path_of, text_place
from policies.devices.published_devices import published_devices
from policies.kubernetes.names import closest
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.identifiers import DRIVER, VENDOR_PREFIX
from policies.nvidia.mig import MIGProfile
from policies.nvidia.product_proposals import propose_labels
from policies.nvidia.products import KNOWN_PRODUCTS, Product
from policies.rules.checks import Problem
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from policies.cel import Expression, Selector
    from policies.claims.absence import Place
    from policies.claims.claim_subject import Facts, Subject

    Bound = Mapping[str, Expression]


def walk(root: Expression) -> Iterator[tuple[Expression, Bound]]:
    """Every part, outer ones first, with the names that are bound around it."""
    pending: list[tuple[Expression, Bound]] = [(root, {})]
    while pending:
        node, bound = pending.pop()
        yield node, bound
        pending += reversed(list(_parts(node, bound)))


def _parts(node: Expression, bound: Bound) -> Iterator[tuple[Expression, Bound]]:
    match node:
        case Select():
            yield node.operand, bound
        case Call():
            yield from ((part, bound) for part in (node.target, *node.arguments) if part is not None)
        case ListLiteral():
            yield from ((part, bound) for part in node.elements)
        case MapLiteral():
            parts = (part for entry in node.entries for part in (entry.key, entry.value))
            yield from ((part, bound) for part in parts if not isinstance(part, str))
        case StructLiteral():
            yield from ((entry.value, bound) for entry in node.fields)
        case Comprehension():
            names = {node.variable, node.second_variable, node.accumulator}
            inner = {name: value for name, value in bound.items() if name not in names}
            if isinstance(node.range, ListLiteral) and not node.range.elements:
                inner[node.accumulator] = node.initial
            yield node.range, bound
            yield node.initial, bound
            yield node.step, inner
            yield node.result, inner


def place_of(node: Expression, bound: Bound) -> Place | None:
    """The place of the device that a part certainly is."""
    steps: list[str] = []
    # A place is three steps, and names stand between them.
    for _ in range(16):
        match node:
            case Identifier(name="device") if "device" not in bound:
                return tuple(reversed(steps))
            case Identifier(name=name) if name in bound:
                node = bound[name]
            case Select(operand=operand, field=field, test_only=False):
                steps.append(field)
                node = operand
            case Call(function="_[_]", arguments=(operand, Literal(value=str(key)))):
                steps.append(key)
                node = operand
            case _:
                return None
    return None


def text_of(node: Expression) -> str | None:
    """The text that a part is, if it is one."""
    return node.value if isinstance(node, Literal) and isinstance(node.value, str) else None


_ARCHITECTURES = (
    *("Kepler", "Maxwell", "Pascal", "Volta", "Turing", "Ampere", "Ada Lovelace", "Hopper", "Blackwell", "Rubin"),
)
"""Source: go-nvlib pkg/nvlib/device/device.go GetArchitectureAsString."""
_BRANDS = (
    *("Nvidia", "NvidiaRTX", "NvidiaVApps", "NvidiaVPC", "NvidiaVCS", "NvidiaVWS", "NvidiaCloudGaming", "Tesla"),
    *("Quadro", "QuadroRTX", "GeForce", "GeForceRTX", "Titan", "TitanRTX", "NVS", "Grid"),
)
"""Source: go-nvlib pkg/nvlib/device/device.go GetBrandAsString."""
_FAMILIES = ("NVIDIA-", "Tesla-", "Quadro-", "GeForce-")
"""The first parts of labels of products; a product's own name has a blank there."""
_PARTIAL = ("startsWith", "contains", "endsWith")


class Comparison(NamedTuple):
    """A comparison of a part of a device with a text."""

    offset: int
    """Of the text in the expression."""
    place: Place
    text: str
    function: str
    """`_==_`, `_!=_`, `@in`, or a function of texts."""


class LiteralProblem(NamedTuple):
    """A text or number in a selector that fails, or that a device never has."""

    offset: int
    message: str
    remedy: str


@CLAIMS_AND_CLASSES.rule(
    "GA230",
    "Values must be spelled as devices have them",
    default=Severity.WARN,
    remedy="write the value as the ResourceSlices have it",
    source="github.com/NVIDIA/k8s-device-plugin internal/lm/resource.go getProductName, getArchFamily, sanitise; "
    "github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/deviceinfo.go Attributes; "
    "cmd/gpu-kubelet-plugin/mig.go CommonAttributesMig",
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
                yield Problem(text.path, found.message, found.remedy, place=text_place(text, found.offset))


def misspellings(selector: Selector, facts: Facts) -> Iterator[LiteralProblem]:
    """Texts that attributes of NVIDIA's devices never have, and texts similar to a published one."""
    told_at = set()
    for offset, place, text, function in selector.derive(text_comparisons):
        exact = function not in _PARTIAL
        if place[:2] != ("attributes", DRIVER) or place[-1] not in _LOOKUPS:
            continue
        told = _LOOKUPS[place[-1]](text, exact)
        if told is None or any(value == text if exact else text in value for value in _published_texts(facts, place)):
            continue
        told_at.add(offset)
        yield LiteralProblem(offset, f'"{cut(text)}" is no {place[-1]} that devices have: {told[0]}', told[1])
    yield from (found for found in similar_values(selector, facts) if found.offset not in told_at)


def text_comparisons(selector: Selector) -> tuple[Comparison, ...]:
    """The comparisons of parts of a device with texts; call it as `selector.derive(text_comparisons)`."""
    return tuple(
        Comparison(literal.offset, place, text, node.function)
        for node, bound in walk(selector.root)
        if isinstance(node, Call)
        for part, literal in _compared_parts(node)
        if (place := place_of(part, bound)) is not None and (text := text_of(literal))
    )


def _compared_parts(node: Call) -> Sequence[tuple[Expression, Expression]]:
    """The pairs that a function compares."""
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


def _published_texts(facts: Facts, place: Place) -> set[str]:
    """The texts that devices of the cluster have for an attribute; empty while devices are unknown."""
    known = facts.view.derive(published_devices)
    groups = () if known is UNKNOWN else known.groups
    values = (group.sample.attributes.get(place[1], {}).get(place[2]) for group in groups)
    return {value for value in values if isinstance(value, str)}


def similar_values(selector: Selector, facts: Facts) -> Iterator[LiteralProblem]:
    """Texts in `==`, `in` and `startsWith` that are similar to a published one.

    Texts that differ in numbers only, and names of known products, are left out: such a device may come later.
    """
    for offset, place, text, function in selector.derive(text_comparisons):
        if function not in ("_==_", "@in", "startsWith") or place[0] != "attributes":
            continue
        values, what = _published_texts(facts, place), place[-1]
        if len(values) > 100:  # more are names of single devices
            values = set()
        label = text.replace(" ", "-")
        labels = {value.replace(" ", "-"): value for value in sorted(values)}
        if function == "startsWith":
            if not any(value.startswith(text) for value in values) and any(text in value for value in values):
                message = f'no device of the cluster has a {what} that starts with "{cut(text)}", but some contain it'
                yield LiteralProblem(offset, message, f'write contains("{cut(text)}")')
            continue
        if text in values or (label in KNOWN_PRODUCTS and label not in labels):
            continue
        if what == "productName":
            proposal = propose_labels(label, labels)
            meant = labels[proposal.names[0]] if proposal and not proposal.others and len(proposal.names) == 1 else None
        else:
            meant = closest(text, values, likeness=0.8)
        if meant is not None:
            message = f'no device of the cluster has the {what} "{cut(text)}"'
            yield LiteralProblem(offset, message, f'write "{meant}"')


_VERSIONS = {("attributes", DRIVER, name) for name in ("driverVersion", "cudaDriverVersion", "cudaComputeCapability")}
_COMPARING = {"_==_": "==", "_!=_": "!=", "_<_": "<", "_<=_": "<=", "_>_": ">", "_>=_": ">="}
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_OF_TEXT = {
    *("startsWith", "endsWith", "contains", "matches", "find", "findAll", "split", "replace", "lowerAscii"),
    *("upperAscii", "substring", "indexOf", "lastIndexOf", "trim", "size", "charAt"),
}
_NUMBERS = re.compile(r"v?[0-9]+(\.[0-9]+){0,2}")
_MAJOR = re.compile(r"([0-9]+)\.?")
_UNITS = re.compile(r"([0-9.]+) ?([MGTP])(i?)B", re.IGNORECASE)
"""Amounts as people write them: GB are 1000 MB, and so are G in Kubernetes."""
_STOPS = "stops the pod on every node"


@CLAIMS_AND_CLASSES.rule(
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
            for found in selector.derive(mistakes):
                place = text_place(text, found.offset)
                yield Problem(text.path, found.message, found.remedy, place=place)


def mistakes(selector: Selector) -> tuple[LiteralProblem, ...]:
    """All versions and amounts that are treated as what they are not, as `selector.derive(mistakes)`."""
    return tuple(
        found
        for node, bound in walk(selector.root)
        if isinstance(node, Call)
        for found in (*_comparison(node, bound), *_text_function(node, bound), *_literal(node))
    )


def _comparison(node: Call, bound: Bound) -> Iterator[LiteralProblem]:
    if node.function == "@in":
        place, members = place_of(node.arguments[0], bound), node.arguments[1]
        if place and place in _VERSIONS and isinstance(members, ListLiteral):
            text = f"looks for {place[-1]}, which is a version, among other values; that {_STOPS}"
            remedy = f"compare it with each by {_spelt(place)}.compareTo(semver(..., true)) == 0"
            yield LiteralProblem(node.offset, text, remedy)
        return
    operator = _COMPARING.get(node.function)
    if operator is None:
        return
    for turned, (one, other) in enumerate((node.arguments, node.arguments[::-1])):
        place = place_of(one, bound)
        if not place or place not in _VERSIONS or not isinstance(other, Literal) or isinstance(other.value, bool):
            continue
        value = other.value
        sort = "text" if isinstance(value, str) else "a number" if isinstance(value, int | float) else "null"
        is_never_true = turned and node.function in ("_==_", "_!=_")
        result = f"is always {'true' if node.function == '_!=_' else 'false'}" if is_never_true else _STOPS
        text = f"compares {place[-1]}, which is a version, with {sort}; that {result}"
        sign = _TURNED.get(operator, operator) if turned else operator
        version = f'semver("{value!s}", true)' if _NUMBERS.fullmatch(str(value)) else "semver(..., true)"
        yield LiteralProblem(node.offset, text, f"write {_spelt(place)}.compareTo({version}) {sign} 0")


def _text_function(node: Call, bound: Bound) -> Iterator[LiteralProblem]:
    place = None if node.target is None else place_of(node.target, bound)
    if not place or place not in _VERSIONS or node.function not in _OF_TEXT:
        return
    start = _MAJOR.fullmatch(text_of(node.arguments[0]) or "") if node.arguments else None
    remedy = "use major(), minor(), or compareTo(semver(...))"
    if start is not None and node.function in ("startsWith", "contains"):
        remedy = f"write {_spelt(place)}.major() == {start[1]}"
    text = f"calls {node.function} on {place[-1]}, which is a version and no text; that {_STOPS}"
    yield LiteralProblem(node.offset, text, remedy)


def _literal(node: Call) -> Iterator[LiteralProblem]:
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
        yield LiteralProblem(node.offset, f'{node.function}("{cut(text)}") is an error, {why}; that {_STOPS}', remedy)


def _spelt(place: Place) -> str:
    return f"{path_of(place[0], place[1])}.{place[2]}"
