"""Predicates on NVIDIA devices: one tree that renders to CEL and evaluates here.

Every leaf guards what it reads, because one device without an attribute turns an unguarded selector into an error that
keeps the pod off every node. The two readings of a leaf, `cel` and `matches`, stand side by side and must agree.
"""

from __future__ import annotations

from policies.nvidia.predicates.connectives import FALSE, TRUE, AllOf, AnyOf, Not, all_of, any_of, negate
from policies.nvidia.predicates.numbers import CapacityIs, MemoryWithin, VersionAtLeast, VersionIs, VersionPart
from policies.nvidia.predicates.predicate import (
    Comparison,
    Predicate,
    Present,
    ProductLike,
    ProfileSlices,
    TextIn,
    cel_string,
)

__all__ = [
    "FALSE",
    "TRUE",
    "AllOf",
    "AnyOf",
    "CapacityIs",
    "Comparison",
    "MemoryWithin",
    "Not",
    "Predicate",
    "Present",
    "ProductLike",
    "ProfileSlices",
    "TextIn",
    "VersionAtLeast",
    "VersionIs",
    "VersionPart",
    "all_of",
    "any_of",
    "cel_string",
    "negate",
]
