"""The claims to allocate, with everything that decides about them except nodes and slices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from policies.dra.allocation.checks import Checks
from policies.dra.allocation.features import Implementation
from policies.dra.allocation.reading import read_claim, read_classes
from policies.dra.allocation.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from policies.dra.allocation.features import Features
    from policies.dra.allocation.index import SliceIndex
    from policies.dra.deviceclasses import DeviceClass
    from policies.dra.resource_claims import Claim
    from policies.kubernetes.objects import Object

__all__ = ["Question"]


@dataclass(frozen=True, slots=True)
class Question:
    """Claims that are to be allocated together."""

    claims: tuple[Claim, ...]
    classes: Mapping[str, DeviceClass]
    usage: Usage
    features: Features
    checks: Checks

    @classmethod
    def read(
        cls,
        claims: Iterable[Object],
        classes: Iterable[Object],
        usage: Usage,
        features: Features,
        index: SliceIndex,
    ) -> Question:
        """Read ResourceClaims and DeviceClasses, for the devices of an index.

        Raises:
            AllocationError: a field is of the wrong type.
        """
        read = tuple(map(read_claim, claims))
        by_name = read_classes(classes)
        known = _supported_usage(usage, features)
        return cls(read, by_name, known, features, Checks.of(read, by_name, features, known, index))

    def against(self, usage: Usage) -> Question:
        """The same where other claims hold something else."""
        known = _supported_usage(usage, self.features)
        return replace(self, usage=known, checks=self.checks.against(known))


def _supported_usage(usage: Usage, features: Features) -> Usage:
    """The stable implementation knows no shares."""
    return Usage(usage.devices, known_pools=usage.pools) if features.implementation is Implementation.STABLE else usage
