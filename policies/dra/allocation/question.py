"""What is asked, whichever node it is asked of: claims, and all that decides about them but nodes and slices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.dra.allocation.checks import Checks
from policies.dra.allocation.classes import DeviceClass, read_classes
from policies.dra.allocation.features import Implementation
from policies.dra.allocation.requests import Claim, read_claim
from policies.dra.allocation.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from policies.dra.allocation.features import Features
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
    def read(cls, claims: Iterable[Object], classes: Iterable[Object], usage: Usage, features: Features) -> Question:
        """Read ResourceClaims and DeviceClasses; the stable implementation knows no shares.

        Raises:
            AllocationError: a field is of the wrong type.
        """
        read = tuple(read_claim(claim) for claim in claims)
        by_name = read_classes(classes)
        known = Usage(usage.devices) if features.implementation is Implementation.STABLE else usage
        return cls(read, by_name, known, features, Checks(read, by_name, features, known))
