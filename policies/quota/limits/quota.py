"""A namespace's quota: the spec of its GPUQuota, read."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from policies.kubernetes.paths import FieldPath
from policies.quota.limits.amounts import quoted_value, read_hard
from policies.quota.limits.globs import GLOBS
from policies.quota.limits.selectors import EVERYTHING, Selector
from policies.quota.limits.spec import UNITS, spec_problems, unknown_field
from policies.quota.opt_in import QUOTA_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from fractions import Fraction

    from policies.quota.charges import Unit

__all__ = ["API_VERSION", "Limit", "Quota", "QuotaError", "parse_quota"]

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
