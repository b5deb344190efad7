"""MIG profiles: whether the GPUs of a configuration have them, and room for all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.configuration.config_maps.mig_parted.documents import MIG_FILE, MIGFile, are_skipped
from policies.configuration.config_maps.mig_parted.grammar import with_error
from policies.configuration.named_objects import the_nodes
from policies.decision import Severity
from policies.kubernetes.nodes import labels_of
from policies.nvidia.identifiers import COUNT_LABEL, MEMORY_LABEL, MIG_CAPABLE_LABEL, PRODUCT_LABEL
from policies.nvidia.mig import MIGProfile
from policies.nvidia.mig_layouts import excess
from policies.nvidia.mig_parted import apply_on_node
from policies.nvidia.mig_products import PRODUCTS, MIGProduct, gpu_count, is_capable, node_product

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from policies.checks import Problem
    from policies.kubernetes.objects import Object
    from policies.nvidia.mig_configs import Entry

__all__ = ["LIST_PROFILES", "NODE_FAILS", "Misfit", "node_misfits"]

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
    instead: str
    """The profile that was probably meant; empty if none or several are similar."""
    is_certain: bool
    """True if it holds under every version of the driver."""
    lacks: str = ""
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


def _misfits(entry: Entry, product: MIGProduct) -> Iterator[Misfit]:
    """The profiles of an entry that a GPU does not have, or has too little room for."""
    for name in entry.requested:
        profile = MIGProfile.parse(name)
        match = product.match(profile) if profile else None
        if match is None:
            text = f"is not a profile of {product.name} ({', '.join(_whole(product))})"
            yield Misfit(entry, name, text, _instead(profile, product) if profile else "", is_certain=True)
        elif not match.exact:
            text = f'is called "{match.profile}" on {product.name}; names differ by a little between drivers'
            yield Misfit(entry, name, text, str(match.profile), is_certain=False)
    if (shortage := _shortage(entry, product)) is not None:
        yield shortage


def _shortage(entry: Entry, product: MIGProduct) -> Misfit | None:
    """The misfit of an entry that one GPU has too little room for; None if it has room."""
    lacks = excess(product.geometries[0], entry.counts)
    text = f"needs {lacks} of {product.name}"
    return Misfit(entry, "", text, "", is_certain=True, lacks=lacks) if lacks else None


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
            yield from _misfits(by_index[index], product)
    if run.error is None or run.error.entry in run.ignored:
        return
    entry = by_index[run.error.entry]
    if run.error.lacks and product is not None:
        yield from _misfits(entry, product)
    elif is_divisible:
        text = with_error(f"has entries for GPU {run.error.gpu} that differ in mig-enabled", run.error.words)
        yield Misfit(entry, "", text, "", is_certain=gpu_count(labels) is not None, is_conflict=True)
    else:
        text = with_error(f"is for GPU {run.error.gpu}, which MIG cannot divide", run.error.words)
        yield Misfit(entry, "", text, "", is_certain=gpu_count(labels) is not None)


def _whole(product: MIGProduct) -> list[str]:
    """The profiles of a GPU without attributes."""
    return [name for name in product.profiles() if "+" not in name and not name.endswith("-me")]


def _instead(profile: MIGProfile, product: MIGProduct) -> str:
    """The profile with as many slices; empty if there are several."""
    same = [name for name in _whole(product) if name.startswith(f"{profile.gpu_slices}g.")]
    return same[0] if len(same) == 1 else ""


@MIG_FILE.rule(
    "GA151",
    "The GPUs must have the MIG profiles of a configuration, and room for all of them",
    default=Severity.DENY,
    remedy="write profiles that the GPU has",
    source="github.com/NVIDIA/go-nvlib pkg/nvlib/device/mig_profile.go; NVIDIA MIG user guide, supported profiles; "
    "github.com/NVIDIA/gpu-operator issues 603, 262, 351",
    rows=("H-06", "H-14"),
)
def possible_profiles(file: MIGFile) -> Iterator[Problem]:
    """For a profile that no GPU of the node has, mig-parted does not fail: it makes no devices.

    If the devices do not fit, it fails after the MIG manager has stopped the operator's pods on the node, which gets the
    state `failed`. Slices must suffice for memory as well as for compute: an instance of three compute slices takes four
    of the eight memory slices, so next to two of them nothing fits, although 3 + 3 + 1 is 7. A30 and RTX PRO 6000 have
    four slices. Sizes in names are rounded from what the driver reports, so a name that is a little off is only warned
    about.
    """
    using = file.nodes_by_config()
    for name, entries in file.configs.items():
        found: list[Problem] = []
        nodes = using.get(name, [])
        for entry in entries:
            if entry.is_mig_enabled and entry.filters:
                found += [_problem(file, misfit) for product in entry.products for misfit in _misfits(entry, product)]
            elif entry.is_mig_enabled and not are_skipped(nodes):
                found += _anywhere(file, entry)
        yield from found
        for misfits, alike in () if found else _by_misfits(entries, nodes):
            yield from (_problem(file, misfit, alike) for misfit in misfits)


def _problem(file: MIGFile, misfit: Misfit, nodes: Sequence[Object] = ()) -> Problem:
    where = f", on {the_nodes(nodes)} with this configuration" if nodes else ""
    consequence = f"; {misfit.consequence}" if misfit.consequence else ""
    severity = None if misfit.is_certain and not nodes else Severity.WARN
    entry = misfit.entry
    steps = (*entry.steps, "mig-devices", misfit.profile) if misfit.profile else (*entry.steps, "mig-devices")
    return file.problem(steps, f"{misfit.text}{where}{consequence}", _remedy(misfit), severity=severity, of_key=True)


def _remedy(misfit: Misfit) -> str:
    if not misfit.profile:
        return "lower the counts, or use smaller profiles" if misfit.lacks else "remove these GPUs from devices"
    if not misfit.is_certain:
        return LIST_PROFILES
    return f'write "{misfit.instead}"' if misfit.instead else "write one of these"


def _anywhere(file: MIGFile, entry: Entry) -> Iterator[Problem]:
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
    shortages = [_shortage(entry, product) for product in having]
    if shortages and shortages[0] is not None and all(shortages):
        yield _problem(file, shortages[0])


def _by_misfits(
    entries: Sequence[Entry], nodes: Iterable[Object]
) -> Iterator[tuple[tuple[Misfit, ...], Sequence[Object]]]:
    """The misfits of a configuration with the nodes that have them; each kind of GPUs is looked at once.

    Entries that contradict each other are left to the rule about those.
    """
    kinds: dict[tuple[str | None, ...], list[Object]] = {}
    for node in nodes:
        labels = labels_of(node)
        kinds.setdefault(tuple(labels.get(label) for label in _GPU_LABELS), []).append(node)
    for alike in kinds.values():
        misfits = tuple(each for each in node_misfits(entries, labels_of(alike[0])) if not each.is_conflict)
        if misfits:
            yield misfits, alike


_GPU_LABELS = (PRODUCT_LABEL, COUNT_LABEL, MEMORY_LABEL, MIG_CAPABLE_LABEL, "nvidia.com/vgpu.host-driver-version")
