"""Names: those that Kubernetes accepts, the keys of our labels, and phrases of messages with names."""

from __future__ import annotations

import json
import re
from collections import Counter
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import timedelta
    from fractions import Fraction


_LONGEST_VALUE = 80


def printable(text: str) -> str:
    """A text on one line: whatever cannot be printed is a blank."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else " " for character in text)


_PARTS, _PIECES = (re.compile(rf"[{ends}]*[^{ends}]+[{ends}]*|[{ends}]+") for ends in ("/,=&|<>+*", "/,=&|<>+*.-"))


def breakable_pieces(word: str, longest: int = 0) -> list[str]:
    """The pieces of a long name or expression, between which a line may be broken: `team-`, `a/`, `train-`, `0`.

    A part of at most `longest` characters that ends with a slash, a comma or an operator is one piece: `team-a/`, `train-0`.
    """
    parts = _PARTS.findall(word)
    return [piece for part in parts for piece in ([part] if len(part) <= longest else _PIECES.findall(part))]


def shown(value: Any) -> str:
    """A value of an object as JSON on one line, cut where it is long."""
    text = json.dumps(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."


def quote(value: Any) -> str:
    """A scalar as JSON, with the letters of every language as they are."""
    return json.dumps(value, ensure_ascii=False)


_NUMBERED = re.compile(r"(.*?)(0|[1-9][0-9]{0,8})")
_MOST = 5
_LONGEST = 120
_PLURALS = {
    "is": "are",
    "has": "have",
    "does": "do",
    "fails": "fail",
    "holds": "hold",
    "lacks": "lack",
    "loses": "lose",
    "names": "name",
    "needs": "need",
    "runs": "run",
    "shares": "share",
    "waits": "wait",
}


def format_count(count: int, thing: str) -> str:
    """`1 node`, `2 nodes`, `5,000 nodes`."""
    return f"{count:,} {thing}{'' if count == 1 else 's' if not thing.endswith('s') else 'es'}"


def format_amount(amount: Fraction | int | None, beside: Fraction | int | None = None) -> str:
    """An amount with at most one decimal, `14.7` or `1,204`; `?` if it is unknown.

    Rounding never hides a difference. An amount that is not whole does not read as a whole number, and one that would read like the
    amount `beside` it without being equal is marked: `just over 6`, `just under 6`, `less than 0.1`. So 6.04 of 6 is
    "just over 6 of 6".

    Args:
        amount: 0 or more.
        beside: The amount with which readers compare it, such as the limit; None if there is none.
    """
    if amount is None:
        return "?"
    if amount.denominator == 1 and (beside is None or beside.denominator == 1):
        return f"{amount.numerator:,}"
    if 0 < 10 * amount < 1:
        return "less than 0.1"
    tenths = round(10 * amount)
    text = f"{tenths // 10:,}{f'.{tenths % 10}' if tenths % 10 else ''}"
    hides = tenths % 10 == 0 and tenths != 10 * amount
    if beside is not None and beside != amount and round(10 * beside) == tenths:
        return f"just {'over' if amount > beside else 'under'} {text}"
    return f"just {'over' if 10 * amount > tenths else 'under'} {text}" if hides else text


def inflected(noun: str, number: str) -> str:
    """The noun behind a number that `format_amount` wrote: `0.5 GPU`, `1 GPU`, `1.5 GPUs`, `0 GPUs`."""
    return noun if number.startswith(("0.", "less")) or number == "1" else f"{noun}s"


_AGES = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def format_age(age: timedelta | None) -> str:
    """An age in its largest unit, as kubectl prints it; empty if it is unknown, as for manifests."""
    seconds = int(age.total_seconds()) if age else 0
    size, suffix = next((each for each in _AGES if seconds >= each[0]), (1, ""))
    return f"{seconds // size}{suffix}" if suffix else ""


def format_list(items: Sequence[str], most: int = _MOST) -> str:
    """`a`, `a and b`, `a, b and c`; beyond `most` items, the first ones and how many more there are."""
    if len(items) > most:
        return f"{', '.join(items[:most])} and {len(items) - most:,} more"
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}" if items else "none"


def format_ranges(names: Iterable[str]) -> str:
    """Names with runs of numbers as ranges, `gpu-0..gpu-3 and gpu-6`; at most five."""
    runs = _runs(names)
    parts = [name for run in runs for name in _range(run)]
    if len(parts) <= _MOST:
        return format_list(parts)
    kept: list[str] = []
    for number, run in enumerate(runs):
        if len(kept) + len(_range(run)) >= _MOST:
            rest = sum(map(len, runs[number:]))
            return f"{', '.join(kept)} and {rest:,} more" if kept else f"{printable(run[0])} and {rest - 1:,} more"
        kept += _range(run)
    return format_list(kept)


def number_key(name: str) -> tuple[str, int, str]:
    """A sort key that puts `gpu-2` before `gpu-10`.

    It has the stem of a name and the number at its end, or -1 if there is none. Leading zeros, and digits before the last
    nine, belong to the stem.
    """
    match = _NUMBERED.fullmatch(name)
    return (match[1], int(match[2]), "") if match else (name, -1, name)


def inflect(text: str, count: int) -> str:
    """A predicate in the singular, `has no memory`, for `count` subjects: `have no memory`.

    Predicates may follow each other after colons: `fails: has no memory`.
    """
    if count == 1:
        return text
    return ": ".join(_plural(part) for part in text.split(": "))


def shorten(text: str, longest: int = _LONGEST) -> str:
    """A text on one line, at most `longest` characters, by default 120."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= longest else f"{line[: longest - 3]}..."


def with_capital(text: str) -> str:
    """A text with a capital, unless its first word looks like a name."""
    return f"{text[0].upper()}{text[1:]}" if text.partition(" ")[0].isalpha() else text


def with_full_stop(text: str) -> str:
    """A text with a full stop, unless it was cut or is a question."""
    return text if text.endswith(("...", "?")) else f"{text}."


def _plural(text: str) -> str:
    verb, space, rest = text.partition(" ")
    return f"{_PLURALS.get(verb, verb)}{space}{rest}"


def _runs(names: Iterable[str]) -> list[list[str]]:
    """Names in the order of their numbers, in runs of consecutive numbers."""
    runs: list[list[str]] = []
    following: tuple[str, int] | None = None
    for (stem, number, _), name in sorted((number_key(name), name) for name in names):
        if following == (stem, number):
            runs[-1].append(name)
        else:
            runs.append([name])
        following = (stem, number + 1) if number >= 0 else None
    return runs


def _range(run: list[str]) -> list[str]:
    """Three names or more in a row are written as a range."""
    shown = [printable(name) for name in run]
    return [f"{shown[0]}..{shown[-1]}"] if len(run) > 2 else shown


_PATHS = {
    "ClusterPolicy": ("/apis/nvidia.com/v1", "clusterpolicies"),
    "DeviceClass": ("/apis/resource.k8s.io/v1", "deviceclasses"),
    "Node": ("/api/v1", "nodes"),
    "Pod": ("/api/v1", "pods"),
    "ResourceClaim": ("/apis/resource.k8s.io/v1", "resourceclaims"),
    "ResourceClaimTemplate": ("/apis/resource.k8s.io/v1", "resourceclaimtemplates"),
    "ResourceSlice": ("/apis/resource.k8s.io/v1", "resourceslices"),
}
"""The path of the API group and the plural of the kinds that messages name."""


def list_command(kind: str, namespace: str = "") -> str:
    """The command that writes all objects of a kind to a file, also if there are none.

    `kubectl get -o yaml` prints the same empty `kind: List` for every kind without objects. The API server's own list,
    such as `ResourceClaimList`, names its kind.
    """
    group, plural = _PATHS[kind]
    scope = f"/namespaces/{namespace}" if namespace else ""
    return f"kubectl get --raw {group}{scope}/{plural} > {plural}.json"


Otherwise = TypeVar("Otherwise", str, None)
_NUMBER = re.compile(r"[0-9]+")


def closest(text: Any, known: Iterable[str], *, likeness: float = 0.7) -> str | None:
    """The known name that was probably meant, if any is near.

    A name with other numbers is another thing: another size, count or version. So a known name must have all numbers of
    the text.

    Args:
        text: what was written; YAML makes booleans of `on` and `off`.
        known: the names that there are.
        likeness: how much the names must have in common, from 0 to 1; high where nothing else tells that one is meant.
    """
    known = tuple(known)
    if not isinstance(text, str):
        return {True: "on", False: "off"}.get(text) if {"on", "off"} <= set(known) else None
    numbers = Counter(_NUMBER.findall(text))
    by_lower = {name.lower(): name for name in known if numbers <= Counter(_NUMBER.findall(name))}
    matches = get_close_matches(text.lower(), by_lower, n=1, cutoff=likeness)
    return by_lower[matches[0]] if matches else None


def did_you_mean(text: str, known: Iterable[str]) -> str:
    """The end of a message on a name that does not exist; empty if no known name is near."""
    guess = closest(text, known, likeness=0.85)
    return f"; did you mean {printable(guess)}?" if guess else ""


def write_closest(text: Any, known: Iterable[str], otherwise: Otherwise) -> str | Otherwise:
    """A remedy: to write the known name that was probably meant, or something else if none is near."""
    guess = closest(text, known)
    return f'write "{guess}"' if guess else otherwise


def write_field(name: Any, known: Iterable[str], mapping: Mapping[Any, Any], otherwise: str) -> str:
    """A remedy for an unknown field of a mapping, which may have the field that was meant as well."""
    guess = closest(name, known)
    if guess is None:
        return otherwise
    return f'move what it says into "{guess}", which is there too' if guess in mapping else f'write "{guess}"'


_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_DNS_SUBDOMAIN = re.compile(rf"{_DNS_LABEL.pattern}(\.{_DNS_LABEL.pattern})*")


def is_label_value(text: object) -> bool:
    """True if a node could carry this label value.

    Source: k8s.io/apimachinery/pkg/util/validation.IsValidLabelValue.
    """
    return isinstance(text, str) and len(text) <= 63 and _LABEL_VALUE.fullmatch(text) is not None


def is_label_key(text: object) -> bool:
    """True if this can be the key of a label: a name, and before it, if anything, a DNS name and a slash.

    Source: k8s.io/apimachinery/pkg/api/validate/content.IsLabelKey.
    """
    if not isinstance(text, str):
        return False
    prefix, slash, name = text.rpartition("/")
    return (
        name != ""
        and is_label_value(name)
        and (not slash or (len(prefix) <= 253 and _DNS_SUBDOMAIN.fullmatch(prefix) is not None))
    )


def is_dns_label(text: object) -> bool:
    """True if this can name a container, a pod claim or a request of a claim.

    Source: k8s.io/apimachinery/pkg/util/validation.IsDNS1123Label.
    """
    return isinstance(text, str) and len(text) <= 63 and _DNS_LABEL.fullmatch(text) is not None


def is_dns_subdomain(text: object) -> bool:
    """True if this can name a DeviceClass, and most other objects.

    Source: k8s.io/apimachinery/pkg/util/validation.IsDNS1123Subdomain.
    """
    return isinstance(text, str) and len(text) <= 253 and _DNS_SUBDOMAIN.fullmatch(text) is not None


_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}")


def is_attribute_name(text: object) -> bool:
    """True for the name of a device attribute with its domain, such as `resource.kubernetes.io/pcieRoot`.

    Source: k8s.io/kubernetes pkg/apis/resource/validation validateFullyQualifiedName.
    """
    domain, _, name = text.rpartition("/") if isinstance(text, str) else ("", "", "")
    return is_dns_subdomain(domain) and len(domain) <= 63 and _IDENTIFIER.fullmatch(name) is not None


def plural(kind: str) -> str:
    """The English plural of a kind: `ClusterPolicies`, `DeviceClasses`."""
    if kind.endswith("y"):
        return f"{kind[:-1]}ies"
    return f"{kind}es" if kind.endswith("s") else f"{kind}s"


def resource_name(kind: str) -> str:
    """The name that the resource of a kind usually has: `clusterpolicies`, `deviceclasses`."""
    return plural(kind.lower())


HELM = "meta.helm.sh/release-"
"""The prefix of annotations that name the release of Helm that an object belongs to."""
PREFIX = "gpu-admission.io/"
"""The prefix of every label and annotation of gpu-admission."""

DRA_LABEL = "gpu-admission.io/dra"
"""The label that opts a namespace into conversion, and with the value `disabled` a pod out of it."""

STRATEGY_LABEL = "gpu-admission.io/dra-strategy"
"""The label of a namespace that chooses the conversion strategy."""

QUOTA_LABEL = "gpu-admission.io/quota"
"""The label of a namespace that makes its quota fail closed."""

MANAGED = "gpu-admission.io/managed"
"""The label on everything that gpu-admission made or changed."""

IGNORE = "gpu-admission.io/ignore"
"""The annotation that waives findings on its object."""

RECORD = "gpu-admission.io/converted"
"""The annotation that records what a converted pod requested."""

UNUSED_SINCE = "gpu-admission.io/unused-since"
"""The annotation with the time since when no pod uses a template."""

SCHEDULABLE = "gpu-admission.io/Schedulable"
"""The type of the condition of pods that wait for GPUs. It is only ever `False`, and is removed when that is no longer true."""
