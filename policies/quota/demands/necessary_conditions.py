"""Necessary conditions: the types, products and profiles that selectors require of a device."""

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

__all__ = ["NecessaryConditions", "necessary_conditions"]

_PRODUCT = Read("attributes", DRIVER, "productName")
_PROFILE = Read("attributes", DRIVER, "profile")
_MOST_NAMED = 64
"""The most values that a selector may list; with more, the list is ignored."""


@dataclass(frozen=True, slots=True)
class NecessaryConditions:
    """The types, products and profiles that a matching device can have."""

    types: frozenset[str]
    """Of NVIDIA's GPU driver; empty if only devices of other drivers match."""
    products: frozenset[str] | None = None
    """As labels spell them, perhaps in lower case; None for any."""
    profiles: frozenset[str] | None = None

    def unseen(self, product: str = "") -> frozenset[DeviceKind]:
        """The possible kinds of devices that no slice shows; `product` is empty if it is unknown."""
        kinds: set[DeviceKind] = set()
        if self.types & {"gpu", "vfio"} and self.profiles is None:
            kinds.add(unseen_gpu(product))
        if "mig" in self.types:
            kinds |= (
                any_profile(product) if self.profiles is None else {_slice(each, product) for each in self.profiles}
            )
        return frozenset(kinds)

    def missing_kinds(self, shown: frozenset[DeviceKind]) -> frozenset[DeviceKind]:
        """The possible kinds of the required products that are not among the shown kinds.

        If MIG devices of a product are shown, its other possible profiles do not count.
        """
        have = {(fold_name(kind.product), bool(kind.profile)) for kind in shown}
        unseen = frozenset[DeviceKind]().union(*map(self.unseen, self.products or ()))
        return frozenset(kind for kind in unseen if (fold_name(kind.product), bool(kind.profile)) not in have)


def necessary_conditions(types: frozenset[str], texts: Sequence[str]) -> NecessaryConditions:
    """The conditions that top-level conjuncts of selectors set for GPUs of some types."""
    if not types or size_of(texts) > MOST_TEXT:
        return NecessaryConditions(types)
    found = [(read, values) for text in texts for read, values in _equalities(text)]
    products = [frozenset(value.replace(" ", "-") for value in values) for read, values in found if read == _PRODUCT]
    profiles = [values for read, values in found if read == _PROFILE]
    return NecessaryConditions(types, _common(products), _common(profiles))


def _equalities(text: str) -> Iterator[tuple[Read, frozenset[str]]]:
    """The attributes that a selector compares with texts, and the allowed values of each."""
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
