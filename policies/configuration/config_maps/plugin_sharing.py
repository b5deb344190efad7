"""Sharing: the resource lists of `sharing.timeSlicing` and `sharing.mps`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.configuration.change import CONFIG_MAP
from policies.configuration.cluster_facts import the_nodes
from policies.configuration.config_maps.plugin_documents import nodes_using, policy_strategy
from policies.fleet.offers import NodeState, read_hardware
from policies.fleet.offers.offer import LABELS_WITH_MIG, MPS_WITH_MIG, MPS_WITH_MIXED, label_offer, plugin_refusal
from policies.fleet.offers.shown import LabelledResource, labelled_devices
from policies.kubernetes.names import shown
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.config_grammar import misspelt_key
from policies.nvidia.identifiers import GPU_RESOURCE, guess_resource, name_error
from policies.nvidia.mig import parse_resource
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.config_maps.plugin_documents import Configuration
    from policies.kubernetes.objects import Object
    from policies.nvidia.plugin_configs import SharedResource, Strategy
    from policies.rules.checks import Problem


_ITEM = ("name", "rename", "devices", "replicas")
_STRATEGY = ("renameByDefault", "failRequestsGreaterThanOne", "resources")
_EXITS = "the device plugin would exit with"
_CASE = "here a field counts only in its exact spelling"
_FEWEST = 2


@CONFIG_MAP.rule(
    "GA132",
    "A time-slicing resource must have at least two replicas",
    remedy="write how many pods may share one GPU, 2 or more",
    source="github.com/NVIDIA/k8s-device-plugin api/config/v1/replicas.go UnmarshalJSON",
    runs="sharing",
    rows=("G-09",),
)
def at_least_two_replicas(configuration: Configuration) -> Iterator[Problem]:
    """With fewer than two replicas the device plugin does not start, for MPS and time-slicing.

    The node then offers no GPU at all, not a whole one. To hand out whole GPUs, leave the resource out of the list.
    """
    for resource in configuration.shared_resources():
        steps = (*resource.steps, "replicas")
        misspelt = misspelt_key(resource.item, "replicas", _ITEM)
        if "replicas" not in resource.item and misspelt:
            text = f"is not read, because {_CASE}; {_EXITS}: no replicas specified"
            steps = (*resource.steps, misspelt)
            yield configuration.embedded.problem(steps, text, 'write "replicas"', of_key=True)
        elif "replicas" not in resource.item:
            text = f"has no replicas; {_EXITS}: no replicas specified"
            remedy = "add replicas: 4, or however many pods may share one GPU"
            yield configuration.embedded.problem(resource.steps, text, remedy)
        elif error := _replicas_error(resource.item["replicas"]):
            yield configuration.embedded.problem(steps, *error)


def _replicas_error(value: Any) -> tuple[str, str | None] | None:
    if isinstance(value, int) and not isinstance(value, bool):
        if value >= _FEWEST:
            return None
        remedy = "write 2 or more, or remove this entry to hand out whole GPUs"
        return f"is {value}; sharing needs at least 2; {_EXITS}: number of replicas must be >= 2", remedy
    if value is None:
        return f"is empty; {_EXITS}: number of replicas must be >= 2", None
    kind = _GO_KINDS.get(type(value)) or f"number {shown(value)}"
    digits = value.strip() if isinstance(value, str) else ""
    is_number = digits.isascii() and digits.isdecimal() and len(digits) < 6 and int(digits) >= _FEWEST
    text = f"is {shown(value)}; {_EXITS}: json: cannot unmarshal {kind} into Go value of type int"
    return text, f"write {digits}, without quotes" if is_number else None


_GO_KINDS = {str: "string", bool: "bool", list: "array", dict: "object"}


@CONFIG_MAP.rule(
    "GA136",
    "A sharing strategy must list the resources that it shares",
    remedy="write resources: [{name: nvidia.com/gpu, replicas: 4}]",
    source="github.com/NVIDIA/k8s-device-plugin api/config/v1/replicas.go UnmarshalJSON, "
    "api/config/v1/resources.go NewResourceName",
    runs="sharing",
    rows=("G-08", "G-10", "S-01"),
)
def listed_resources(configuration: Configuration) -> Iterator[Problem]:
    """A node can offer whole GPUs and each type of MIG device, so each resource has its replicas.

    Published guides write them beside timeSlicing, and then the device plugin and GPU Feature Discovery both refuse to
    start. A list without items or an item without a name fails in the same way.
    """
    for strategy in configuration.strategies():
        yield from _list_problems(configuration, strategy)


def _list_problems(configuration: Configuration, strategy: Strategy) -> Iterator[Problem]:
    """The problems of the list of resources that a sharing strategy shares."""
    at = configuration.embedded.problem
    if strategy.value is None:
        if strategy.name == "timeSlicing":
            yield at(strategy.steps, f"is empty; {_EXITS}: no resources specified")
        return
    if not isinstance(strategy.value, dict):
        text = f"is {shown(strategy.value)}; the device plugin would exit, unable to parse its config file"
        yield at(strategy.steps, text)
    elif "resources" not in strategy.value:
        yield _without_resources(configuration, strategy)
    elif not isinstance(strategy.value["resources"], list):
        resources = strategy.value["resources"]
        said = "is empty" if resources is None else f"is {shown(resources)}, not a list"
        why = f"{_EXITS}: no resources specified" if resources is None else _UNPARSED
        yield at((*strategy.steps, "resources"), f"{said}; {why}")
    elif not strategy.value["resources"]:
        yield at((*strategy.steps, "resources"), f"is empty; {_EXITS}: no resources specified")
    else:
        yield from _item_problems(configuration, strategy)


_UNPARSED = "the device plugin would exit, unable to parse its config file"


def _without_resources(configuration: Configuration, strategy: Strategy) -> Problem:
    misspelt = misspelt_key(strategy.value, "resources", _STRATEGY)
    if misspelt:
        text = f"is not read, because {_CASE}; {_EXITS}: no resources specified"
        return configuration.embedded.problem((*strategy.steps, misspelt), text, 'write "resources"', of_key=True)
    if "replicas" in strategy.value:
        replicas = strategy.value["replicas"]
        text = f"stands beside no resources, and replicas belong to a resource; {_EXITS}: no resources specified"
        number = replicas if isinstance(replicas, int) and replicas >= _FEWEST else 4
        remedy = f"write resources: [{{name: nvidia.com/gpu, replicas: {number}}}] in its place"
        return configuration.embedded.problem((*strategy.steps, "replicas"), text, remedy, of_key=True)
    return configuration.embedded.problem(strategy.steps, f"has no resources; {_EXITS}: no resources specified")


def _item_problems(configuration: Configuration, strategy: Strategy) -> Iterator[Problem]:
    """The problems of the entries of a list of shared resources."""
    at = configuration.embedded.problem
    seen: dict[str, int] = {}
    for resource in strategy.resources():
        first = seen.setdefault(resource.name, resource.replicas)
        if resource.name and first != resource.replicas:
            text = f"is {resource.name} again; the device plugin makes the larger number of shares, and the label of "
            text += f"GPU Feature Discovery says {first}"
            yield at((*resource.steps, "name"), text, "keep one entry of the resource", severity=Severity.WARN)
    for index, item in enumerate(strategy.value["resources"]):
        steps = (*strategy.steps, "resources", index)
        if not isinstance(item, dict):
            yield at(steps, f"is {shown(item)}, not a resource; {_UNPARSED}", "write a name and replicas")
        elif "name" in item:
            if error := name_error(item["name"]):
                yield at((*steps, "name"), *error)
        elif misspelt := misspelt_key(item, "name", _ITEM):
            text = f"is not read, because {_CASE}; {_EXITS}: no resource name specified"
            yield at((*steps, misspelt), text, 'write "name"', of_key=True)
        else:
            yield at(steps, f"has no name; {_EXITS}: no resource name specified", "add name: nvidia.com/gpu")


@CONFIG_MAP.rule(
    "GA137",
    "A device-plugin configuration must share GPUs in one way only",
    default=Severity.WARN,
    remedy="remove timeSlicing or mps; where different nodes are to have each, give each a key of its own",
    source="github.com/NVIDIA/k8s-device-plugin api/config/v1/sharing.go SharingStrategy, ReplicatedResources",
    runs="sharing",
    rows=("G-11",),
)
def one_strategy(configuration: Configuration) -> Iterator[Problem]:
    """Time-slicing and MPS exclude each other, but the device plugin does not say so: it takes MPS.

    Memory and threads of each pod are then limited to their share, which is not expected of
    time-slicing, and the replicas are those of mps.
    """
    time_slicing, mps = configuration.strategy("timeSlicing"), configuration.strategy("mps")
    if time_slicing and mps:
        text = "stands beside mps, and the device plugin silently takes mps; time-slicing has no effect"
        yield configuration.embedded.problem(time_slicing.steps, text, of_key=True)


_NO_EFFECT = "the device plugin finds no device of that name and silently shares nothing"
MIXED = f"the device plugin would exit with: {MPS_WITH_MIXED}"


@CONFIG_MAP.rule(
    "GA138",
    "MPS must share whole GPUs, not MIG devices",
    remedy="share MIG devices by timeSlicing, or whole GPUs by mps",
    source="github.com/NVIDIA/k8s-device-plugin cmd/nvidia-device-plugin/main.go validateFlags, "
    "internal/plugin/mps.go getMPSOptions, internal/lm/nvml.go newSharingLabeler",
    runs="sharing",
    rows=("G-12", "G-13"),
)
def no_mps_with_mig(configuration: Configuration) -> Iterator[Problem]:
    """The MPS control daemon cannot serve a MIG device.

    Under "mixed" the device plugin exits, and under "single" on nodes with MIG devices. On a node whose GPUs are cut by
    MIG, GPU Feature Discovery exits under every strategy, so that the node keeps stale labels. An entry for a MIG resource
    is ignored, because MIG devices have such names only under "mixed". The strategy is the ClusterPolicy's where it has
    one, and the file's otherwise.
    """
    mps = configuration.strategy("mps")
    if mps is None:
        return
    at = configuration.embedded.problem
    steps, _ = configuration.find("flags", "migStrategy")
    of_policy = policy_strategy(configuration.change)
    if of_policy == "mixed":
        text = f"cannot be while spec.mig.strategy of the ClusterPolicy is mixed; {MIXED}"
        yield at(mps.steps, text, "share by timeSlicing, or write spec.mig.strategy: none", of_key=True)
    elif not of_policy and configuration.mig_strategy == "mixed":
        yield at(steps, f"is mixed, and mps shares GPUs below; {MIXED}", "write none, or share by timeSlicing")
    for resource in mps.resources():
        if resource.name.startswith("nvidia.com/mig-"):
            text = f"is {resource.name}, and MPS shares no MIG device; {_NO_EFFECT}"
            yield at((*resource.steps, "name"), text, "share it by timeSlicing", severity=Severity.WARN)
    strategy = of_policy or configuration.mig_strategy or "none"
    if strategy != "mixed":
        yield from _on_cut_nodes(configuration, mps, strategy)


def _on_cut_nodes(configuration: Configuration, mps: Strategy, strategy: str) -> Iterator[Problem]:
    """The nodes with MPS that MIG cuts: those where the plugin exits, and those without new labels."""
    nodes = nodes_using(configuration.change, configuration.key)
    exits, unlabelled = [], []
    for node in () if nodes is UNKNOWN else nodes:
        shown = read_hardware(node)
        if shown is None:
            unlabelled += [node] if has_mig_devices(node) else []
            continue
        hardware, cut = shown
        if plugin_refusal(hardware.gpus, cut, strategy, configuration) == MPS_WITH_MIG:
            exits.append(node)
        elif label_offer(hardware, NodeState(cut, strategy, configuration)).refusal == LABELS_WITH_MIG:
            unlabelled.append(node)
    remedy = "share by timeSlicing, or give these nodes a configuration of their own"
    for found, component, words in (
        (exits, "the device plugin", MPS_WITH_MIG),
        (unlabelled, "GPU Feature Discovery", LABELS_WITH_MIG),
    ):
        if found:
            text = f"is for {the_nodes(found)} too, with GPUs cut by MIG, where {component} would exit with: {words}"
            severity = Severity.WARN if found is unlabelled else None
            yield configuration.embedded.problem(mps.steps, text, remedy, severity=severity, of_key=True)


def has_mig_devices(node: Object) -> bool:
    """True if the labels of a node show MIG devices."""
    labels = labels_of(node)
    return LabelledResource(GPU_RESOURCE, labels).product.profile is not None or bool(labelled_devices(labels))


@CONFIG_MAP.rule(
    "GA140",
    "A shared resource must be one that the device plugin has",
    default=Severity.WARN,
    remedy="write nvidia.com/gpu, or nvidia.com/mig-<profile> with migStrategy mixed",
    source="github.com/NVIDIA/k8s-device-plugin internal/rm/device_map.go updateDeviceMapWithReplicas",
    runs="sharing",
    rows=("G-15", "G-25", "S-31", "S-52"),
)
def known_resources(configuration: Configuration) -> Iterator[Problem]:
    """A resource that no device belongs to is skipped: no error, no log line, and every GPU stays whole.

    The device plugin starts and offers the whole GPUs, so this is a warning.

    MIG devices have resources of their own only under the mixed strategy; under single they are nvidia.com/gpu, and
    under none they are not handed out.
    """
    for resource in configuration.shared_resources():
        if resource.name and name_error(resource.item["name"]) is None:
            yield from _resource_problems(configuration, resource)


def _resource_problems(configuration: Configuration, resource: SharedResource) -> Iterator[Problem]:
    """The problems of a shared resource that the device plugin does not have."""
    steps = (*resource.steps, "name")
    at = configuration.embedded.problem
    known = parse_resource(resource.name)
    strategy = policy_strategy(configuration.change) or configuration.mig_strategy
    if known is None:
        guess = guess_resource(resource.name)
        remedy = f'write "{guess}"' if guess else None
        yield at(steps, f"is {resource.name}; {_NO_EFFECT}", remedy)
    elif known.shared:
        text = f"is {resource.name}, the name that a resource has after it is shared; {_NO_EFFECT}"
        yield at(steps, text, f'write "{resource.name.removesuffix(".shared")}", with renameByDefault: true')
    elif known.mig and known.profile is None:
        text = f"is {resource.name}, which names no MIG profile; {_NO_EFFECT}"
        yield at(steps, text, "write a profile as resources spell it, such as nvidia.com/mig-1g.10gb")
    elif known.mig and strategy in ("none", "single") and resource.strategy.name == "timeSlicing":
        text = (
            f"is {resource.name}, which there is only under the MIG strategy mixed, and it is {strategy}; {_NO_EFFECT}"
        )
        remedy = "write the strategy mixed"
        if strategy == "single":
            remedy += f", or {GPU_RESOURCE}, which a MIG device is under single"
        yield at(steps, text, remedy)
    elif not known.mig and strategy == "single" and resource.strategy.name == "timeSlicing":
        nodes = nodes_using(configuration.change, configuration.key)
        cut = [] if nodes is UNKNOWN else [node for node in nodes if has_mig_devices(node)]
        if cut:
            text = f"slices every MIG device of {the_nodes(cut)}, because under single these are {GPU_RESOURCE}"
            remedy = "leave it so if MIG devices are to be shared"
            yield at(steps, text, remedy, severity=Severity.AUDIT)
