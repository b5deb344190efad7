"""MIG configurations: the file of a mig-parted ConfigMap, and those that the GPU Operator ships."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.kubernetes.objects import lookup
from policies.kubernetes.yaml import Limits, YAMLError, first_document
from policies.nvidia.mig import MIGProfile
from policies.nvidia.mig_products import PRODUCTS, MIGProduct, product_of_device

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from policies.kubernetes.objects import Object


FILE = "config.yaml"
"""The key of the ConfigMap: the MIG manager reads /mig-parted-config/config.yaml."""
CONFIGS = "mig-configs"
DEFAULT = "all-disabled"
"""The configuration that the operator labels nodes with, unless `migManager.config.default` is empty."""
WHOLE = ("", DEFAULT)
"""Values of the node label `nvidia.com/mig.config` that do not cut GPUs."""
LIMITS = Limits(size=1024 * 1024, depth=20, nodes=10_000)
"""A ConfigMap holds at most a mebibyte; the file that NVIDIA ships has two thousand values."""

Configs = dict[str, tuple["Entry", ...]]
"""Configurations by name, each of them entries for the GPUs of a node."""

_NUMBER = re.compile(r"0[xX][0-9a-fA-F_]+|0[oObB]?[0-7_]*|[1-9][0-9_]*")
_NVIDIA = 0x10DE


class DeviceID(NamedTuple):
    """An item of `device-filter`: a PCI device, and its board if there is a second number."""

    device: int
    vendor: int
    subsystem: int | None

    @classmethod
    def parse(cls, text: str) -> DeviceID | None:
        """Read `0x20B010DE` or `0x20B010DE:0x134F10DE`: device, then vendor; None if it is not valid.

        Source: github.com/NVIDIA/mig-parted pkg/types/device.go NewDeviceIDFromString.
        """
        numbers = [_number(part) for part in text.split(":")]
        if not 1 <= len(numbers) <= 2 or numbers[0] is None or numbers[-1] is None:
            return None
        return cls(numbers[0] >> 16, numbers[0] & 0xFFFF, numbers[1] if len(numbers) == 2 else None)

    @property
    def is_nvidia(self) -> bool:
        """True if the vendor is NVIDIA."""
        return self.vendor == _NVIDIA

    @property
    def product(self) -> MIGProduct | None:
        """The product with this id; None if it is unknown."""
        return product_of_device(f"{self.device:04X}") if self.is_nvidia else None


def _number(text: str) -> int | None:
    """A number as Go's strconv.ParseUint reads it with base 0 and 32 bits."""
    if not _NUMBER.fullmatch(text):
        return None
    try:
        number = int(text, 8 if re.fullmatch(r"0[0-7]+", text) else 0)
    except ValueError:
        return None
    return number if number < 2**32 else None


@dataclass(frozen=True, slots=True)
class Entry:
    """One item of a configuration: how some GPUs of a node are divided."""

    config: str
    index: int
    fields: Mapping[str, Any]

    @property
    def steps(self) -> tuple[str | int, ...]:
        """The steps of its path in the file."""
        return (CONFIGS, self.config, self.index)

    @property
    def is_mig_enabled(self) -> bool:
        """True if `mig-enabled` is true."""
        return self.fields.get("mig-enabled") is True

    @property
    def filters(self) -> list[str]:
        """The items of `device-filter`; empty if the entry is for every GPU.

        An empty item of a list matches no GPU.
        """
        value = self.fields.get("device-filter")
        if isinstance(value, list):
            return ["" if item is None else item for item in value if item is None or isinstance(item, str)]
        return [value] if isinstance(value, str) and value else []

    @property
    def device_ids(self) -> list[DeviceID]:
        """The items of `device-filter` that can be read."""
        return [device for item in self.filters if (device := DeviceID.parse(item))]

    @property
    def products(self) -> list[MIGProduct]:
        """The known products that `device-filter` names, each once."""
        found = [product for device in self.device_ids if (product := device.product)]
        return list({product.name: product for product in found}.values())

    @property
    def devices(self) -> set[int] | None:
        """The numbers of the GPUs in `devices`, where an empty one is 0; None for all."""
        value = self.fields.get("devices")
        if not isinstance(value, list):
            return None
        return {int(item or 0) for item in value if item is None or is_count(item)}

    @property
    def requested(self) -> dict[str, int]:
        """The number of devices by profile, as the entry spells it.

        Invalid numbers are left out, and an empty one is 0.
        """
        value = self.fields.get("mig-devices")
        items = value.items() if isinstance(value, dict) else ()
        return {name: int(count or 0) for name, count in items if count is None or is_count(count)}

    @property
    def counts(self) -> dict[MIGProfile, int]:
        """The number of devices of each profile; invalid profiles and numbers are left out."""
        found: dict[MIGProfile, int] = {}
        for name, count in self.requested.items():
            if (profile := MIGProfile.parse(name)) and count > 0:
                found[profile] = found.get(profile, 0) + count
        return found

    def gpu_numbers(self, ids: Sequence[Collection[str]]) -> list[int]:
        """The numbers of the GPUs of a node that the entry is for.

        Args:
            ids: The PCI device ids that each GPU may have. Its board is not known, so `device-filter` may name any.

        Source: github.com/NVIDIA/mig-parted api/spec/v1/helpers.go.
        """
        devices = self.devices
        numbers = [number for number in range(len(ids)) if devices is None or number in devices]
        if not self.filters:
            return numbers
        wanted = {f"{each.device:04X}" for each in self.device_ids if each.is_nvidia}
        return [number for number in numbers if not wanted.isdisjoint(ids[number])]

    def is_for_number(self, number: int) -> bool:
        """True if `devices` has a GPU; `device-filter` may still be for others."""
        return self.devices is None or number in self.devices

    def is_for(self, product: MIGProduct) -> bool:
        """True if the entry is for GPUs of a product."""
        return not self.filters or any(named.name == product.name for named in self.products)


def is_count(value: Any) -> bool:
    """True if Go reads a JSON number as an int: 7 and 7.0, not 7.5."""
    is_whole = (isinstance(value, int) and not isinstance(value, bool)) or (
        isinstance(value, float) and value.is_integer()
    )
    return is_whole and -(2**63) <= value < 2**63


def configs_in(document: Any) -> Configs:
    """The configurations of a file, without those of a wrong shape."""
    configs = lookup(document, (CONFIGS,))
    return {
        name: tuple(Entry(name, index, item) for index, item in enumerate(items) if isinstance(item, dict))
        for name, items in (configs.items() if isinstance(configs, dict) else ())
        if isinstance(items, list)
    }


def file_of(config_map: Object) -> str | None:
    """The text of the file that mig-parted reads; None if the ConfigMap does not have it."""
    text = lookup(config_map, ("data", FILE))
    return text if isinstance(text, str) else None


def configs_of(config_map: Object) -> Configs | None:
    """The configurations of a ConfigMap; None if its file is missing or cannot be read."""
    text = file_of(config_map)
    return None if text is None else _read(text)


@lru_cache(maxsize=8)
def _read(text: str) -> Configs | None:
    """The configurations in a text; cached, because each ClusterPolicy and each node reads it."""
    try:
        return configs_in(first_document(text, limits=LIMITS).value) or None
    except YAMLError:
        return None


_BALANCED = {"1g": 2, "2g": 1, "3g": 1}
"""The devices that `all-balanced` makes on a GPU; GPUs with four slices have no profile of three."""


def shipped_entries(name: str, product: MIGProduct | None) -> tuple[Entry, ...]:
    """The entries of a configuration that the operator ships; empty if it divides no GPU.

    Args:
        name: The name of the configuration.
        product: The GPUs that it is for; None if they are unknown.

    Source: github.com/NVIDIA/mig-parted deployments/systemd/config-default.yaml, pkg/mig/builder.
    """
    kind = name.removeprefix("all-")
    counts: dict[str, int] = {}
    if kind == "balanced":
        smallest: dict[str, str] = {}
        for each in (product or PRODUCTS[0]).profiles():
            smallest.setdefault(each.partition(".")[0], each)
        counts = {smallest[size]: count for size, count in _BALANCED.items() if size in smallest}
    elif kind != "enabled":
        profile = MIGProfile.from_label(kind)
        if profile is None:
            return ()
        match = product.match(profile) if product is not None else None
        counts = {str(profile): match.most if match is not None else 1}
    return (Entry(name, 0, {"devices": "all", "mig-enabled": True, "mig-devices": counts}),)
