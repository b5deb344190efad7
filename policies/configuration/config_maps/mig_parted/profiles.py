"""MIG profiles: whether the GPUs of a configuration have them, and room for all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.configuration.config_maps.mig_parted.documents import MIG_FILE, MIGFile
from policies.configuration.named_objects import the_nodes
from policies.decision import Severity
from policies.kubernetes.nodes import labels_of
from policies.nvidia.identifiers import MIG_CONFIG_LABEL
from policies.nvidia.mig_products import PRODUCTS, MIGProduct, node_product

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from policies.checks import Problem
    from policies.configuration.change import Change
    from policies.kubernetes.objects import Object
    from policies.nvidia.mig import MIGProfile
    from policies.nvidia.mig_configs import Entry

__all__ = ["LIST_PROFILES", "Misfit", "misfits"]

LIST_PROFILES = 'compare with what "nvidia-smi mig -lgip" lists on the node'


@dataclass(frozen=True, slots=True)
class Misfit:
    """A profile that a GPU does not have, or has too little room for."""

    profile: MIGProfile | None
    """None where all profiles together are too much."""
    text: str
    """A sentence's end: `is not a profile of A30 (1g.6gb, 2g.12gb, 4g.24gb)`."""
    instead: str
    """The profile that was probably meant; empty if none or several are similar."""
    certain: bool
    """True if it holds under every version of the driver."""


def misfits(counts: Mapping[MIGProfile, int], product: MIGProduct) -> Iterator[Misfit]:
    """The profiles of an entry that a GPU does not have, or has too little room for."""
    for profile in counts:
        match = product.match(profile)
        if match is None:
            text = f"is not a profile of {product.name} ({', '.join(_whole(product))})"
            yield Misfit(profile, text, _instead(profile, product), certain=True)
        elif not match.exact:
            text = f'is called "{match.profile}" on {product.name}; names differ by a little between drivers'
            yield Misfit(profile, text, str(match.profile), certain=False)
    excess = product.excess(counts)
    if excess:
        yield Misfit(None, f"needs {excess} of {product.name}", "", certain=True)


def _whole(product: MIGProduct) -> list[str]:
    """The profiles of a GPU without attributes."""
    return [name for name in product.profiles() if "+" not in name and not name.endswith("-me")]


def _instead(profile: MIGProfile, product: MIGProduct) -> str:
    """The profile with as many slices; empty if there are several."""
    same = [name for name in _whole(product) if name.startswith(f"{profile.gpu_slices}g.")]
    return same[0] if len(same) == 1 else ""


_NOT_HERE = "so nvidia.com/mig.config.state would become failed"


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
    """The MIG manager stops the operator's pods on the node, fails, and labels the node `failed`.

    Slices must suffice for memory as well as for compute: an instance of three compute slices takes four of the eight
    memory slices, so next to two of them nothing fits, although 3 + 3 + 1 is 7. A30 and RTX PRO 6000 have four slices.
    Sizes in names are rounded from what the driver reports, so a name that is a little off is only warned about.
    """
    using = _nodes_using(file.change)
    for entry in file.entries():
        if not entry.is_mig_enabled:
            continue
        if entry.filters:
            for product in entry.products:
                yield from _on_product(file, entry, product)
        elif found := list(_anywhere(file, entry)):
            yield from found
        else:
            for product, nodes in _by_product(using.get(entry.config, ())).items():
                yield from _on_product(file, entry, product, nodes)


def _on_product(
    file: MIGFile, entry: Entry, product: MIGProduct, nodes: list[Object] | None = None
) -> Iterator[Problem]:
    spellings, devices = entry.spellings, (*entry.steps, "mig-devices")
    for misfit in misfits(entry.counts, product):
        where = f", the GPU of {the_nodes(nodes)} with this configuration" if nodes else ""
        consequence = f"{where}, {_NOT_HERE}" if misfit.certain else where
        severity = None if misfit.certain and not nodes else Severity.WARN
        text = f"{misfit.text}{consequence}"
        steps = (*devices, spellings[misfit.profile]) if misfit.profile else devices
        yield file.problem(steps, text, _remedy(misfit), severity=severity, of_key=True)


def _remedy(misfit: Misfit) -> str:
    if not misfit.certain:
        return LIST_PROFILES
    if misfit.profile is None:
        return "lower the counts, or use smaller profiles"
    return f'write "{misfit.instead}"' if misfit.instead else "write one of these"


def _anywhere(file: MIGFile, entry: Entry) -> Iterator[Problem]:
    """Problems on every known GPU: no GPU has these profiles, or not all of them, or too few."""
    counts, spellings, devices = entry.counts, entry.spellings, (*entry.steps, "mig-devices")
    for profile in counts:
        matches = [match for product in PRODUCTS if (match := product.match(profile))]
        if not matches:
            text = "is not a profile of a GPU that is known here"
            yield file.problem((*devices, spellings[profile]), text, LIST_PROFILES, severity=Severity.WARN, of_key=True)
        elif not any(match.exact for match in matches):
            text = f'is called "{matches[0].profile}" by most drivers; names differ by a little between them'
            yield file.problem((*devices, spellings[profile]), text, LIST_PROFILES, severity=Severity.WARN, of_key=True)
    known = [profile for profile in counts if any(product.match(profile) for product in PRODUCTS)]
    having = [product for product in PRODUCTS if known and all(product.match(profile) for profile in known)]
    if known and not having:
        text = f"has {', '.join(map(str, known))}, which no single GPU known here has together"
        remedy = "write an entry with a device-filter for each kind of GPU"
        yield file.problem(devices, text, remedy, severity=Severity.WARN, of_key=True)
    elif having and all(product.excess(counts) for product in having):
        text = f"needs {having[0].excess(counts)} of {having[0].name}, {_NOT_HERE}"
        yield file.problem(devices, text, "lower the counts, or use smaller profiles", of_key=True)


def _nodes_using(change: Change) -> dict[str, list[Object]]:
    """The nodes that select a configuration from this ConfigMap, by its name."""
    named = change.facts.policy_value("migManager", "config", "name") == change.name
    using: dict[str, list[Object]] = {}
    if named and change.is_read_by_operator:
        for node in change.facts.nodes_with(MIG_CONFIG_LABEL):
            using.setdefault(labels_of(node)[MIG_CONFIG_LABEL], []).append(node)
    return using


def _by_product(nodes: Iterable[Object]) -> dict[MIGProduct, list[Object]]:
    """The nodes of each known product."""
    found: dict[MIGProduct, list[Object]] = {}
    for node in nodes:
        if product := node_product(labels_of(node)):
            found.setdefault(product, []).append(node)
    return found
