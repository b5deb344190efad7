"""Whether a namespace has a quota, and the label by which it makes the quota fail closed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from policies.kubernetes.names import QUOTA_LABEL
from policies.kubernetes.objects import FieldPath, lookup
from policies.quota.limits.amounts import quoted_value, read_hard
from policies.quota.limits.selectors import EVERYTHING, GLOBS, Selector
from policies.quota.limits.spec import UNITS, spec_problems, unknown_field

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from fractions import Fraction

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.rules.charges import Unit

__all__ = [
    "API_VERSION",
    "ENFORCED",
    "QUOTA_NAME",
    "Limit",
    "Quota",
    "QuotaError",
    "is_enforced",
    "parse_quota",
    "quota_shown",
]


ENFORCED = "enforced"

QUOTA_NAME = "gpu"
"""The name of the one GPUQuota of a namespace."""


def is_enforced(namespace: str, view: ClusterView) -> bool:
    """True if the quota of a namespace fails closed. False if the namespace is unknown."""
    return bool(lookup(view.get("Namespace", namespace), ("metadata", "labels", QUOTA_LABEL)) == ENFORCED)


def quota_shown(namespace: str, view: ClusterView) -> Object | None:
    """The GPUQuota of a namespace, if the view shows it; None if there is none or it is unknown."""
    document = view.get("GPUQuota", QUOTA_NAME, namespace)
    return document if isinstance(document, dict) else None


API_VERSION = "gpu-admission.io/v1alpha1"

_FIELDS = ("apiVersion", "kind", "metadata", "spec", "status")


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
    """What happens to requests that exceed a limit."""
    unknown_products: Literal["WorstCase", "Deny"] = "WorstCase"
    """What happens to requests that could get devices of unknown products: they count in every limit that could count
    them, or they are refused if a limit depends on the product."""


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
    given = {field: spec[key] for field, key in _CHOICES.items() if key in spec}
    return Quota(tuple(_limit(each) for each in spec["limits"]), **given)


_CHOICES = {"mode": "mode", "unknown_products": "unknownProducts"}


def _limit(document: Mapping[str, Any]) -> Limit:
    unit = next(unit for unit in UNITS if unit in document)
    lists = document.get("selector", {})
    products, profiles, priority_classes = (
        tuple(sorted({globs.read(text) for text in lists.get(field, ())})) for field, globs in GLOBS.items()
    )
    selector = Selector(products, profiles, priority_classes)
    return Limit(document["name"], unit, read_hard(unit, document[unit]), selector)


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
