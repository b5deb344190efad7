"""Configurations of nodes: a MIG layout, or sharing by the device plugin or the DRA driver."""

from __future__ import annotations

import json
import re
from itertools import groupby
from typing import TYPE_CHECKING, Literal

from policies.analyses.generate.documents import (
    MIG_PARTED,
    Generated,
    GenerationError,
    Step,
    cluster_policy_command,
    counts_text,
    divisible_product,
    node_label_command,
    ordered_counts,
    read_products,
    read_wanted,
    slug,
    wanted_devices,
)
from policies.configuration.config_maps.plugin_replicas import (
    MANY_SLICES,
    MOST_CLIENTS,
    MOST_CLIENTS_BEFORE_TURING,
)
from policies.fleet.offers.shown import parse_number
from policies.fleet.operands import GPU_CLUSTER, driver_sharing
from policies.kubernetes.names import format_count, format_list, is_label_value, shown
from policies.kubernetes.versions import Feature
from policies.kubernetes.yaml import load_document
from policies.nvidia.identifiers import GPU_RESOURCE, MIG_CONFIG_LABEL, PLUGIN_CONFIG_LABEL
from policies.nvidia.mig_configs import CONFIGS, DEFAULT, FILE
from policies.nvidia.mig_layouts import (
    MOST_GPUS,
    TooManyWaysError,
    fewest_gpus,
    find_layouts,
    fitting_part,
    place,
    shortage,
)
from policies.nvidia.mig_products import shipped_configs
from policies.nvidia.plugin_configs import PluginConfig
from policies.nvidia.releases import NVIDIAFeature

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policies.analyses.generate.documents import Target, WantedDevices
    from policies.kubernetes.objects import Object
    from policies.nvidia.mig_layouts import DeviceCounts
    from policies.nvidia.mig_products import MIGProduct


_NAME = "custom-mig-config"
_STRATEGY = "mixed"
"""The MIG strategy under which each profile is its own resource, whatever else is on the node."""

_HEAD = ("version: v1", f"{CONFIGS}:", f"  {DEFAULT}:", "  - devices: all", "    mig-enabled: false")
"""The lines of a new file, with the default for nodes without the label."""
_BALANCED = {1: 2, 2: 1, 3: 1}
"""The number of instances of each size in compute slices that `all-balanced` makes, where the GPU has such a profile.

Source: github.com/NVIDIA/mig-parted deployments/systemd/config-default.yaml.
"""


def generate_mig(product: str, want: str, gpus: int | None, target: Target) -> Generated:
    """The ConfigMap, the fields of the ClusterPolicy that name it, and the label of the nodes.

    Args:
        product: A list of products, as `read_products` reads it.
        want: The devices, as `read_wanted` reads them.
        gpus: How many GPUs of a node have them together; None if each GPU has them.
        target: The ConfigMap.

    Raises:
        GenerationError: The GPUs have no room for the devices, or an argument cannot be read.
    """
    if gpus is not None and not 1 <= gpus <= MOST_GPUS:
        raise GenerationError("--gpus", f"is {gpus}; write a number from 1 to {MOST_GPUS}")
    counts = read_wanted(want)
    meant, labels = divisible_product(read_products(product), counts)
    wanted = wanted_devices(meant, counts)
    layouts = _find_layouts(meant, wanted, gpus or 1)
    remarks = [*_remarks(meant, wanted, layouts, gpus), *_other_names(meant, wanted)]
    shipped = _shipped_config(wanted, layouts[0]) if gpus is None and not target.existing else None
    if shipped:
        remarks.append(
            "The GPU Operator ships this configuration, so no ConfigMap is needed. If the ClusterPolicy names a ConfigMap in "
            "migManager.config.name, add the configuration to that one with --add-to."
        )
        return Generated(tuple(remarks), None, _steps_of_shipped(labels, shipped))
    name = _config_name(meant, wanted, gpus)
    lines = _lines(_entries(layouts, gpus))
    text = target.file_with(name, lines, "\n".join([*_HEAD, f"  {name}:", *(f"  {line}" for line in lines), ""]))
    document = target.config_map(_NAME, MIG_PARTED, {FILE: text})
    return Generated(tuple(remarks), document, _steps(labels, name, document["metadata"]["name"]))


def _find_layouts(product: MIGProduct, wanted: WantedDevices, gpus: int) -> Sequence[DeviceCounts]:
    try:
        layouts = find_layouts(wanted.geometry, wanted.counts, gpus)
    except TooManyWaysError:
        text = (
            f"can be distributed over {gpus} GPUs in too many ways to try them all; write fewer profiles, or fewer GPUs"
        )
        raise GenerationError("--want", text) from None
    if layouts is None:
        raise _no_room(product, wanted, gpus)
    return layouts


def _no_room(product: MIGProduct, wanted: WantedDevices, gpus: int) -> GenerationError:
    needs = shortage(wanted.geometry, wanted.counts, gpus)
    which = f"one {product.name}" if gpus == 1 else f"{gpus} {product.name}"
    part = counts_text(fitting_part(wanted.geometry, wanted.counts, gpus))
    text = f"is {counts_text(wanted.counts)}, which does not fit on {which}: it needs {needs}; {part} fits"
    more = fewest_gpus(wanted.geometry, wanted.counts)
    return GenerationError("--want", f"{text}, and all of it fits on {more} GPUs: --gpus {more}" if more else text)


def _remarks(
    product: MIGProduct, wanted: WantedDevices, layouts: Sequence[DeviceCounts], gpus: int | None
) -> list[str]:
    """The devices of each GPU, and their places."""
    if gpus is None:
        return [f"Each {product.name} of a node has {counts_text(wanted.counts)}. {_places(wanted, layouts[0])}"]
    whole = gpus - len(layouts)
    rest = f"; {format_count(whole, 'GPU')} stay{'s' if whole == 1 else ''} whole" if whole else ""
    have = "has" if gpus == 1 else "have"
    first = f"{gpus} {product.name} of a node {have} {counts_text(wanted.counts)} together{rest}."
    return [
        first,
        *(f"GPU {_numbers(each)}: {counts_text(one)}. {_places(wanted, one)}" for one, each in _alike(layouts)),
    ]


def _places(wanted: WantedDevices, layout: DeviceCounts) -> str:
    """A place for each device, as a sentence."""
    texts = []
    for profile, group in groupby(place(wanted.geometry, layout) or (), key=lambda each: each.profile):
        placed = sorted(group, key=lambda each: each.start)
        spans = [str(each.start) if each.size == 1 else f"{each.start}-{each.start + each.size - 1}" for each in placed]
        texts.append(f"{profile} {format_list(spans, most=len(spans))}")
    return f"Possible memory slices: {'; '.join(texts)}."


def _other_names(product: MIGProduct, wanted: WantedDevices) -> list[str]:
    """Names that were corrected, and products whose drivers differ in names."""
    lines = [f"{given} is called {own} on {product.name}." for given, own in wanted.renamed.items()]
    if len(product.memory) > 1:
        lines.append('Drivers differ in these names; compare with what "nvidia-smi mig -lgip" lists on the node.')
    return lines


def _shipped_config(wanted: WantedDevices, layout: DeviceCounts) -> str | None:
    """The configuration of the GPU Operator with this layout: one profile only, or the balanced mix."""
    matches = wanted.geometry.matches
    if len(layout) == 1:
        ((profile, count),) = layout.items()
        name = f"all-{profile.label}"
        most = next(match.most for match in matches if match.profile == profile)
        return name if count == most and name in shipped_configs() else None
    plain = {match.shape.compute_slices: match.profile for match in reversed(matches) if not match.profile.attributes}
    balanced = {plain[slices]: count for slices, count in _BALANCED.items() if slices in plain}
    return "all-balanced" if layout == balanced else None


def _config_name(product: MIGProduct, wanted: WantedDevices, gpus: int | None) -> str:
    """A name that says what the configuration makes, if it can be the value of a label."""
    devices = "-".join(f"{count}x{profile.label}" for profile, count in ordered_counts(wanted.counts))
    name = devices if gpus is None else f"{devices}-on-{gpus}-gpu{'s' * (gpus > 1)}"
    return name if is_label_value(name) else f"custom-{slug(product.name)}"


def _alike(layouts: Sequence[DeviceCounts]) -> list[tuple[DeviceCounts, list[int]]]:
    """Layouts with the numbers of the GPUs that have them."""
    groups: list[tuple[DeviceCounts, list[int]]] = []
    for number, layout in enumerate(layouts):
        if groups and groups[-1][0] == layout:
            groups[-1][1].append(number)
        else:
            groups.append((layout, [number]))
    return groups


def _numbers(numbers: Sequence[int]) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"


def _entries(layouts: Sequence[DeviceCounts], gpus: int | None) -> list[tuple[str, DeviceCounts]]:
    """The value of `devices` and the layout of each entry; the layout of whole GPUs is empty."""
    if gpus is None:
        return [("all", layouts[0])]
    groups = [(_number_list(numbers), layout) for layout, numbers in _alike(layouts)]
    whole = range(len(layouts), gpus)
    return [*groups, (_number_list(whole), {})] if whole else groups


def _number_list(numbers: Iterable[int]) -> str:
    return f"[{', '.join(map(str, numbers))}]"


def _lines(entries: Iterable[tuple[str, DeviceCounts]]) -> list[str]:
    """The entries of a configuration as lines of YAML."""
    lines = []
    for devices, layout in entries:
        lines += [f"- devices: {devices}", f"  mig-enabled: {'true' if layout else 'false'}"]
        if layout:
            lines += ["  mig-devices:", *(f'    "{profile}": {count}' for profile, count in ordered_counts(layout))]
    return lines


_DRAIN = "Pods that hold GPUs of a node keep it from being divided, so drain it first."


def _steps_of_shipped(labels: Sequence[str], name: str) -> tuple[Step, ...]:
    first = "Make each profile its own resource, nvidia.com/mig-..., if the ClusterPolicy does not yet."
    policy = cluster_policy_command({"mig": {"strategy": _STRATEGY}})
    second = f"Then select it on the nodes. {_DRAIN}"
    return Step(first, (policy,)), Step(second, (node_label_command(labels, MIG_CONFIG_LABEL, name),))


def _steps(labels: Sequence[str], name: str, config_map: str) -> tuple[Step, ...]:
    first = (
        "Apply the ConfigMap, then name it in the ClusterPolicy. The ConfigMap replaces the configurations that the operator ships: "
        f"add those that nodes select by {MIG_CONFIG_LABEL} with --add-to."
    )
    policy = cluster_policy_command({"mig": {"strategy": _STRATEGY}, "migManager": {"config": {"name": config_map}}})
    second = f"Then select the configuration on the nodes. {_DRAIN}"
    return Step(first, (policy,)), Step(second, (node_label_command(labels, MIG_CONFIG_LABEL, name),))


Strategy = Literal["time-slicing", "mps"]

_BEFORE_TURING = re.compile(r"Tesla-[PV]\d.*")
"""Pascal and Volta, the only known products with a compute capability below 7.5."""
_FEWEST = 2
_DEFAULT = "whole-gpus"
"""The key for nodes without the label, whose GPUs are not shared."""
_NOTHING = "version: v1\n"
_SHARING = """\
version: v1
sharing:
  {field}:
    failRequestsGreaterThanOne: true
    resources:
    - name: {resource}
      replicas: {replicas}
"""
_FIELDS: dict[Strategy, str] = {"time-slicing": "timeSlicing", "mps": "mps"}


def generate_sharing(strategy: Strategy, product: str, replicas: int, target: Target) -> Generated:
    """The ConfigMap, the fields of the ClusterPolicy that name it, and the label of the nodes.

    Args:
        strategy: How the pods share a GPU.
        product: A list of products, as `read_products` reads it.
        replicas: How many pods share a GPU.
        target: The ConfigMap.

    Raises:
        GenerationError: The product is unknown, or its GPUs cannot serve so many pods.
    """
    choice = read_products(product)
    _check_replicas(strategy, replicas, choice.labels)
    key = slug(str(choice.patterns)) or "all"
    text = _SHARING.format(field=_FIELDS[strategy], resource=GPU_RESOURCE, replicas=replicas)
    others = {} if target.existing else {_DEFAULT: _NOTHING}
    document = target.config_map(f"{strategy}-config", "device-plugin", {key: text, **others})
    config = {"name": document["metadata"]["name"], **({"default": _DEFAULT} if _DEFAULT in document["data"] else {})}
    shared = [*choice.labels, *(f"{label}-SHARED" for label in choice.labels)]
    return Generated(
        (
            f"{replicas} pods share each {format_list(choice.labels)}, and each requests {GPU_RESOURCE}: 1.",
            *_sharing_remarks(strategy, replicas),
            *([f"The key {key} replaces another configuration."] if target.replaces(key, text) else []),
        ),
        document,
        (
            Step(
                "Apply the ConfigMap, then name it in the ClusterPolicy. The ClusterPolicy names only one: if it names "
                "another already, add to that one with --add-to.",
                (cluster_policy_command({"devicePlugin": {"config": config}}),),
            ),
            Step(
                "Then select the configuration on the nodes. Label the node group as well, for nodes that come later.",
                (node_label_command(shared, PLUGIN_CONFIG_LABEL, key),),
            ),
        ),
    )


def _check_replicas(strategy: Strategy, replicas: int, labels: Sequence[str]) -> None:
    older = [label for label in labels if _BEFORE_TURING.fullmatch(label)]
    if replicas < _FEWEST:
        raise GenerationError("--replicas", f"is {replicas}; sharing needs at least {_FEWEST}")
    if strategy == "time-slicing" and replicas > MANY_SLICES:
        text = f"is {replicas}; so many pods rarely fit into the memory of one GPU, which time-slicing does not divide"
        raise GenerationError("--replicas", f"{text}; write {MANY_SLICES} or fewer")
    if strategy == "mps" and replicas > MOST_CLIENTS:
        raise GenerationError(
            "--replicas",
            f"is {replicas}; no GPU serves more than {MOST_CLIENTS} MPS clients; write {MOST_CLIENTS} or fewer",
        )
    if strategy == "mps" and older and replicas > MOST_CLIENTS_BEFORE_TURING:
        serve = f"GPUs before Turing serve {MOST_CLIENTS_BEFORE_TURING} MPS clients: {format_list(older)}"
        text = f"is {replicas}, and {serve}; write {MOST_CLIENTS_BEFORE_TURING} or fewer"
        raise GenerationError("--replicas", text)


def _sharing_remarks(strategy: Strategy, replicas: int) -> tuple[str, ...]:
    if strategy == "time-slicing":
        return ("The pods take turns. Nothing limits the memory of a pod: if one allocates too much, others fail.",)
    share = f"Each gets 1/{replicas} of the memory and of the threads of its GPU."
    mixed = "MPS needs a mig.strategy other than mixed in the ClusterPolicy, and GPUs that MIG does not divide."
    if replicas <= MOST_CLIENTS_BEFORE_TURING:
        return share, mixed
    return (
        share,
        mixed,
        (
            f"Only GPUs since Turing serve more than {MOST_CLIENTS_BEFORE_TURING} pods: review it with --cluster or --live, "
            "because a review without nodes warns."
        ),
    )


def generate_driver_sharing(shares: str, config: Object | None = None) -> Generated:
    """The GPUCluster whose DRA driver shares GPUs between claims, and the same for the driver's own chart.

    Args:
        shares: A number, `memory` or `unlimited`; empty for the number of a configuration of the device plugin.
        config: A ConfigMap of the device plugin that shares GPUs, by time-slicing or MPS.

    Raises:
        GenerationError: There is no such number, or the configuration has several.
    """
    value = shares.strip().lower() or _replicas_of(config)
    if value not in ("memory", "unlimited"):
        if (number := parse_number(value) or 0) < _FEWEST:
            text = f"is {shown(shares)}; write a number of at least {_FEWEST}, memory or unlimited"
            raise GenerationError("--shares", text)
        value = str(number)
    feature = Feature.DRAConsumableCapacity
    needed = (
        f"It needs DRA driver {NVIDIAFeature.ConsumableShares.since} and Kubernetes {feature.on_since} ({feature.name}), and "
        "excludes MPSSupport."
    )
    spec = {"draDriver": driver_sharing(value)}
    document = {
        "apiVersion": "nvidia.com/v1alpha1",
        "kind": "GPUCluster",
        "metadata": {"name": GPU_CLUSTER},
        "spec": spec,
    }
    patch = json.dumps({"spec": spec}, separators=(",", ":"))
    return Generated(
        (
            _MEANINGS.get(value) or f"{value} claims share each GPU of all nodes; a claim takes one share by default.",
            "Nothing limits the memory that a pod uses: if one allocates too much, others fail.",
            "A claim for a MIG device takes all of its multiprocessors, so that no other shares it unless both request less.",
            needed,
        ),
        document,
        (
            Step(
                "Where a GPUCluster exists, change it instead. The variables replace those that it has.",
                (f"kubectl patch gpuclusters.nvidia.com/{GPU_CLUSTER} --type merge -p '{patch}'",),
            ),
            Step(
                "The same as values of the driver's own chart:",
                ("featureGates:", "  ConsumableShares: true", f'consumableShares: "{value}"'),
            ),
        ),
    )


_MEANINGS = {
    "memory": "Claims share the GPUs of all nodes by memory; a claim that requests no memory takes all of it.",
    "unlimited": "Any number of claims share each GPU of all nodes.",
}


def _replicas_of(config: Object | None) -> str:
    """The number of shares of each device by a configuration of the device plugin.

    Raises:
        GenerationError: It shares nothing, or different resources or nodes by different numbers.
    """
    if config is None:
        raise GenerationError(
            "", "say how claims share a GPU: --shares 4, or --like FILE with a ConfigMap of the device plugin"
        )
    found: dict[int, list[str]] = {}
    data = config.get("data")
    for key, text in sorted(data.items()) if isinstance(data, dict) else ():
        sharing = PluginConfig(load_document(text).value).sharing if isinstance(text, str) else None
        for resource, replicas in sharing.entries if sharing is not None else ():
            found.setdefault(replicas, []).append(f"{resource} of {shown(key)}")
    if not found:
        raise GenerationError("--like", "has no configuration of the device plugin that shares GPUs; write --shares 4")
    if len(found) > 1:
        different = "; ".join(f"{replicas} shares of {format_list(names)}" for replicas, names in sorted(found.items()))
        raise GenerationError(
            "--like",
            f"has {different}, and the DRA driver has one number for all nodes and devices; write --shares {max(found)}, by "
            "which no pod gets more than before, or --shares memory, by which each claim requests the memory of its share",
        )
    return str(next(iter(found)))
