"""The ResourceClaimTemplates that conversion creates, named by their content.

A name is `gpu-` and the first 16 hexadecimal digits of the SHA-256 of the template's `spec` as JSON in UTF-8, with sorted
keys, without white space, and only with the escapes that JSON requires. Every default of the API server is written out,
so that the stored spec equals the hashed one.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from policies.kubernetes.names import MANAGED
from policies.nvidia.predicates import TRUE, AllOf, Predicate
from policies.rules.decision import Template

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ExactRequest", "cel_expressions", "claim_template", "content_name", "is_our_name", "without_nulls"]

_MOST_SELECTORS = 32

_OUR_NAME = re.compile(r"gpu-[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class ExactRequest:
    """One exact request of a claim: a number of devices of a class that meet a predicate."""

    name: str
    device_class: str
    count: int
    predicate: Predicate = TRUE
    shares: int = 0
    """Requested shares of each device, if the driver shares devices (`shares`, ConsumableShares)."""

    def manifest(self) -> dict[str, Any]:
        """The request as JSON."""
        exactly: dict[str, Any] = {
            "deviceClassName": self.device_class,
            "allocationMode": "ExactCount",
            "count": self.count,
        }
        if expressions := cel_expressions(self.predicate):
            exactly["selectors"] = [{"cel": {"expression": expression}} for expression in expressions]
        if self.shares:
            exactly["capacity"] = {"requests": {"shares": str(self.shares)}}
        return {"name": self.name, "exactly": exactly}


def cel_expressions(predicate: Predicate) -> list[str]:
    """The CEL expressions of a predicate: one for each part of a conjunction, which is easier to read."""
    if predicate == TRUE:
        return []
    parts = predicate.parts if isinstance(predicate, AllOf) else (predicate,)
    return [part.cel() for part in parts] if len(parts) <= _MOST_SELECTORS else [predicate.cel()]


def claim_template(namespace: str, requests: Sequence[ExactRequest]) -> Template:
    """The template with these requests, named by its content."""
    spec = {
        "metadata": {"labels": {MANAGED: "true"}},
        "spec": {"devices": {"requests": [request.manifest() for request in requests]}},
    }
    return Template(namespace, content_name(spec), spec)


def content_name(spec: Any) -> str:
    """The name of a template with this `spec`."""
    canonical = json.dumps(spec, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    return f"gpu-{hashlib.sha256(canonical).hexdigest()[:16]}"


def without_nulls(value: Any) -> Any:
    """A value without null fields, which clients in Go write for fields that are not set."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def is_our_name(name: object) -> bool:
    """True if a name has the form of our templates' names."""
    return isinstance(name, str) and _OUR_NAME.fullmatch(name) is not None
