"""The limits of GPUQuotas and GPUQuotaGroups: how they are read, and what is wrong with them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from policies.kubernetes.names import QUOTA_LABEL, closest, is_dns_label
from policies.kubernetes.objects import FieldPath, lookup
from policies.quota.limits.amounts import AmountError, quoted_value, read_hard
from policies.quota.limits.selectors import EVERYTHING, GLOBS, Selector
from policies.rules.checks import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from fractions import Fraction

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.rules.charges import Unit


QUOTA_NAME = "gpu"
"""The name of the one GPUQuota of a namespace."""
GROUP = "GPUQuotaGroup"
"""The kind of the limits of one group of namespaces, with the ledger of its namespaces."""


API_VERSION = "gpu-admission.io/v1alpha1"
ENFORCED = "enforced"
UNITS: tuple[Unit, ...] = ("gpus", "memory", "devices")
MOST_LIMITS = 32
MOST_GLOBS = 16


class QuotaError(ValueError):
    """The document is not a valid GPUQuota."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(". ".join(each.text for each in problems))


@dataclass(frozen=True)
class Limit:
    """The most of one unit that a namespace's pods and claims may have together."""

    name: str
    unit: Unit
    hard: Fraction
    selector: Selector = EVERYTHING
    expected: Fraction | None = None
    """The amount that a group is expected to use, the field `min`; it refuses nothing. None if it is not written."""

    @cached_property
    def key(self) -> str:
        """A hash of what the limit counts, in 12 digits. Counts of another key are not valid for this one.

        How globs are spelled and ordered does not change it, and neither does `hard`.
        """
        counted = [self.unit, self.selector.products, self.selector.profiles, self.selector.priority_classes]
        return hashlib.sha256(json.dumps(counted).encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Quota:
    """The limits of a namespace or of a group."""

    limits: tuple[Limit, ...]
    """In the order in which they are written; their names differ."""
    mode: Literal["Enforce", "Warn"] = "Enforce"
    """The fate of requests that exceed a limit."""
    unknown_products: Literal["WorstCase", "Deny"] = "WorstCase"
    """The fate of requests that could get devices of unknown products: they count in every limit that could count
    them, or they are refused if a limit depends on the product."""


class QuotaNames(NamedTuple):
    """The words by which messages name a quota."""

    name: str
    """`gpu`, or the name of a GPUQuotaGroup."""
    label: str
    """The quota in a sentence: `quota gpu of namespace team-a`."""
    subject: str
    """The namespaces that it limits: `namespace team-a`."""
    kubectl: str
    """The arguments of kubectl that name its object: `gpuquota gpu -n team-a`."""
    owner: str
    """The object in which an administrator changes the limits: `GPUQuota gpu`."""

    @classmethod
    def of_namespace(cls, namespace: str) -> QuotaNames:
        """The words for the GPUQuota of a namespace."""
        label, arguments = f"quota {QUOTA_NAME} of namespace {namespace}", f"gpuquota {QUOTA_NAME} -n {namespace}"
        return cls(QUOTA_NAME, label, f"namespace {namespace}", arguments, f"GPUQuota {QUOTA_NAME}")


def quota_shown(namespace: str, view: ClusterView) -> Object | None:
    """The GPUQuota of a namespace, if the view shows it; None if there is none or it is unknown."""
    document = view.get("GPUQuota", QUOTA_NAME, namespace)
    return document if isinstance(document, dict) else None


def is_enforced(namespace: str, view: ClusterView) -> bool:
    """True if the quota of a namespace fails closed. False if the namespace is unknown."""
    return bool(lookup(view.get("Namespace", namespace), ("metadata", "labels", QUOTA_LABEL)) == ENFORCED)


def parse_quota(document: Any) -> Quota:
    """Read a GPUQuota or a GPUQuotaGroup; its status does not matter.

    Raises:
        QuotaError: with every problem of the document.
    """
    if not isinstance(document, dict):
        text = "a GPUQuota is a mapping with apiVersion, kind, metadata and spec"
        raise QuotaError([Problem(FieldPath(), text, "")])
    kind = GROUP if document.get("kind") == GROUP else "GPUQuota"
    problems = list(envelope_problems(document, kind))
    if kind == "GPUQuota":
        metadata = document.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if name != QUOTA_NAME:
            text = f"{_found(name)}, and a namespace has only one GPUQuota"
            problems.append(Problem(FieldPath(["metadata", "name"]), text, f'write "{QUOTA_NAME}"'))
    return read_spec(document.get("spec"), kind, GROUP_FIELDS if kind == GROUP else (), problems)


def read_spec(spec: Any, kind: str, more_fields: Sequence[str] = (), problems: Sequence[Problem] = ()) -> Quota:
    """The limits of a spec.

    Args:
        spec: Of any shape.
        kind: Of the object.
        more_fields: The fields of the spec beside those of a GPUQuota.
        problems: Those of the rest of the object.

    Raises:
        QuotaError: with every problem, those that are given first.
    """
    found = [*problems, *_spec_problems(spec, kind, more_fields)]
    if found:
        raise QuotaError(found)
    limits = tuple(_limit(each) for each in spec["limits"])
    return Quota(limits, spec.get("mode", "Enforce"), spec.get("unknownProducts", "WorstCase"))


_FIELDS = ("apiVersion", "kind", "metadata", "spec", "status")
GROUP_FIELDS = ("quota", "group")
"""The fields of a GPUQuotaGroup's spec beside those of a GPUQuota."""


def _limit(document: Mapping[str, Any]) -> Limit:
    unit = next(unit for unit in UNITS if unit in document)
    lists = document.get("selector", {})
    globs = [tuple(sorted({each.read(text) for text in lists.get(field, ())})) for field, each in GLOBS.items()]
    expected = read_hard(unit, document[_EXPECTED]) if _EXPECTED in document else None
    return Limit(document["name"], unit, read_hard(unit, document[unit]), Selector(*globs), expected)


def envelope_problems(document: dict[str, Any], kind: str) -> Iterator[Problem]:
    """The problems of apiVersion and kind, and the unknown fields beside them."""
    for field, right in (("apiVersion", API_VERSION), ("kind", kind)):
        if document.get(field) != right:
            yield Problem(FieldPath([field]), _found(document.get(field)), f'write "{right}"')
    yield from _unknown_fields(FieldPath(), document, _FIELDS, f"a {kind}")


def _found(value: Any) -> str:
    return "is missing" if value is None else f"is {quoted_value(value)}"


_SPEC = FieldPath(["spec"])
_CHOICES = {"mode": ("Enforce", "Warn"), "unknownProducts": ("WorstCase", "Deny")}
_SPEC_FIELDS = ("limits", *_CHOICES)
_LIMIT_FIELDS = ("name", "selector", *UNITS)
_EXPECTED = "min"
_EXAMPLE = "{name: all, gpus: 8}"


def _spec_problems(spec: Any, kind: str, more_fields: Sequence[str]) -> Iterator[Problem]:
    if not isinstance(spec, dict):
        yield Problem(_SPEC, _found(spec), f"write its fields, such as limits: [{_EXAMPLE}]")
        return
    fields = (*more_fields, *_SPEC_FIELDS)
    yield from _unknown_fields(_SPEC, spec, fields, f"a {kind}'s spec")
    # A misspelt field is not missing as well.
    if "limits" in spec or not any(closest(key, fields) == "limits" for key in spec):
        yield from _limits_problems(spec, _LIMIT_FIELDS if kind == "GPUQuota" else (*_LIMIT_FIELDS, _EXPECTED))
    for field, choices in _CHOICES.items():
        if field in spec and spec[field] not in choices:
            yield Problem(_SPEC / field, f"is {quoted_value(spec[field])}", f"write {' or '.join(choices)}")


def _unknown_fields(path: FieldPath, document: dict[Any, Any], known: Sequence[str], where: str) -> Iterator[Problem]:
    for key in document:
        if key not in known:
            meant = closest(key, known)
            remedy = f"write {meant}" if meant else f"remove it; there are {', '.join(known[:-1])} and {known[-1]}"
            yield Problem(path / str(key), f"is an unknown field of {where}", remedy)


def _limits_problems(spec: dict[Any, Any], fields: Sequence[str]) -> Iterator[Problem]:
    limits, path = spec.get("limits"), _SPEC / "limits"
    if not isinstance(limits, list):
        found = "is missing" if "limits" not in spec else f"is {quoted_value(limits)}"
        yield Problem(path, found, f"write a list such as [{_EXAMPLE}]")
        return
    if not limits:
        yield Problem(
            path, "is empty", f"write a list such as [{_EXAMPLE}], or delete the GPUQuota if nothing is limited"
        )
    if len(limits) > MOST_LIMITS:
        yield Problem(path, f"has {len(limits)} limits", f"write at most {MOST_LIMITS}")
    first: dict[str, int] = {}
    for index, limit in enumerate(limits[:MOST_LIMITS]):
        yield from _limit_problems(path / index, limit, first, fields)
        name = limit.get("name") if isinstance(limit, dict) else None
        if isinstance(name, str):
            first.setdefault(name, index)


def _limit_problems(path: FieldPath, limit: Any, names: dict[str, int], fields: Sequence[str]) -> Iterator[Problem]:
    one_of_units = f"one of {', '.join(UNITS[:-1])} and {UNITS[-1]}"
    if not isinstance(limit, dict):
        yield Problem(path, f"is {quoted_value(limit)}", f"write an entry such as {_EXAMPLE}")
        return
    yield from _unknown_fields(path, limit, fields, "a limit")
    yield from _name_problems(path / "name", limit, names)
    units = [unit for unit in UNITS if unit in limit]
    if not units:
        yield Problem(path, "has no amount", f"write {one_of_units}")
    elif len(units) > 1:
        yield Problem(path, f"has {' and '.join(units)}", "write a limit for each of them")
    amounts: list[tuple[Unit, str]] = [(unit, unit) for unit in units]
    if units and _EXPECTED in fields and _EXPECTED in limit:
        amounts.append((units[0], _EXPECTED))
    for unit, field in amounts:
        try:
            read_hard(unit, limit[field])
        except AmountError as error:
            yield Problem(path / field, error.message, error.remedy)
    if "selector" in limit:
        yield from _selector_problems(path / "selector", limit["selector"])


def _name_problems(path: FieldPath, limit: dict[Any, Any], names: dict[str, int]) -> Iterator[Problem]:
    if "name" not in limit:
        yield Problem(path, "is missing; refusals, the status and metrics call the limit by it", "write it")
        return
    found = f"is {quoted_value(limit['name'])}"
    if not is_dns_label(limit["name"]):
        yield Problem(path, found, 'write at most 63 lower-case letters, digits and dashes, such as "h100"')
    elif limit["name"] in names:
        yield Problem(path, f"{found}, as that of limits[{names[limit['name']]}] is", "give each limit its own name")


def _selector_problems(path: FieldPath, selector: Any) -> Iterator[Problem]:
    if not isinstance(selector, dict):
        remedy = f'write lists such as products: ["{GLOBS["products"].example}"], or remove it to count everything'
        yield Problem(path, f"is {quoted_value(selector)}", remedy)
        return
    yield from _unknown_fields(path, selector, tuple(GLOBS), "a selector")
    for field, globs in GLOBS.items():
        if field not in selector:
            continue
        listed = selector[field]
        if not isinstance(listed, list):
            yield Problem(path / field, f"is {quoted_value(listed)}", f'write a list, such as ["{globs.example}"]')
            continue
        if not listed:
            yield Problem(path / field, "is empty", "remove it to count them all")
        if len(listed) > MOST_GLOBS:
            yield Problem(path / field, f"has {len(listed)} names", f"write at most {MOST_GLOBS}")
        for index, value in enumerate(listed[:MOST_GLOBS]):
            yield from globs.problems(path / field / index, value)
