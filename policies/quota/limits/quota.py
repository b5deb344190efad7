"""The GPUQuota of a namespace: its limits, how it is read, and what is wrong with it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from policies.kubernetes.names import QUOTA_LABEL, closest, is_dns_label
from policies.kubernetes.objects import FieldPath, lookup
from policies.quota.limits.amounts import AmountError, quoted_value, read_hard
from policies.quota.limits.selectors import EVERYTHING, GLOBS, Selector

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from fractions import Fraction

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.rules.charges import Unit


QUOTA_NAME = "gpu"
"""The name of the one GPUQuota of a namespace."""


API_VERSION = "gpu-admission.io/v1alpha1"
ENFORCED = "enforced"
UNITS: tuple[Unit, ...] = ("gpus", "memory", "devices")
MOST_LIMITS = 32
MOST_GLOBS = 16


class QuotaError(ValueError):
    """The document is not a valid GPUQuota; `problems` holds (field path, sentence) pairs."""

    def __init__(self, problems: list[tuple[FieldPath, str]]) -> None:
        self.problems = problems
        super().__init__("; ".join(f"{path}: {sentence}" if path else sentence for path, sentence in problems))


@dataclass(frozen=True)
class Limit:
    """The most of one unit that a namespace's pods and claims may have together."""

    name: str
    unit: Unit
    hard: Fraction
    selector: Selector = EVERYTHING

    @cached_property
    def key(self) -> str:
        """A hash of what the limit counts, in 12 digits. Counts of another key are not valid for this one.

        How globs are spelled and ordered does not change it, and neither does `hard`.
        """
        counted = [self.unit, self.selector.products, self.selector.profiles, self.selector.priority_classes]
        return hashlib.sha256(json.dumps(counted).encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Quota:
    """The spec of a namespace's GPUQuota."""

    limits: tuple[Limit, ...]
    """In the order in which they are written; their names differ."""
    mode: Literal["Enforce", "Warn"] = "Enforce"
    """The fate of requests that exceed a limit."""
    unknown_products: Literal["WorstCase", "Deny"] = "WorstCase"
    """The fate of requests that could get devices of unknown products: they count in every limit that could count
    them, or they are refused if a limit depends on the product."""


def quota_shown(namespace: str, view: ClusterView) -> Object | None:
    """The GPUQuota of a namespace, if the view shows it; None if there is none or it is unknown."""
    document = view.get("GPUQuota", QUOTA_NAME, namespace)
    return document if isinstance(document, dict) else None


def is_enforced(namespace: str, view: ClusterView) -> bool:
    """True if the quota of a namespace fails closed. False if the namespace is unknown."""
    return bool(lookup(view.get("Namespace", namespace), ("metadata", "labels", QUOTA_LABEL)) == ENFORCED)


def parse_quota(document: Any) -> Quota:
    """Read a GPUQuota object; its status does not matter.

    Raises:
        QuotaError: with every problem of the document.
    """
    if not isinstance(document, dict):
        raise QuotaError([(FieldPath(), "a GPUQuota is a mapping with apiVersion, kind, metadata and spec")])
    problems = list(_envelope_problems(document))
    spec: Any = document.get("spec")
    problems += [(FieldPath(("spec", *steps)), said) for steps, said in spec_problems(spec)]
    if problems:
        raise QuotaError(problems)
    limits = tuple(_limit(each) for each in spec["limits"])
    return Quota(limits, spec.get("mode", "Enforce"), spec.get("unknownProducts", "WorstCase"))


_FIELDS = ("apiVersion", "kind", "metadata", "spec", "status")


def _limit(document: Mapping[str, Any]) -> Limit:
    unit = next(unit for unit in UNITS if unit in document)
    lists = document.get("selector", {})
    globs = [tuple(sorted({each.read(text) for text in lists.get(field, ())})) for field, each in GLOBS.items()]
    return Limit(document["name"], unit, read_hard(unit, document[unit]), Selector(*globs))


def _envelope_problems(document: dict[str, Any]) -> Iterator[tuple[FieldPath, str]]:
    for field, right in (("apiVersion", API_VERSION), ("kind", "GPUQuota")):
        if document.get(field) != right:
            yield FieldPath([field]), f'{_found(document.get(field))}; write "{right}"'
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if name != QUOTA_NAME:
        yield FieldPath(["metadata", "name"]), f'{_found(name)}; a namespace has one GPUQuota, named "{QUOTA_NAME}"'
    for key in document:
        if key not in _FIELDS:
            yield FieldPath([str(key)]), unknown_field(key, _FIELDS, "a GPUQuota")


def _found(value: Any) -> str:
    return "is missing" if value is None else f"is {quoted_value(value)}"


_CHOICES = {"mode": ("Enforce", "Warn"), "unknownProducts": ("WorstCase", "Deny")}
_SPEC_FIELDS = ("limits", *_CHOICES)
_LIMIT_FIELDS = ("name", "selector", *UNITS)
_Problem = tuple[tuple[str | int, ...], str]
"""The steps that lead to a place in the spec, and a sentence about it."""


def spec_problems(spec: Any) -> Iterator[_Problem]:
    """Where in a spec of any shape something is wrong, and what; nothing where it can be read."""
    if not isinstance(spec, dict):
        yield (
            (),
            "is missing; write limits under it" if spec is None else f"is {quoted_value(spec)}; it must be a mapping",
        )
        return
    yield from _unknown(spec, _SPEC_FIELDS, "a GPUQuota's spec")
    yield from _limits_problems(spec)
    for field, choices in _CHOICES.items():
        if field in spec and spec[field] not in choices:
            yield (field,), f"is {quoted_value(spec[field])}; write {' or '.join(choices)}"


def unknown_field(key: Any, known: Iterable[str], where: str) -> str:
    """The message for an unknown field."""
    known = tuple(known)
    meant = closest(key, known)
    listed = f"{', '.join(known[:-1])} and {known[-1]}"
    return f"is an unknown field of {where}; " + (f"write {meant}" if meant else f"known fields: {listed}")


def _unknown(document: dict[Any, Any], known: tuple[str, ...], where: str) -> Iterator[_Problem]:
    for key in document:
        if key not in known:
            yield (str(key),), unknown_field(key, known, where)


def _limits_problems(spec: dict[Any, Any]) -> Iterator[_Problem]:
    limits = spec.get("limits")
    if not isinstance(limits, list):
        found = "is missing" if "limits" not in spec else f"is {quoted_value(limits)}"
        yield ("limits",), f"{found}; write a list of limits"
        return
    if not limits:
        yield ("limits",), "is empty; write a limit, or delete the GPUQuota if nothing is limited"
    if len(limits) > MOST_LIMITS:
        yield ("limits",), f"has {len(limits)} limits; the most is {MOST_LIMITS}"
    first: dict[str, int] = {}
    for index, limit in enumerate(limits[:MOST_LIMITS]):
        for steps, said in _limit_problems(limit, first):
            yield ("limits", index, *steps), said
        name = limit.get("name") if isinstance(limit, dict) else None
        if isinstance(name, str):
            first.setdefault(name, index)


def _limit_problems(limit: Any, names: dict[str, int]) -> Iterator[_Problem]:
    if not isinstance(limit, dict):
        yield (), f"is {quoted_value(limit)}; it must be a mapping with name and one of {_one_of_units()}"
        return
    yield from _unknown(limit, _LIMIT_FIELDS, "a limit")
    yield from _name_problems(limit, names)
    units = [unit for unit in UNITS if unit in limit]
    if not units:
        yield (), f"limits nothing; write one of {_one_of_units()}"
    elif len(units) > 1:
        yield (), f"has {' and '.join(units)}; write a limit for each of them"
    for unit in units:
        try:
            read_hard(unit, limit[unit])
        except AmountError as error:
            yield (unit,), str(error)
    if "selector" in limit:
        for steps, said in _selector_problems(limit["selector"]):
            yield ("selector", *steps), said


def _one_of_units() -> str:
    return f"{', '.join(UNITS[:-1])} and {UNITS[-1]}"


def _name_problems(limit: dict[Any, Any], names: dict[str, int]) -> Iterator[_Problem]:
    if "name" not in limit:
        yield ("name",), "is missing; refusals, the status and metrics call the limit by it"
    elif not is_dns_label(limit["name"]):
        said = 'write at most 63 lower-case letters, digits and dashes, such as "h100"'
        yield ("name",), f"is {quoted_value(limit['name'])}; {said}"
    elif limit["name"] in names:
        earlier = names[limit["name"]]
        yield (
            ("name",),
            f"is {quoted_value(limit['name'])}, as that of limits[{earlier}] is; give each limit its own name",
        )


def _selector_problems(selector: Any) -> Iterator[_Problem]:
    if not isinstance(selector, dict):
        yield (), f"is {quoted_value(selector)}; it must be a mapping, or be left out to count everything"
        return
    yield from _unknown(selector, tuple(GLOBS), "a selector")
    for field, globs in GLOBS.items():
        if field not in selector:
            continue
        listed = selector[field]
        if not isinstance(listed, list):
            yield (field,), f'is {quoted_value(listed)}; write a list, such as ["{globs.example}"]'
            continue
        if not listed:
            yield (field,), "is empty; leave it out to count them all"
        if len(listed) > MOST_GLOBS:
            yield (field,), f"has {len(listed)} names; the most is {MOST_GLOBS}"
        for index, value in enumerate(listed[:MOST_GLOBS]):
            if said := globs.problem(value):
                yield (field, index), said
