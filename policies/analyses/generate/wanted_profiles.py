"""Wanted MIG devices: `1g.10gb=3,3g.40gb=1`, and the product that is meant by their names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.analyses.generate.documents import GenerationError
from policies.kubernetes.phrases import format_list, shown
from policies.nvidia.identifiers import VENDOR_PREFIX
from policies.nvidia.mig import Geometry, MIGProfile
from policies.nvidia.mig_products import PRODUCTS, MIGProduct, product_named

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from policies.nvidia.known_products import ProductChoice

__all__ = [
    "WantedDevices",
    "check_profile",
    "counts_text",
    "divisible_product",
    "ordered_counts",
    "read_profile",
    "read_wanted",
    "wanted_devices",
]

_ITEM = re.compile(r"\s*([^=\s]+)\s*=\s*([0-9]{1,6})\s*", re.ASCII)
_EXAMPLE = 'write a list such as "1g.10gb=3,3g.40gb=1"'
_MOST = 7 * 16
"""More of one profile than any node has."""


@dataclass(frozen=True, slots=True)
class WantedDevices:
    """MIG devices of one product, by the names that its driver gives them."""

    geometry: Geometry
    counts: dict[MIGProfile, int]
    renamed: dict[MIGProfile, MIGProfile]
    """Names of another driver, with the name of this GPU."""


def read_wanted(text: str, option: str = "--want") -> dict[MIGProfile, int]:
    """Read `1g.10gb=3,3g.40gb=1`, also with the names of resources.

    Raises:
        GenerationError: It is no such list.
    """
    counts: dict[MIGProfile, int] = {}
    for item in text.split(","):
        match = _ITEM.fullmatch(item)
        if match is None:
            raise GenerationError(option, f"has {shown(item.strip())}, which is not PROFILE=COUNT; {_EXAMPLE}")
        profile, count = read_profile(match.group(1), option), int(match.group(2))
        if profile in counts:
            raise GenerationError(option, f"has {profile} twice; write it once, with the sum")
        if not 1 <= count <= _MOST:
            raise GenerationError(option, f"has {count} of {profile}; write a number from 1 to {_MOST}")
        counts[profile] = count
    return counts


def read_profile(text: str, option: str) -> MIGProfile:
    """Read a profile as mig-parted or as a resource spells it.

    Raises:
        GenerationError: It is no profile, or one of compute instances that share a GPU instance.
    """
    bare = text.strip().lower().removeprefix(VENDOR_PREFIX).removeprefix("mig-")
    profile = MIGProfile.parse(bare) or MIGProfile.from_label(bare)
    if profile is None:
        raise GenerationError(option, f'has {shown(text)}, which is not a MIG profile; write one such as "1g.10gb"')
    if profile.shares_gpu_instance:
        whole = MIGProfile(profile.gpu_slices, profile.memory_gb, profile.attributes)
        raise GenerationError(option, f'has {profile}, which is a part of a GPU instance; write "{whole}"')
    return profile


def check_profile(profile: MIGProfile, labels: Iterable[str], option: str) -> None:
    """Refuse a profile that none of some products has.

    Raises:
        GenerationError: None of them has it, by this name or one of another driver.
    """
    found = list(dict.fromkeys(product for label in labels if (product := product_named(label))))
    if any(product.match(profile) for product in found):
        return
    has = _profiles_text(found)
    raise GenerationError(option, f"has {profile}, which none of these GPUs has{has and f': {has}'}")


def _profiles_text(products: Iterable[MIGProduct]) -> str:
    return "; ".join(f"{product.name} has {', '.join(product.profiles())}" for product in products)


def divisible_product(choice: ProductChoice, counts: Mapping[MIGProfile, int]) -> tuple[MIGProduct, tuple[str, ...]]:
    """The product that is meant, with the labels of its GPUs: the one that has all the wanted profiles.

    Raises:
        GenerationError: MIG divides none of the products, or several are possible.
    """
    labels: dict[str, list[str]] = {}
    for label in choice.labels:
        if product := product_named(label):
            labels.setdefault(product.name, []).append(label)
    found = [product for product in PRODUCTS if product.name in labels]
    if not found:
        can = ", ".join(product.name for product in PRODUCTS)
        raise GenerationError(
            "--product", f"is {format_list(choice.labels)}, which MIG does not divide; it divides {can}"
        )
    if len(found) > 1:
        found = _products_with(found, counts)
    if len(found) > 1:
        which = " or ".join(f"{product.name} ({labels[product.name][0]})" for product in found)
        raise GenerationError("--product", f"can be {which}; write one of the names in brackets")
    return found[0], tuple(labels[found[0].name])


def _products_with(found: list[MIGProduct], counts: Mapping[MIGProfile, int]) -> list[MIGProduct]:
    """The products that have all profiles by these names, or else by names of another driver.

    Raises:
        GenerationError: No product has all of them.
    """
    exact = [product for product in found if all((m := product.match(each)) and m.exact for each in counts)]
    similar = exact or [product for product in found if all(product.match(each) for each in counts)]
    if not similar:
        wanted = format_list([str(each) for each in counts])
        raise GenerationError("--want", f"has {wanted}, which no single one of these GPUs has: {_profiles_text(found)}")
    return similar


def wanted_devices(product: MIGProduct, counts: Mapping[MIGProfile, int]) -> WantedDevices:
    """The wanted devices by the names of a product, under the driver that has most of these names.

    Raises:
        GenerationError: The product does not have a profile.
    """
    geometries = [Geometry(memory, product.layout) for memory in product.memory]
    geometry = max(geometries, key=lambda each: sum((m := each.match(one)) is not None and m.exact for one in counts))
    named: dict[MIGProfile, int] = {}
    renamed: dict[MIGProfile, MIGProfile] = {}
    for profile, count in counts.items():
        match = geometry.match(profile)
        if match is None:
            has = ", ".join(str(each.profile) for each in geometry.matches)
            raise GenerationError("--want", f"has {profile}, which {product.name} does not have; its profiles: {has}")
        if match.profile != profile:
            renamed[profile] = match.profile
        named[match.profile] = named.get(match.profile, 0) + count
    return WantedDevices(geometry, named, renamed)


def ordered_counts(counts: Mapping[MIGProfile, int]) -> list[tuple[MIGProfile, int]]:
    """Devices with the large ones first."""
    return sorted(counts.items(), key=lambda item: (-item[0].gpu_slices, -item[0].memory_gb, item[0].attributes))


def counts_text(counts: Mapping[MIGProfile, int]) -> str:
    """Devices as `--want` has them: `3g.40gb=1,1g.10gb=3`."""
    return ",".join(f"{profile}={count}" for profile, count in ordered_counts(counts))
