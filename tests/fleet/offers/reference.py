"""Measured runs of NVIDIA's own components, from files beside the repository, and their nodes as hardware."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

import pytest

from policies.fleet.offers.hardware import Cut, Hardware, NodeState
from policies.nvidia.mig import MIGProfile
from policies.nvidia.mig_products import Engines, MIGSize, product_named
from policies.nvidia.plugin_configs import PluginConfig

FOLDER = Path(__file__).parents[4] / "shared" / "reference" / "nvidia"
needs_reference = pytest.mark.skipif(not FOLDER.exists(), reason="the reference data is not here")

VARYING = ("product", "count", "replicas", "memory", "sharing-strategy", "multiprocessors")
_BALANCED = {"A100": "1g.5gb 2 2g.10gb 1 3g.20gb 1", "H100": "1g.10gb 2 2g.20gb 1 3g.40gb 1"}


def counts(text):
    """`1g.5gb 2 2g.10gb 1`: MIG devices of one GPU."""
    words = text.split()
    return {MIGProfile.parse(name): int(count) for name, count in zip(words[::2], words[1::2], strict=True)}


@lru_cache
def runs(name):
    """The runs of a file."""
    return json.loads((FOLDER / name).read_text())


def cut_of(model, layout):
    """The cut of a layout on the four GPUs of an A100 or H100 node, on two of A30 or B200."""
    if model.startswith("A30"):
        return Cut.of([counts("1g.6gb 4")] * 2)
    if model.startswith("B200"):
        return Cut.of([None, counts("1g.23gb 2 2g.45gb 1 3g.90gb 1")])
    if model in ("h100", "gb200"):
        return Cut.of([None] * 8)
    kind = model[:4]
    small, two, whole = ("1g.5gb", "2g.10gb", "7g.40gb") if kind == "A100" else ("1g.10gb", "2g.20gb", "7g.80gb")
    balanced = counts(_BALANCED[kind])
    layouts = {
        "off": [None] * 4,
        "empty": [{}] * 4,
        "balanced": [balanced] * 4,
        "half": [None, None, balanced, counts(f"{small} 4")],
        "me": [counts(f"{small}+me 1 {two} 1")] * 4,
        "whole": [counts(f"{whole} 1")] * 4,
        "all-1g": [counts(f"{small} 7")] * 4,
    }
    if layout not in layouts:
        profile = layout.removeprefix("all-")
        most = (
            product_named("A100-SXM4-40GB" if kind == "A100" else "H100-80GB-HBM3")
            .match(MIGProfile.parse(profile))
            .most
        )
        return Cut.of([counts(f"{profile} {most}")] * 4)
    return Cut.of(layouts[layout])


def fixed_labels(labels):
    """The labels that are facts of GPUs, driver and machine."""
    return {
        name: value
        for name, value in labels.items()
        if name.startswith(
            ("nvidia.com/cuda.", "nvidia.com/vgpu.", "nvidia.com/gpu.compute.", "nvidia.com/mig.capable")
        )
        or name.removeprefix("nvidia.com/gpu.") in ("family", "machine", "mode", "clique")
    }


def sizes_in(labels):
    """The sizes of MIG devices on mock GPUs, whose engines are not those of real ones."""
    found = {}
    prefixes = {name.removesuffix(".multiprocessors") for name in labels if name.endswith(".multiprocessors")}
    for prefix in prefixes:
        name = prefix.removeprefix("nvidia.com/mig-")
        if prefix == "nvidia.com/gpu":
            name = labels["nvidia.com/gpu.product"].partition("-MIG-")[2].removesuffix("-SHARED")
        engines = Engines(
            int(labels[f"{prefix}.multiprocessors"]),
            *(int(labels[f"{prefix}.engines.{each}"]) for each in ("copy", "decoder", "encoder", "jpeg", "ofa")),
        )
        found[MIGProfile.from_label(name)] = MIGSize(int(labels[f"{prefix}.memory"]), engines)
    return found


def hardware_of(cut, whole, measured=()):
    """The hardware of a node, by its labels with MIG off and the measured sizes of its MIG devices."""
    product = whole["nvidia.com/gpu.product"]
    return Hardware(
        product,
        len(cut.by_gpu),
        int(whole["nvidia.com/gpu.memory"]),
        product_named(product),
        fixed_labels(whole),
        dict(measured),
    )


def state_of(cut, strategy, document):
    return NodeState(cut, strategy, PluginConfig(document))


def gpu_cluster(gates=(), shares="", **spec):
    """A GPUCluster with feature gates of the DRA driver, and its variable CONSUMABLE_SHARES."""
    driver = {"featureGates": dict.fromkeys(gates or (), True)}
    if shares:
        driver["gpus"] = {"kubeletPlugin": {"env": [{"name": "CONSUMABLE_SHARES", "value": shares}]}}
    found = {"apiVersion": "nvidia.com/v1alpha1", "kind": "GPUCluster", "metadata": {"name": "gpu-cluster"}}
    return {**found, "spec": {"draDriver": driver, **spec}}
