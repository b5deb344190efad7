"""ResourceClaimTemplates: written by us, named by their content.

The canonical form behind a name is the template's `spec` as JSON with sorted keys, no white space and no escapes but
those JSON demands, in UTF-8. The name is `gpu-` and the first 16 hexadecimal digits of its SHA-256. Everything that the
API server would default is written out, so that what is stored equals what was hashed.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from policies.decision import Template
from policies.metadata_keys import MANAGED
from policies.nvidia.predicates import TRUE, AllOf, Predicate

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["DeviceRequest", "as_written", "claim_template", "content_name", "is_our_name", "selectors"]

_MOST_SELECTORS = 32

_OUR_NAME = re.compile(r"gpu-[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """One request of a claim: so many devices of a class that meet a predicate."""

    name: str
    device_class: str
    count: int
    predicate: Predicate = TRUE
    shares: int = 0
    """How many shares of each device are asked for, where the driver shares devices (`shares`, ConsumableShares)."""

    def manifest(self) -> dict[str, Any]:
        """The request in its wire form."""
        exactly: dict[str, Any] = {
            "deviceClassName": self.device_class,
            "allocationMode": "ExactCount",
            "count": self.count,
        }
        if expressions := selectors(self.predicate):
            exactly["selectors"] = [{"cel": {"expression": expression}} for expression in expressions]
        if self.shares:
            exactly["capacity"] = {"requests": {"shares": str(self.shares)}}
        return {"name": self.name, "exactly": exactly}


def selectors(predicate: Predicate) -> list[str]:
    """The CEL expressions of a request: one for each part of a conjunction, because they are read one by one."""
    if predicate == TRUE:
        return []
    parts = predicate.parts if isinstance(predicate, AllOf) else (predicate,)
    return [part.cel() for part in parts] if len(parts) <= _MOST_SELECTORS else [predicate.cel()]


def claim_template(namespace: str, requests: Sequence[DeviceRequest]) -> Template:
    """The template with these requests, under the name that its content gives it."""
    spec = {
        "metadata": {"labels": {MANAGED: "true"}},
        "spec": {"devices": {"requests": [request.manifest() for request in requests]}},
    }
    return Template(namespace, content_name(spec), spec)


def content_name(spec: Any) -> str:
    """The name that a template's `spec` gives it."""
    canonical = json.dumps(spec, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    return f"gpu-{hashlib.sha256(canonical).hexdigest()[:16]}"


def as_written(value: Any) -> Any:
    """A stored value as it was written: clients in Go write fields that are not set as null."""
    if isinstance(value, dict):
        return {key: as_written(item) for key, item in value.items() if item is not None}
    return [as_written(item) for item in value] if isinstance(value, list) else value


def is_our_name(name: object) -> bool:
    """Whether a template of this name could be ours."""
    return isinstance(name, str) and _OUR_NAME.fullmatch(name) is not None
