"""Selection: configurations that nodes can select, and entries that GPUs get."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from policies.configuration.config_maps.mig_parted.documents import MIG_FILE, MIGFile, are_skipped
from policies.configuration.config_maps.mig_parted.grammar import with_error
from policies.decision import Severity
from policies.kubernetes.names import is_label_value
from policies.nvidia.mig_configs import CONFIGS, DEFAULT, DeviceID, Entry
from policies.nvidia.mig_products import product_named
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.checks import Problem


@MIG_FILE.rule(
    "GA153",
    "MIG configurations must have names that nodes can select, and include the default one",
    default=Severity.DENY,
    remedy=f"add {DEFAULT} with - devices: all and mig-enabled: false",
    source="github.com/NVIDIA/gpu-operator controllers/state_manager.go",
    rows=("H-04", "H-07"),
)
def selectable_names(file: MIGFile) -> Iterator[Problem]:
    """MIG-capable nodes without the label get `nvidia.com/mig.config: all-disabled`.

    Where a ConfigMap of one's own lacks that name, all these nodes go to `nvidia.com/mig.config.state: failed`. A name that cannot be the value of a label can never be selected.
    """
    for name in file.configs:
        if not is_label_value(name) or not name:
            text = "cannot be the value of the label nvidia.com/mig.config, so no node can select it"
            remedy = "name it with at most 63 letters, digits, dashes, underscores and dots"
            yield file.problem((CONFIGS, name), text, remedy, severity=Severity.WARN, of_key=True)
    if not file.configs or DEFAULT in file.configs:
        return
    change = file.change
    config = change.facts.policy_value("migManager", "config")
    used = isinstance(config, dict) and config.get("name") == change.name
    if used and config.get("default", DEFAULT) == "":
        return
    text = f"has no {DEFAULT}, which the operator labels nodes with unless migManager.config.default is empty"
    if change.facts.cluster_policy() is UNKNOWN:
        text += "; whether the ClusterPolicy names this ConfigMap is not known here"
    yield file.problem((CONFIGS,), text, severity=None if used else Severity.WARN, of_key=True)


_COMPARED = 64
"""How many entries of a configuration are compared with each other; there are not so many kinds of GPU."""


@MIG_FILE.rule(
    "GA152",
    "Each entry of a MIG configuration must be for some GPU and contradict no other entry",
    default=Severity.WARN,
    remedy="tell the GPUs apart by device-filter or devices",
    source="github.com/NVIDIA/mig-parted pkg/types/device.go, cmd/nvidia-mig-parted/apply/mode.go ApplyMigMode, config.go ApplyMigConfig",
    rows=("H-12", "H-13"),
)
def separate_entries(file: MIGFile) -> Iterator[Problem]:
    """A device-filter that is not valid silently matches no GPU: the GPUs stay as they are.

    Filters are PCI ids, the device before the vendor, and no names of models. Entries are applied in their order, so of
    two for the same GPU the later one counts. If they differ in `mig-enabled`, mig-parted fails, because it sets the
    modes of all GPUs before it makes devices.
    """
    for entry in file.entries():
        yield from _filters(file, entry)
        if entry.fields.get("devices") == []:
            text = "is empty, so the entry is for no GPU"
            yield file.problem((*entry.steps, "devices"), text, "write all, or the numbers of the GPUs")
        for number in sorted(entry.devices or ()):
            if number < 0:
                text = f"has {number}, which is the number of no GPU"
                yield file.problem((*entry.steps, "devices"), text, "count the GPUs of a node from 0")
    using = file.nodes_by_config()
    for name, entries in file.configs.items():
        if not are_skipped(using.get(name, [])):
            yield from _overlaps(file, name, entries)


def _filters(file: MIGFile, entry: Entry) -> Iterator[Problem]:
    told = entry.fields.get("device-filter")
    steps = (*entry.steps, "device-filter")
    for index, item in enumerate(told if isinstance(told, list) else [told]):
        if not isinstance(item, str) or ((device := DeviceID.parse(item)) and device.is_nvidia):
            continue
        where = (*steps, index) if isinstance(told, list) else steps
        text = f'is "{item}", which is not a PCI id of an NVIDIA GPU, so it matches none; mig-parted does not say so'
        yield file.problem(where, text, _instead(item))


def _instead(item: str) -> str:
    product = product_named(item)
    digits = item.strip().lower().removeprefix("0x")
    if product is not None:
        ids = ", ".join(f'"0x{device}10DE"' for device in product.devices)
        return f"write [{ids}]" if len(product.devices) > 1 else f"write {ids}"
    if len(digits) == 8 and set(digits) <= set("0123456789abcdef"):
        first, last = digits[:4].upper(), digits[4:].upper()
        return f'write "0x{last}10DE"' if first == "10DE" else f'write "0x{first}{last}"'
    if len(digits) == 4 and set(digits) <= set("0123456789abcdef"):
        return f'write "0x{digits.upper()}10DE"'
    return 'write a PCI id, the device before the vendor, such as "0x20B010DE"'


@dataclass(frozen=True, slots=True)
class _Reach:
    """The GPUs of an entry: products and numbers."""

    entry: Entry
    devices: set[int] | None
    ids: set[DeviceID]
    models: set[tuple[int, int]]
    """Device and vendor of all ids."""
    whole: set[tuple[int, int]]
    """Device and vendor of the ids without a board."""

    @classmethod
    def of(cls, entry: Entry) -> _Reach:
        ids = set(entry.device_ids)
        models = {(one.device, one.vendor) for one in ids}
        whole = {(one.device, one.vendor) for one in ids if one.subsystem is None}
        return cls(entry, entry.devices, ids, models, whole)

    def meets(self, other: _Reach) -> bool:
        """True if both have a GPU in common."""
        if self.devices is not None and other.devices is not None and not self.devices & other.devices:
            return False
        if not self.entry.filters or not other.entry.filters:
            return True
        return bool(self.ids & other.ids or self.whole & other.models or other.whole & self.models)

    def covers(self, other: _Reach) -> bool:
        """True if it has all GPUs of another reach."""
        if self.devices is not None and (other.devices is None or not other.devices <= self.devices):
            return False
        if not self.entry.filters:
            return True
        return bool(other.ids) and all(
            each in self.ids or (each.device, each.vendor) in self.whole for each in other.ids
        )


def _overlaps(file: MIGFile, name: str, entries: tuple[Entry, ...]) -> Iterator[Problem]:
    reaches = [_Reach.of(entry) for entry in entries[:_COMPARED]]
    told: set[int] = set()
    for first, second in combinations(reaches, 2):
        if told & {first.entry.index, second.entry.index} or not first.meets(second):
            continue
        both = f"is for GPUs that entry {first.entry.index} of {name} is for already"
        if first.entry.is_mig_enabled != second.entry.is_mig_enabled:
            # With the modes set there is nothing left to do, so mig-parted does not come to the first entry again.
            is_for_all = first.devices is None and not first.entry.filters
            if is_for_all and not first.entry.is_mig_enabled and second.entry.fields.get("mig-devices") == {}:
                continue
            enabled, disabled = "unable to apply MIG config with MIG mode disabled", _STILL_ENABLED
            words = enabled if first.entry.is_mig_enabled else disabled
            told.add(second.entry.index)
            yield file.problem(
                (CONFIGS, name, second.entry.index), with_error(f"{both}, with another mig-enabled", words)
            )
        elif first.entry.counts != second.entry.counts and second.covers(first):
            told.add(first.entry.index)
            text = (
                f"has no effect, because entry {second.entry.index} of {name} is for the same GPUs and applied after it"
            )
            yield file.problem((CONFIGS, name, first.entry.index), text, "remove it, or move it to the end")


_STILL_ENABLED = "MIG mode is currently enabled, but the configuration specifies it should be disabled"
