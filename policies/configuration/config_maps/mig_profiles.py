"""MIG profiles that the GPUs of a configuration lack or have no room for."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from policies.configuration.change import CONFIG_MAP
from policies.configuration.cluster_facts import OTHER_STRATEGY, SelectableConfigs, the_nodes
from policies.configuration.config_maps.mig_documents import MIGFile, are_skipped, with_error
from policies.fleet.device_plugin import runs_device_plugin
from policies.fleet.offers.hardware import gpu_labels
from policies.kubernetes.names import is_label_value
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.identifiers import COUNT_LABEL, MEMORY_LABEL, MIG_CAPABLE_LABEL, PRODUCT_LABEL
from policies.nvidia.mig import MIGProfile
from policies.nvidia.mig_configs import CONFIGS, DEFAULT, DeviceID, Entry, configs_of
from policies.nvidia.mig_layouts import excess
from policies.nvidia.mig_parted import apply_on_node, entry_errors
from policies.nvidia.mig_products import (
    PRODUCTS,
    MIGProduct,
    gpu_count,
    is_capable,
    is_lacking,
    node_product,
    product_named,
)
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from policies.kubernetes.objects import Object
    from policies.rules.checks import Problem


LIST_PROFILES = 'compare with what "nvidia-smi mig -lgip" lists on the node'
NODE_FAILS = "nvidia.com/mig.config.state would become failed"


@dataclass(frozen=True, slots=True)
class Misfit:
    """A shortage of GPUs for an entry of a configuration."""

    entry: Entry
    profile: str
    """As the entry spells it; empty where all profiles together are too much."""
    text: str
    """A sentence's end: `is not a profile of A30 (1g.6gb, 2g.12gb, 4g.24gb)`."""
    similar_profile: str
    """The profile that was probably meant; empty if none or several are similar."""
    is_certain: bool
    """True if it holds under every version of the driver."""
    shortage: str = ""
    """The shortage of the GPU: `9 of 8 memory slices`; empty if it has room."""
    is_conflict: bool = False
    """True if another entry is the reason, and not the GPUs."""

    @property
    def consequence(self) -> str:
        """The consequence for the GPUs, as a clause.

        mig-parted does not fail for a profile that it does not know.
        """
        if self.profile:
            return "the GPUs would have MIG enabled and no MIG devices" if self.is_certain else ""
        return NODE_FAILS


def _misfits(entry: Entry, product: MIGProduct, labels: Mapping[str, str] | None = None) -> Iterator[Misfit]:
    """The profiles of an entry that a GPU does not have, or has too little room for.

    Args:
        entry: The entry.
        product: The GPU.
        labels: Of the node that the GPU is in, if it is known.
    """
    for name in entry.requested:
        profile = MIGProfile.parse(name)
        match = product.match(profile) if profile else None
        if match is None:
            text = f"is not a profile of {product.name} ({', '.join(_plain_profiles(product))})"
            yield Misfit(entry, name, text, _similar_profile(profile, product) if profile else "", is_certain=True)
        elif not match.exact:
            text, is_certain = f'is called "{match.profile}" on {product.name}', is_lacking(name, labels or {})
            text += "" if is_certain else "; names differ by a little between drivers"
            yield Misfit(entry, name, text, str(match.profile), is_certain)
    if (misfit := _shortage_misfit(entry, product)) is not None:
        yield misfit


def _shortage_misfit(entry: Entry, product: MIGProduct) -> Misfit | None:
    """The misfit of an entry that one GPU has too little room for; None if it has room."""
    shortage = excess(product.geometries[0], entry.counts)
    text = f"needs {shortage} of {product.name}"
    return Misfit(entry, "", text, "", is_certain=True, shortage=shortage) if shortage else None


def node_misfits(entries: Sequence[Entry], labels: Mapping[str, str]) -> Iterator[Misfit]:
    """The entries of a configuration that mig-parted does not apply to the GPUs of a node as they say.

    Nothing where the GPUs are unknown.
    """
    product, is_divisible = node_product(labels), is_capable(labels) is not False
    if product is None and is_divisible:
        return
    run = apply_on_node(entries, labels)
    by_index = {entry.index: entry for entry in entries}
    for index in run.ignored:
        if product is not None:
            yield from _misfits(by_index[index], product, labels)
    if run.error is None or run.error.entry in run.ignored:
        return
    entry = by_index[run.error.entry]
    if run.error.shortage and product is not None:
        yield from _misfits(entry, product, labels)
    elif is_divisible:
        text = with_error(f"has entries for GPU {run.error.gpu} that differ in mig-enabled", run.error.words)
        yield Misfit(entry, "", text, "", is_certain=gpu_count(labels) is not None, is_conflict=True)
    else:
        text = with_error(f"is for GPU {run.error.gpu}, which MIG cannot divide", run.error.words)
        yield Misfit(entry, "", text, "", is_certain=gpu_count(labels) is not None)


def _plain_profiles(product: MIGProduct) -> list[str]:
    """The profiles of a GPU without attributes."""
    return [name for name in product.profiles() if "+" not in name and not name.endswith("-me")]


def _similar_profile(profile: MIGProfile, product: MIGProduct) -> str:
    """The only profile with as many compute slices; empty if there is none or several."""
    same = [name for name in _plain_profiles(product) if name.startswith(f"{profile.gpu_slices}g.")]
    return same[0] if len(same) == 1 else ""


@CONFIG_MAP.rule(
    "GA151",
    "A MIG configuration must be possible on its GPUs and served by the device plugin",
    remedy="write profiles that the GPU has",
    source="github.com/NVIDIA/mig-parted pkg/mig/config/config.go SetMigConfig, pkg/types/mig_config.go Flatten; "
    "github.com/NVIDIA/k8s-device-plugin internal/rm/device_map.go assertAllMigDevicesAreValid, buildMigDeviceMap; "
    "NVIDIA MIG user guide, supported profiles; github.com/NVIDIA/gpu-operator issues 603, 262, 351",
    runs="mig-parted",
    rows=("H-02", "H-06", "H-14"),
)
def possible_profiles(file: MIGFile) -> Iterator[Problem]:
    """mig-parted does not fail at a profile that no GPU of the node has: it makes no device of that entry.

    If the devices do not fit, it fails after the MIG manager has stopped the operator's pods on the node, which gets the
    state `failed`. Slices must suffice for memory as well as for compute: an instance of three compute slices takes four
    of the eight memory slices, so next to two of them nothing fits, although 3 + 3 + 1 is 7. A30 and RTX PRO 6000 have
    four slices. Sizes in names are rounded from what the driver reports, so a name that is a little off is only warned
    about where no node shows its memory.

    A configuration that nodes select is refused if the device plugin exits there: under `mig.strategy` "single" at GPUs
    without MIG devices or with several kinds of them, under "mixed" at compute instances that share a GPU instance.
    """
    using, before = file.nodes_by_config(), configs_of(file.change.old or {}) or {}
    for name, entries in file.configs.items():
        nodes = using.get(name, [])
        found: list[tuple[Entry, Problem]] = []
        broken = {entry.index for entry in entries if any(entry_errors(entry.fields))}
        for entry in entries:
            if entry.index in broken:
                continue  # GA150 reports it
            if entry.is_mig_enabled and entry.filters:
                misfits = [misfit for product in entry.products for misfit in _misfits(entry, product)]
                found += [(entry, _problem(file, misfit)) for misfit in misfits]
            elif entry.is_mig_enabled and not are_skipped(nodes):
                found += [(entry, each) for each in _on_known_gpus(file, entry)]
        reported: set[int] = set()
        if not broken and all(each.severity is Severity.WARN for _, each in found):
            for index, each in _on_nodes(file, name, nodes, is_kept=before.get(name) == entries):
                reported.add(index)
                yield each
        yield from (each for entry, each in found if entry.index not in reported)


def _on_nodes(file: MIGFile, name: str, nodes: Sequence[Object], *, is_kept: bool) -> Iterator[tuple[int, Problem]]:
    """The problems of a configuration on its nodes, each with the index of the entry.

    Each kind of GPUs is looked at once. Entries that contradict each other are left to the rule about those.
    """
    entries, facts = file.configs[name], file.change.facts
    selectable = SelectableConfigs(file.configs, frozenset(file.configs), file.change.name)
    strategy = facts.policy_value("mig", "strategy")
    kinds: dict[tuple[str | bool | None, ...], list[Object]] = {}
    for node in nodes:
        labels = gpu_labels(node)
        key = *(labels.get(label) for label in _GPU_LABELS), runs_device_plugin(node, facts.view)
        kinds.setdefault(key, []).append(node)
    for (*_, has_plugin), alike in kinds.items():
        labels = gpu_labels(alike[0])
        is_served = has_plugin and strategy in ("single", "mixed")
        refusal = selectable.plugin_refusal(name, labels, strategy) if is_served else None
        severity = None if refusal and refusal.is_certain and not is_kept else Severity.WARN
        misfits = list(node_misfits(entries, labels))
        for misfit in misfits:
            if not misfit.is_conflict:
                yield misfit.entry.index, _problem(file, misfit, alike, severity)
        if refusal and not misfits:
            entry = next(each for each in entries if each.is_mig_enabled)
            where = f'mig.strategy "{strategy}" on {the_nodes(alike)}'
            text = f"does not go with {where} with this configuration: it {refusal.text}"
            yield (
                entry.index,
                file.problem((CONFIGS, name), text, OTHER_STRATEGY[strategy], severity=severity, of_key=True),
            )


_GPU_LABELS = (PRODUCT_LABEL, COUNT_LABEL, MEMORY_LABEL, MIG_CAPABLE_LABEL, "nvidia.com/vgpu.host-driver-version")


def _problem(file: MIGFile, misfit: Misfit, nodes: Sequence[Object] = (), severity: Severity | None = None) -> Problem:
    where = f", on {the_nodes(nodes)} with this configuration" if nodes else ""
    consequence = f"; {misfit.consequence}" if misfit.consequence else ""
    if not misfit.is_certain:
        severity = Severity.WARN
    entry = misfit.entry
    steps = (*entry.steps, "mig-devices", misfit.profile) if misfit.profile else (*entry.steps, "mig-devices")
    if not misfit.profile:
        remedy = "lower the counts, or use smaller profiles" if misfit.shortage else "remove these GPUs from devices"
    elif misfit.is_certain:
        remedy = f'write "{misfit.similar_profile}"' if misfit.similar_profile else "write one of these"
    else:
        remedy = LIST_PROFILES
    return file.problem(steps, f"{misfit.text}{where}{consequence}", remedy, severity=severity, of_key=True)


def _on_known_gpus(file: MIGFile, entry: Entry) -> Iterator[Problem]:
    """Problems on every known GPU: no GPU has these profiles, or not all of them, or too few."""
    devices, known = (*entry.steps, "mig-devices"), []
    for name in entry.requested:
        profile = MIGProfile.parse(name)
        matches = [match for product in PRODUCTS if profile and (match := product.match(profile))]
        if profile is None or not matches:
            text = "is not a profile of a GPU that is known here"
            yield file.problem((*devices, name), text, LIST_PROFILES, severity=Severity.WARN, of_key=True)
            continue
        known.append(profile)
        if not any(match.exact for match in matches):
            text = f'is called "{matches[0].profile}" by most drivers; names differ by a little between them'
            yield file.problem((*devices, name), text, LIST_PROFILES, severity=Severity.WARN, of_key=True)
    having = [product for product in PRODUCTS if known and all(product.match(profile) for profile in known)]
    if known and not having:
        text = f"has {', '.join(map(str, known))}, which no single GPU known here has together"
        remedy = "write an entry with a device-filter for each kind of GPU"
        yield file.problem(devices, text, remedy, severity=Severity.WARN, of_key=True)
        return
    shortages = [_shortage_misfit(entry, product) for product in having]
    if shortages and shortages[0] is not None and all(shortages):
        yield _problem(file, shortages[0])


@CONFIG_MAP.rule(
    "GA153",
    "MIG configurations must have names that nodes can select, and include the default one",
    remedy=f"add {DEFAULT} with - devices: all and mig-enabled: false",
    source="github.com/NVIDIA/gpu-operator controllers/nodelabeling_controller.go updateGPUStateLabels, "
    "api/nvidia/v1/clusterpolicy_types.go MIGPartedConfigSpec",
    rows=("H-04", "H-07"),
)
def selectable_names(file: MIGFile) -> Iterator[Problem]:
    """MIG-capable nodes without the label get `nvidia.com/mig.config: all-disabled`.

    Where a ConfigMap of one's own lacks that name, all these nodes go to `nvidia.com/mig.config.state: failed`. A name that
    cannot be the value of a label can never be selected.
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
    is_managed = change.facts.deploys("migManager")
    is_certain = used and is_managed and change.facts.applies_default_layout()
    yield file.problem((CONFIGS,), text, severity=None if is_certain else Severity.WARN, of_key=True)


_MOST_COMPARED = 64
"""The most entries of a configuration that are compared with each other; there are fewer kinds of GPU."""


@CONFIG_MAP.rule(
    "GA152",
    "Each entry of a MIG configuration must be for some GPU and contradict no other entry",
    default=Severity.WARN,
    remedy="tell the GPUs apart by device-filter or devices",
    source="github.com/NVIDIA/mig-parted pkg/types/device.go NewDeviceIDFromString, "
    "cmd/nvidia-mig-parted/apply/mode.go ApplyMigMode, cmd/nvidia-mig-parted/apply/config.go "
    "ApplyMigConfig",
    runs="mig-parted",
    rows=("H-12", "H-13"),
)
def separate_entries(file: MIGFile) -> Iterator[Problem]:
    """A device-filter that is not valid silently matches no GPU: the GPUs stay as they are.

    Filters are PCI ids, the device before the vendor, and no names of models. Entries are applied in their order, so of
    two for the same GPU the later one counts. If they differ in `mig-enabled`, mig-parted fails, because it sets the
    modes of all GPUs before it makes devices.
    """
    for entry in file.entries():
        yield from _filter_problems(file, entry)
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


def _filter_problems(file: MIGFile, entry: Entry) -> Iterator[Problem]:
    """The problems of a device-filter that matches no GPU."""
    written, steps = entry.fields.get("device-filter"), (*entry.steps, "device-filter")
    for index, item in enumerate(written if isinstance(written, list) else [written]):
        if not isinstance(item, str) or ((device := DeviceID.parse(item)) and device.is_nvidia):
            continue
        where = (*steps, index) if isinstance(written, list) else steps
        text = f'is "{item}", which is not a PCI id of an NVIDIA GPU, so it matches none; mig-parted does not say so'
        yield file.problem(where, text, _filter_remedy(item))


def _filter_remedy(item: str) -> str:
    """The remedy for a device-filter that is no PCI id: the id that was probably meant."""
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
    """The problems of entries that a later entry for the same GPUs contradicts or replaces."""
    reaches = [_Reach.of(entry) for entry in entries[:_MOST_COMPARED]]
    reported: set[int] = set()
    for first, second in combinations(reaches, 2):
        if reported & {first.entry.index, second.entry.index} or not first.meets(second):
            continue
        both = f"is for GPUs that entry {first.entry.index} of {name} is for already"
        if first.entry.is_mig_enabled != second.entry.is_mig_enabled:
            # With the modes set there is nothing left to do, so mig-parted does not come to the first entry again.
            is_for_all = first.devices is None and not first.entry.filters
            if is_for_all and not first.entry.is_mig_enabled and second.entry.fields.get("mig-devices") == {}:
                continue
            enabled, disabled = "unable to apply MIG config with MIG mode disabled", _STILL_ENABLED
            words = enabled if first.entry.is_mig_enabled else disabled
            reported.add(second.entry.index)
            yield file.problem(
                (CONFIGS, name, second.entry.index), with_error(f"{both}, with another mig-enabled", words)
            )
        elif first.entry.counts != second.entry.counts and second.covers(first):
            reported.add(first.entry.index)
            text = (
                f"has no effect, because entry {second.entry.index} of {name} is for the same GPUs and applied after it"
            )
            yield file.problem((CONFIGS, name, first.entry.index), text, "remove it, or move it to the end")


_STILL_ENABLED = "MIG mode is currently enabled, but the configuration specifies it should be disabled"
