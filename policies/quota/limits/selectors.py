"""Selectors: whether a limit counts a device."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from policies.caches import remember_short
from policies.nvidia.product_globs import any_matches, fold_name, matching_texts

if TYPE_CHECKING:
    from policies.quota.charges import DeviceKind

__all__ = ["EVERYTHING", "Match", "Selector"]


class Match(Enum):
    """Whether a limit counts a device."""

    YES = "yes"
    PERHAPS = "perhaps"
    """It depends on what is not known: the product, or which pod it is for."""
    NO = "no"


@dataclass(frozen=True, slots=True)
class Selector:
    """What a limit counts: devices that match a glob of each list. An empty list matches every device."""

    products: tuple[str, ...] = ()
    """Globs of products as labels spell them, in lower case and without `nvidia-`; they match with and without it."""
    profiles: tuple[str, ...] = ()
    """Globs of MIG profiles in lower case, as NVML spells them (`1g.10gb+me`) or as resources do (`1g.10gb.me`). Whole
    GPUs have no profile, so none of them matches."""
    priority_classes: tuple[str, ...] = ()
    """Globs of the names of pods' PriorityClasses. A pod without one has the empty name, which only `*` matches."""

    def match(self, kind: DeviceKind, priority_class: str | None) -> Match:
        """True if the device of a pod with this PriorityClass counts; None if the pod is not known."""
        answers = (self._product(kind.product), self._profile(kind.profile), self._priority(priority_class))
        for answer in (Match.NO, Match.PERHAPS):
            if answer in answers:
                return answer
        return Match.YES

    def _product(self, product: str) -> Match:
        if not self.products:
            return Match.YES
        return _said(_any_product(self.products, product)) if product else Match.PERHAPS

    def _profile(self, profile: str) -> Match:
        return _said(not self.profiles or _any_profile(self.profiles, profile))

    def _priority(self, name: str | None) -> Match:
        if not self.priority_classes:
            return Match.YES
        if name is None:
            return Match.PERHAPS
        return _said(any(fnmatchcase(name, glob) for glob in self.priority_classes))


EVERYTHING = Selector()
"""Leaves nothing out."""


def _said(matches: bool) -> Match:
    return Match.YES if matches else Match.NO


# Every pod is matched, and there are few products.
@remember_short(8192)
def _any_product(globs: tuple[str, ...], product: str) -> bool:
    return any_matches(globs, fold_name(product))


@remember_short(8192)
def _any_profile(globs: tuple[str, ...], profile: str) -> bool:
    name = fold_name(profile)
    return bool(name) and any(matching_texts(glob, (name, name.replace("+", "."))) for glob in globs)
