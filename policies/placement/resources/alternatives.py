"""Alternatives: what nodes offer instead of a missing resource, and which name was likely meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.fleet.device_plugin import WORKLOAD_CONFIG
from policies.fleet.offers.shown import sharing_strategy
from policies.kubernetes.printable import printable
from policies.nvidia.identifiers import GPU_RESOURCE, PRODUCT_LABEL
from policies.nvidia.products import Product
from policies.nvidia.resources import parse_resource
from policies.phrases import format_count, format_list
from policies.placement.resources.names import PASSED_THROUGH, correct_name, nearest_name, nearest_profile

if TYPE_CHECKING:
    from policies.fleet.gpu_nodes import GPUNodes
    from policies.nvidia.mig import MIGProfile
    from policies.nvidia.resources import GPUResource

__all__ = ["alternative_to"]

_SHARED_GPU = "nvidia.com/gpu.shared"

Alternative = tuple[str, str | None]
"""A clause on existing resources, and a remedy; None if the rule's own remedy is the best one."""


def alternative_to(resource: str, nodes: GPUNodes) -> Alternative:
    """The resources that nodes offer instead of one that none offers, and a remedy."""
    correct = correct_name(resource)
    if not nodes.offers:
        exists, remedy = _without_offers(nodes)
        return exists, f'write "{correct}"' if correct else remedy
    if resource in PASSED_THROUGH:
        remedy = (
            f"wait for a node with {WORKLOAD_CONFIG}: vm-passthrough, where NVIDIA's Kata device plugin hands it out"
        )
        return _offers_text(nodes), remedy
    if correct in nodes.offers:
        return _offers_text(nodes), f'write "{correct}"'
    parsed = parse_resource(correct or resource)
    if parsed is None:
        guess = nearest_name(resource, nodes.offers)
        return _offers_text(nodes), f'write "{guess}"' if guess else None
    if parsed.shared and (answer := _shares_under_own_name(parsed.name.removesuffix(".shared"), nodes)):
        return answer
    if parsed.profile:
        return _of_profile(parsed.profile, nodes)
    return _offers_text(nodes), None if parsed.mig else _of_gpu(nodes)


def _without_offers(nodes: GPUNodes) -> Alternative:
    if not nodes.nodes:
        count = nodes.others
        return "the only node has no GPU" if count == 1 else f"none of the {count:,} nodes has a GPU", None
    count = len(nodes.nodes)
    has = "1 node has GPUs by its labels" if count == 1 else f"{count:,} nodes have GPUs by their labels"
    return f"{has}, and nothing advertises them", "check whether NVIDIA's device plugin runs there"


def _shares_under_own_name(base: str, nodes: GPUNodes) -> Alternative | None:
    """The offers under the name without `.shared`; None if no node offers it.

    Shares keep the resource's own name unless the device plugin is configured to rename them.
    """
    offering = [node for node in nodes.nodes if base in node.offers]
    sharing = [node for node in offering if sharing_strategy(node.labels, base)]
    if sharing:
        verb = "shares its GPUs and hands" if len(sharing) == 1 else "share their GPUs and hand"
        said = f"{format_count(len(sharing), 'node')} {verb} the shares out as {base}, for lack of renameByDefault"
        return said, f'write "{base}" and the annotation gpu-admission.io/sharing: shared'
    return (f"{_offers_text(nodes)}, and no node shares it", f'write "{base}"') if offering else None


def _of_profile(profile: MIGProfile, nodes: GPUNodes) -> Alternative:
    handed_out = nodes.handing_out_gpus
    labels = {label: count for label, count in handed_out.items() if Product.parse(label).profile == profile}
    if labels:
        count = sum(labels.values())
        label = min(labels, key=lambda label: (-labels[label], label))
        said = (
            f"{format_count(count, 'node')} {'hands' if count == 1 else 'hand'} out {profile} devices as {GPU_RESOURCE}"
        )
        return (
            f"{said}, by the MIG strategy single",
            f'write "{GPU_RESOURCE}" and the nodeSelector {PRODUCT_LABEL}: {label}',
        )
    offered = {parsed.profile: parsed.name for parsed in _mig_offers(nodes) if parsed.profile}
    nearest = nearest_profile(profile, offered)
    if nearest:
        return _offers_text(nodes), f'write "{offered[nearest]}", or wait for a node that advertises this one'
    if not offered and any(Product.parse(label).profile is None for label in handed_out):
        return _offers_text(nodes), f'write "{GPU_RESOURCE}" for a whole GPU, or wait for a node with such MIG devices'
    return _offers_text(nodes), None


def _of_gpu(nodes: GPUNodes) -> str | None:
    if _SHARED_GPU in nodes.offers:
        return f'write "{_SHARED_GPU}" if a share will do, or wait for a node with whole GPUs'
    profiles = {parsed.profile: parsed.name for parsed in _mig_offers(nodes) if parsed.profile}
    return f'write "{profiles[max(profiles)]}" if a MIG device will do, or wait for whole GPUs' if profiles else None


def _mig_offers(nodes: GPUNodes) -> list[GPUResource]:
    """The MIG devices that nodes offer; of one profile, shares come before whole devices."""
    offers = (parse_resource(name) for name in sorted(nodes.offers, reverse=True))
    return [parsed for parsed in offers if parsed and parsed.mig]


def _offers_text(nodes: GPUNodes) -> str:
    """`there is nvidia.com/gpu (MIG 1g.10gb) on 12 nodes and nvidia.com/mig-3g.40gb on 1 node`."""
    profiles = {Product.parse(label).profile for label in nodes.handing_out_gpus}
    mig_profiles = format_list([f"MIG {profile}" for profile in sorted(filter(None, profiles))])
    means = {GPU_RESOURCE: f" ({mig_profiles})"} if profiles and None not in profiles else {}
    most_first = sorted(nodes.offers, key=lambda name: (-nodes.offers[name], name))
    return "there is " + format_list(
        [f"{printable(name)}{means.get(name, '')} on {format_count(nodes.offers[name], 'node')}" for name in most_first]
    )
