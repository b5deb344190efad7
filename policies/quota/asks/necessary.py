"""Necessary conditions: what devices that match selectors must be, whether or not a slice shows such a device now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.dra.cel import Read, split_conjuncts
from policies.dra.claims.effort import MOST_TEXT, size_of
from policies.dra.conditions import read_condition
from policies.nvidia.identifiers import DRIVER
from policies.nvidia.mig import MIGProfile
from policies.nvidia.product_globs import fold_name
from policies.quota.charges import DeviceKind
from policies.quota.devices.device_kinds import any_profile, unseen_gpu, unseen_slice

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Necessary", "necessary"]

_PRODUCT = Read("attributes", DRIVER, "productName")
_PROFILE = Read("attributes", DRIVER, "profile")
_MOST_NAMED = 64
"""Texts of a list that are looked at one by one; a selector that names more names none."""


@dataclass(frozen=True, slots=True)
class Necessary:
    """What a device must be."""

    types: frozenset[str]
    """Of NVIDIA's GPU driver; none where only devices of other drivers match."""
    products: frozenset[str] | None = None
    """As labels spell them, perhaps in lower case; None for any."""
    profiles: frozenset[str] | None = None

    def unseen(self, product: str = "") -> frozenset[DeviceKind]:
        """What of a product, or of one that nobody knows, could be given though no slice shows it."""
        kinds: set[DeviceKind] = set()
        if self.types & {"gpu", "vfio"} and self.profiles is None:
            kinds.add(unseen_gpu(product))
        if "mig" in self.types:
            kinds |= (
                any_profile(product) if self.profiles is None else {_slice(each, product) for each in self.profiles}
            )
        return frozenset(kinds)

    def missing(self, shown: frozenset[DeviceKind]) -> frozenset[DeviceKind]:
        """What of the products that it must be of is not among the kinds that are shown.

        Of a product whose MIG devices are shown these count, and no other profile that its GPUs could be cut into.
        """
        have = {(fold_name(kind.product), bool(kind.profile)) for kind in shown}
        unseen = frozenset[DeviceKind]().union(*map(self.unseen, self.products or ()))
        return frozenset(kind for kind in unseen if (fold_name(kind.product), bool(kind.profile)) not in have)


def necessary(types: frozenset[str], texts: Sequence[str]) -> Necessary:
    """What GPUs of some types that match all of some selectors must be, as far as their top-level conjuncts say."""
    if not types or size_of(texts) > MOST_TEXT:
        return Necessary(types)
    found = [(read, values) for text in texts for read, values in _equalities(text)]
    products = [frozenset(value.replace(" ", "-") for value in values) for read, values in found if read == _PRODUCT]
    profiles = [values for read, values in found if read == _PROFILE]
    return Necessary(types, _common(products), _common(profiles))


def _equalities(text: str) -> Iterator[tuple[Read, frozenset[str]]]:
    """The attributes that a selector compares with texts, and those of which they must be one."""
    for conjunct in split_conjuncts(text):
        condition = read_condition(conjunct.text)
        if condition is None or condition.operator not in ("==", "in") or condition.value_kind:
            continue
        values = frozenset(value for value in condition.values if isinstance(value, str))
        if len(values) == len(set(condition.values)) <= _MOST_NAMED:
            yield condition.read, values


def _common(sets: list[frozenset[str]]) -> frozenset[str] | None:
    if not sets:
        return None
    first, *rest = sets
    for each in rest:
        spelled = {fold_name(value) for value in each}
        first = frozenset(value for value in first if fold_name(value) in spelled)
    return first


def _slice(profile: str, product: str) -> DeviceKind:
    parsed = MIGProfile.parse(profile)
    return DeviceKind(product, profile) if parsed is None else unseen_slice(parsed, product)
