"""A wish as a predicate on devices.

Not a method of `Wish`: loading predicates takes a while, and settings check wishes at the start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from policies.nvidia.predicates import MemoryWithin, ProductLike, TextIn, VersionAtLeast, all_of
from policies.nvidia.wish_words import driver_text, pair_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.nvidia.labels import Subject
    from policies.nvidia.predicates import Predicate
    from policies.nvidia.wishes import Wish

__all__ = ["device_predicate"]


_NAMES: dict[Literal["gpu", "mig", "mig-single"], Literal["name", "name with profile", "either"]] = {
    "gpu": "name",
    "mig": "either",
    "mig-single": "name with profile",
}


def device_predicate(wish: Wish, subject: Subject) -> Predicate:
    """What a device of some kind must be to meet a wish; whether it is shared is no property of a device."""
    return all_of(_parts(wish, subject))


def _parts(wish: Wish, subject: Subject) -> Iterator[Predicate]:
    if wish.products is not None:
        yield ProductLike(wish.products.includes, wish.products.excludes, _NAMES[subject.kind])
    if wish.min_memory is not None or wish.max_memory is not None:
        yield MemoryWithin(wish.min_memory, wish.max_memory, is_whole=subject.kind == "gpu")
    if wish.min_compute_capability is not None:
        version = wish.min_compute_capability
        yield VersionAtLeast("cudaComputeCapability", (*version, 0), "compute capability", pair_text(version))
    if wish.families:
        yield TextIn("architecture", tuple(sorted(wish.families)), "lower dashed", "family")
    if wish.min_driver is not None:
        yield VersionAtLeast("driverVersion", wish.min_driver, "driver", driver_text(wish.min_driver))
    if wish.min_cuda is not None:
        yield VersionAtLeast("cudaDriverVersion", (*wish.min_cuda, 0), "CUDA", pair_text(wish.min_cuda))
