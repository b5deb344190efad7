"""Changes of nodes: what one node offers after its configuration has changed, and why."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from policies.fleet.device_plugin import WORKLOADS
from policies.fleet.offers import (
    Cut,
    Hardware,
    NodeState,
    estimated_sizes,
    measured_sizes,
    possible_hardware,
    read_hardware,
)
from policies.fleet.offers.hardware import gpu_number, shown_driver
from policies.fleet.offers.offer import is_label_of_discovery, is_label_of_state, label_offer, plugin_offer
from policies.fleet.offers.published import (
    domain_slice,
    domain_slices,
    gpu_slices,
    node_slices,
    slice_key,
    with_driver_version,
)
from policies.fleet.operands import cluster_labels
from policies.kubernetes.names import format_count, format_list
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.objects import lookup, mapping_at, mappings_at, name_of
from policies.kubernetes.quantities import ONE, billionths
from policies.nvidia.identifiers import (
    CLIQUE_LABEL,
    GPU_RESOURCE,
    PRESENT_LABEL,
)
from policies.nvidia.mig import is_for_machines, parse_resource
from policies.nvidia.mig_configs import WHOLE
from policies.nvidia.mig_parted import GPUModel, GPUState, apply_entries
from policies.nvidia.mig_products import PRODUCTS, MemoryEstimate, device_ids
from policies.nvidia.releases import NVIDIAFeature
from policies.outcome import Certainty

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from policies.analyses.plan.node_configuration import NodeConfiguration
    from policies.fleet.offers import DriverState
    from policies.fleet.offers.published import Parts
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView, Key
    from policies.nvidia.mig import MIGProfile
    from policies.nvidia.mig_products import MIGSize


_DYNAMIC = (
    "the DRA driver makes MIG devices for claims (DynamicMIG), and publishes all that are possible: it destroys those that the "
    "MIG manager makes when it starts again, and until then claims that need their place fail on the node"
)
"""Source: github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin driver.go DestroyUnknownMIGDevices."""


@dataclass(frozen=True, slots=True)
class NodeChange:
    """A node whose GPUs are configured otherwise after the change."""

    node: str
    before: str
    """The offer: `8 nvidia.com/gpu`, `2 GPUs of the DRA driver`, `nothing`."""
    after: str
    """The same after the change; `unknown` if that is not known."""
    reasons: tuple[str, ...]
    """The changes, as clauses."""
    interrupts: str = ""
    """The reason why pods that hold its GPUs cannot go on, as a clause; empty if they can."""
    unknown: str = ""
    """The reason why the later offer is unknown; empty if it is known."""
    refusal: str = ""
    """The message with which the device plugin exits on the node afterwards; empty if it starts, or does not run."""
    certainty: Certainty = Certainty.PREDICTED
    """The certainty of `after`: predicted or unknown."""
    estimates: tuple[MemoryEstimate, ...] = ()
    """The MIG devices afterwards whose memory is estimated; everything else that is predicted is exact."""
    resources: frozenset[str] = field(default=frozenset(), metadata={"exclude": True})
    """The resources of the device plugin that it offers afterwards. pydantic leaves them out of JSON."""
    gone: frozenset[str] = field(default=frozenset(), metadata={"exclude": True})
    """The resources of virtual machines that it certainly offers no more; left out of JSON as well."""


@dataclass(frozen=True, slots=True)
class ChangedObjects:
    """The objects that differ after a change."""

    changed: dict[Key, Object | None]
    ends: tuple[dict[Key, Object | None], dict[Key, Object | None]] = field(default_factory=lambda: ({}, {}))
    """Those with estimates, with the least and with the most that is possible."""
    labels: dict[str, tuple[int, int]] = field(default_factory=dict)
    """As `Prediction.labels`."""
    parts: Parts = field(default_factory=dict)
    """The slices that were predicted so far."""
    moved: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """The nodes where a DRA driver takes the place of the device plugin, each with its labels before."""


@dataclass(frozen=True, slots=True)
class _Transition:
    """A node before and after a change."""

    old: Object
    node: Object
    """The node as it is stored after the change, with its offers as before."""
    was: NodeConfiguration
    will_be: NodeConfiguration
    slices: Sequence[Object]
    """Those of the GPUs before the change."""
    domains: Sequence[Object]
    """Those of ComputeDomains before the change."""


def node_change(
    old: Object,
    node: Object,
    was: NodeConfiguration,
    will_be: NodeConfiguration,
    view: ClusterView,
    found: ChangedObjects,
) -> NodeChange | None:
    """The changes on a node; its new objects are added to those found."""
    name, slices = name_of(node), view.derive(gpu_slices).get(name_of(node), ())
    node, gone = _without_resources_of_machines(node, was, will_be)
    leaves_machines = was.workload not in (WORKLOADS[0], will_be.workload)
    interrupts = _LEAVES_MACHINES if leaves_machines else ""
    change = NodeChange(name, _offers(old, slices), "unknown", tuple(_reasons(was, will_be)), interrupts, gone=gone)
    if WORKLOADS[0] not in (was.workload, will_be.workload):
        if not gone and not leaves_machines:
            return None
        found.changed["Node", "", name] = node
        if will_be.serves_machines:
            missing = f"which resources of {will_be.workload} it offers is not predicted"
            return replace(change, unknown=missing, certainty=Certainty.UNKNOWN)
        return replace(change, after=_offers(node, slices))
    devices = [device for each in slices for device in mappings_at(each, ("spec", "devices"))]
    shown = read_hardware(old, devices, view.derive(measured_sizes))
    transition = _Transition(old, node, was, will_be, slices, view.derive(domain_slices).get(name, ()))
    unknown = will_be.unknown or (will_be.unknown_cut if _is_cut_anew(was, will_be) else "")
    if shown is None and (will_be.advertises or _later_driver(transition) is not None):
        unknown = unknown or "its labels do not say which GPUs it has"
    elif shown is not None and not unknown:
        _, unknown = _state(*shown, was, will_be)
    if not unknown:
        hardware, cut = shown or (Hardware("", 0, None, None), Cut(0))
        return _known_change(change, transition, hardware, cut, found)
    offered = mapping_at(node, ("status", "allocatable"))
    without = {each: "0" if parse_resource(each) is not None else amount for each, amount in offered.items()}
    found.changed["Node", "", name] = {**node, "status": {**mapping_at(node, ("status",)), "allocatable": without}}
    found.changed.update((slice_key(each), _without_devices(each)) for each in slices)
    reasons = change.reasons or ("its configuration changes",)
    return replace(change, reasons=reasons, unknown=unknown, certainty=Certainty.UNKNOWN)


def _known_change(
    change: NodeChange, transition: _Transition, hardware: Hardware, cut: Cut, found: ChangedObjects
) -> NodeChange | None:
    """The change of a node whose GPUs are known, and how they are cut before it."""
    old, node, was, will_be = transition.old, transition.node, transition.was, transition.will_be
    slices, driver = transition.slices, _later_driver(transition)
    (was_state, _), (state, _) = (_state(hardware, cut, was, each) for each in (was, will_be))
    state = replace(state, driver=driver)
    if will_be.reloads_driver(was):
        hardware = with_driver_version(hardware, will_be.new_driver_version)
        if not will_be.has_mig_manager:
            cut = state.cut.after_reload(hardware.gpus, turns_freely=hardware.turns_mig_freely)
            state = replace(state, cut=cut)
    is_recut = (was_state.cut.whole, was_state.cut.devices) != (state.cut.whole, state.cut.devices)
    plugin = plugin_offer(hardware.gpus, state)
    resources = dict(plugin.resources)
    if will_be.has_foreign_plugin:
        resources = _resources(old)
    elif not is_recut:
        resources = _without_unhealthy(resources, old, hardware.gpus, was_state, state)
    new_node = _with_offer(node, resources, _later_labels(node, hardware, state, will_be))
    is_republished = will_be.manages_dra(was) and (was.driver, was.missing_driver) != (driver, will_be.missing_driver)
    is_same = _same_offers(old, new_node) and not is_recut and not is_republished and was.domains == will_be.domains
    if is_same and not will_be.loses_driver(was) and not change.interrupts:
        return None
    new_slices: Mapping[Key, Object | None] | str = {}
    if driver is None and (was.driver is not None or will_be.loses_driver(was)):
        new_slices = dict.fromkeys(map(slice_key, slices))
    elif driver is not None and (is_republished or (slices and is_recut)):
        new_slices = node_slices(change.node, slices, hardware, state, found.parts)
    if driver is not None and not new_slices and will_be.reloads_driver(was):
        # The same devices, which have another driver.
        devices = {str(each["name"]): each for published in hardware.devices.values() for each in published}
        new_slices = {slice_key(each): _with_devices(each, devices) for each in slices}
    unknown = ""
    if isinstance(new_slices, str):
        unknown, new_slices = new_slices, {slice_key(each): _without_devices(each) for each in slices}
    found.changed.update({("Node", "", change.node): new_node, **new_slices, **_changed_domains(transition)})
    if new_slices and was.advertises and not will_be.advertises and driver is not None:
        found.moved[change.node] = labels_of(old)
    state = replace(state, driver=driver if new_slices else None)
    sizes = {} if unknown else estimated_sizes(hardware, state)
    if sizes:
        _add_ends(found, transition, hardware, state, resources, sizes)
    after = {slice_key(each): each for each in slices} | {**new_slices}
    offers = _offers(new_node, [each for each in after.values() if each is not None])
    reasons = [*change.reasons, f"the device plugin exits with: {plugin.refusal}" if plugin.refusal else ""]
    if is_recut:
        is_dynamic = driver is not None and "DynamicMIG" in driver.gates
        reasons.append(_NOT_RECUT if will_be.reloads_driver(was) and not is_dynamic else "")
        reasons.append(_DYNAMIC if will_be.has_mig_manager and is_dynamic else "")
    return replace(
        change,
        after="unknown" if unknown else offers,
        reasons=tuple(filter(None, reasons)),
        interrupts=_interruption(transition, is_recut=is_recut) or change.interrupts,
        unknown=unknown,
        refusal=plugin.refusal,
        certainty=Certainty.UNKNOWN if unknown else Certainty.PREDICTED,
        estimates=MemoryEstimate.of(sizes),
        resources=frozenset(_resources(new_node)),
    )


_NOT_RECUT = "MIG devices do not survive that the driver is loaded anew, and there is no MIG manager to make them again"


def _later_driver(transition: _Transition) -> DriverState | None:
    """The DRA driver on a node after the change: the operator's, or another one that publishes there."""
    was, will_be = transition.was, transition.will_be
    if will_be.loses_driver(was):
        return None
    return will_be.driver or (shown_driver(transition.slices) if was.driver is None else None)


def _changed_domains(transition: _Transition) -> dict[Key, Object | None]:
    """The slices of ComputeDomains that the operator's driver adds or takes away."""
    was, will_be = transition.was.domains, transition.will_be.domains
    if was == will_be or (will_be and transition.domains and not was):
        return {}
    gone: dict[Key, Object | None] = {slice_key(each): None for each in transition.domains}
    made = domain_slice(name_of(transition.node), will_be)
    return gone | ({slice_key(made): made} if will_be else {})


def _interruption(transition: _Transition, *, is_recut: bool) -> str:
    """The reason why pods that hold GPUs of a node cannot go on; empty if they can.

    Source: github.com/NVIDIA/gpu-operator controllers/nodelabeling_controller.go updateGPUStateLabels;
    github.com/NVIDIA/k8s-driver-manager, which ends pods with GPUs before it loads a driver.
    """
    was, will_be = transition.was, transition.will_be
    if will_be.loses_driver(was):
        return "the driver is taken from the node"
    if will_be.reloads_driver(was):
        return f"{will_be.gpu_driver} loads the driver of the node anew, which ends pods with GPUs, or fails while they run"
    if is_recut:
        return "MIG cuts the GPUs of the node anew, which fails while they are in use, or takes them from the pods"
    if was.driver is not None and will_be.driver is None:
        return "without the DRA driver their claims are not unprepared, so that pods with claims stay Terminating"
    if was.advertises and was.driver is None and will_be.driver is not None:
        return "the DRA driver hands the same GPUs out again, for claims"
    return ""


def _later_labels(node: Object, hardware: Hardware, state: NodeState, will_be: NodeConfiguration) -> Mapping[str, str]:
    """The labels of a node after its components have started again, or are gone."""
    labels = labels_of(node)
    if will_be.stack == "GPUCluster":
        labels = cluster_labels(labels)
    if not will_be.keeps_labels:
        kept = CLIQUE_LABEL if will_be.domains else ""
        return {name: value for name, value in labels.items() if name == kept or not is_label_of_discovery(name)}
    offer = label_offer(hardware, state)
    if will_be.stack != "ClusterPolicy" or offer.refusal:
        return labels
    return {name: value for name, value in labels.items() if not is_label_of_state(name)} | {**offer.labels}


def _add_ends(
    found: ChangedObjects,
    transition: _Transition,
    hardware: Hardware,
    state: NodeState,
    resources: Mapping[str, int],
    sizes: Mapping[MIGProfile, MIGSize],
) -> None:
    """Add the node, and slices that change, with the least and the most memory that is possible."""
    node, name, slices, labels = transition.node, name_of(transition.node), transition.slices, []
    for end, possible in zip(found.ends, possible_hardware(hardware, sizes), strict=True):
        labels.append(_later_labels(node, possible, state, transition.will_be))
        end["Node", "", name] = _with_offer(node, resources, labels[-1])
        recut = node_slices(name, slices, possible, state, found.parts) if state.driver is not None else {}
        if not isinstance(recut, str):
            end.update(recut)
    least, most = labels
    for name in label_offer(hardware, state).predicted & least.keys():
        known = found.labels.get(name, (int(least[name]), int(most[name])))
        found.labels[name] = min(known[0], int(least[name])), max(known[1], int(most[name]))


def _state(
    hardware: Hardware, cut: Cut, was: NodeConfiguration, configuration: NodeConfiguration
) -> tuple[NodeState, str]:
    """The state of a node's GPUs by a configuration; `cut` is that by the configuration before it.

    Where MIG is on and no label counts the devices, as under the strategy `none`, they are those of the configuration. The
    second value says why mig-parted fails, as a clause; empty if it does not.
    """
    failure = ""
    is_cut_anew = _is_cut_anew(was, configuration) and bool(configuration.mig_config)
    is_unknown = cut.has_mig(hardware.gpus) and not cut.devices and not cut.by_gpu
    if is_cut_anew and configuration.mig_config in WHOLE:
        cut = Cut.of([None] * hardware.gpus)
    elif configuration.mig_entries and (is_cut_anew or is_unknown):
        ids = device_ids(hardware.product)
        before = [GPUState(gpu is not None, gpu or {}) for gpu in cut.by_gpu]
        runs = [
            apply_entries(configuration.mig_entries, [GPUModel(geometry, ids)] * hardware.gpus, before)
            for product in ([hardware.mig] if hardware.mig is not None else PRODUCTS)
            for geometry in product.geometries
        ]
        run = min(runs, key=lambda each: (len(each.ignored), each.error is not None))
        cut = Cut.of(state.devices if state.is_mig_enabled else None for state in run.states)
        failure = "" if run.error is None else f"mig-parted fails on GPU {run.error.gpu}: {run.error.words}"
    state = NodeState(cut, configuration.strategy, configuration.config, has_plugin=configuration.advertises)
    return state, failure


def _is_cut_anew(was: NodeConfiguration, will_be: NodeConfiguration) -> bool:
    return (was.mig_config, was.mig_entries) != (will_be.mig_config, will_be.mig_entries)


def _without_unhealthy(
    resources: dict[str, int], node: Object, gpus: int, was: NodeState, will_be: NodeState
) -> dict[str, int]:
    """The resources without the unhealthy GPUs, which a node has and does not offer."""
    (old_name, old_replicas), (name, replicas) = (_gpu_resource(each) for each in (was, will_be))
    offered, expected = _resources(node).get(old_name, 0), plugin_offer(gpus, was).resources.get(old_name, 0)
    if not 0 < offered < expected or name not in resources:
        return resources
    return {**resources, name: max(0, resources[name] - (expected - offered) // old_replicas * replicas)}


def _gpu_resource(state: NodeState) -> tuple[str, int]:
    """The name of `nvidia.com/gpu` after it is shared, and the number of shares of a GPU."""
    sharing = state.config.sharing
    return (
        (GPU_RESOURCE, 1) if sharing is None else (sharing.offered_name(GPU_RESOURCE), sharing.replicas(GPU_RESOURCE))
    )


def _with_offer(node: Object, resources: Mapping[str, int], labels: Mapping[str, str]) -> Object:
    """The node after its components start again; resources that are gone stay with an amount of 0."""
    status = dict(mapping_at(node, ("status",)))
    for field_name in ("allocatable", "capacity"):
        amounts = mapping_at(status, (field_name,))
        gone = {name: "0" for name in amounts if parse_resource(name) is not None}
        status[field_name] = {**amounts, **gone, **{name: str(count) for name, count in resources.items()}}
    return {**node, "metadata": {**node["metadata"], "labels": {**labels}}, "status": status}


def _reasons(was: NodeConfiguration, will_be: NodeConfiguration) -> Iterator[str]:
    if was.stack and not will_be.stack:
        yield "the operator removes its components"
    elif will_be.missing_driver and (was.stack, was.missing_driver) != (will_be.stack, will_be.missing_driver):
        yield f"the DRA driver does not run there: {will_be.missing_driver}"
    elif will_be.driver is not None and was.driver != will_be.driver:
        replaced = " in place of the device plugin" if was.advertises and not will_be.advertises else ""
        yield f"the operator's DRA driver runs there{replaced}{_driver_words(will_be.driver)}"
    elif was.driver is not None and will_be.driver is None:
        replaced = " in place of the DRA driver" if will_be.advertises else ""
        yield f"the device plugin runs there{replaced}" if replaced else "the DRA driver does not run there any more"
    if will_be.loses_driver(was) and will_be.workload in ("", WORKLOADS[0]):
        yield "the operator removes its driver, and its host is not known to have one"
    if was.stack != will_be.stack:
        return
    if bool(was.domains) != bool(will_be.domains):
        yield f"the driver of ComputeDomains {'runs there' if will_be.domains else 'does not run there any more'}"
    if was.keeps_labels and not will_be.keeps_labels:
        yield "GPU Feature Discovery is removed, and its labels with it"
    if was.workload != will_be.workload:
        purposes = {WORKLOADS[0]: "containers", "": ""}
        old, new = (purposes.get(each.workload, each.workload) for each in (was, will_be))
        yield f"its GPUs are for {new} instead of {old}" if new else f"its GPUs are no longer for {old}"
    elif was.serves_machines and not will_be.serves_machines:
        yield "the device plugin for virtual machines does not run there any more"
    elif was.advertises != will_be.advertises:
        yield "the device plugin runs there" if will_be.advertises else "the device plugin does not run there any more"
    if _is_cut_anew(was, will_be):
        yield f"MIG configuration {will_be.mig_config or 'none'}"
    if was.strategy != will_be.strategy:
        yield f"MIG strategy {will_be.strategy}"
    sharing = will_be.config.sharing
    if was.config.sharing != sharing:
        renamed = ", renamed" if sharing is not None and sharing.is_renamed else ""
        entries = () if sharing is None else sharing.entries
        parts = [f"{name} {sharing.strategy} by {replicas}{renamed}" for name, replicas in entries if sharing]
        yield f"sharing: {'; '.join(parts)}" if parts else "GPUs are no longer shared"


def _driver_words(driver: DriverState) -> str:
    """The feature gates and shares of the DRA driver, as the end of a clause."""
    words = sorted(driver.gates - {NVIDIAFeature.ConsumableShares.name})
    if driver.shares:
        words.append(f"GPUs {_sharing_words(driver)}")
    return f", with {format_list(words)}" if words else ""


def _sharing_words(driver: DriverState) -> str:
    words = {"memory": "shared by memory", "unlimited": "shared without a limit"}
    return words.get(driver.shares, f"in {driver.shares} shares each")


def has_gpus(node: Object, view: ClusterView) -> bool:
    """True if a node offers GPUs, also to virtual machines, publishes some, or says that it has some."""
    labels = labels_of(node)
    slices = view.derive(gpu_slices).get(name_of(node), ())
    is_published = any(mappings_at(each, ("spec", "devices")) for each in slices)
    offers = bool(_resources(node)) or bool(_resources_of_machines(node))
    return offers or PRESENT_LABEL in labels or is_published


def _resources(node: Object) -> dict[str, int]:
    """The resources of the device plugin that a node offers, with an amount above 0."""
    offered = mapping_at(node, ("status", "allocatable"))
    found = {name: billionths(amount) // ONE for name, amount in offered.items()}
    return {name: amount for name, amount in found.items() if amount and parse_resource(name) is not None}


def _resources_of_machines(node: Object) -> dict[str, int]:
    """The GPUs and vGPUs that a node offers to virtual machines, with an amount above 0."""
    offered = mapping_at(node, ("status", "allocatable"))
    found = {name: billionths(amount) // ONE for name, amount in offered.items() if is_for_machines(name)}
    return {name: amount for name, amount in found.items() if amount}


_LEAVES_MACHINES = "the operator takes its GPUs from virtual machines, which fails while they are in use"


def _without_resources_of_machines(
    node: Object, was: NodeConfiguration, will_be: NodeConfiguration
) -> tuple[Object, frozenset[str]]:
    """The node without the GPUs and vGPUs that virtual machines lose, and the names of these resources.

    Source: github.com/NVIDIA/gpu-operator controllers/state_manager.go gpuStateLabels.
    """
    is_served = will_be.serves_machines and will_be.workload == was.workload
    gone = frozenset(_resources_of_machines(node)) if was.serves_machines and not is_served else frozenset()
    status = dict(mapping_at(node, ("status",)))
    for field_name in ("allocatable", "capacity"):
        status[field_name] = {**mapping_at(status, (field_name,)), **dict.fromkeys(gone, "0")}
    return ({**node, "status": status} if gone else node), gone


def _same_offers(old: Object, new: Object) -> bool:
    """True if resources and labels are the same, other than the numbers of memory, which are estimates."""
    labels = [
        {name: value for name, value in labels_of(node).items() if not name.endswith(".memory")} for node in (old, new)
    ]
    return _resources(old) == _resources(new) and labels[0] == labels[1]


def _offers(node: Object, slices: Sequence[Object]) -> str:
    """The offer of a node: `8 nvidia.com/gpu`, `2 GPUs and 4 1g.10gb of the DRA driver`."""
    resources = {**_resources(node), **_resources_of_machines(node)}
    parts = [f"{amount} {name}" for name, amount in sorted(resources.items())]
    counts: Counter[str] = Counter()
    divisible: defaultdict[int | None, bool] = defaultdict(bool)
    for document in slices:
        for device in mappings_at(document, ("spec", "devices")):
            kind, profile = (str(lookup(device, ("attributes", name, "string")) or "") for name in ("type", "profile"))
            if "consumesCounters" in device:
                divisible[gpu_number(device)] |= not profile
            else:
                counts[profile or kind] += 1
    counts.update("whole or cut on demand" if is_whole else "cut on demand" for is_whole in divisible.values())
    words = {"": "", "gpu": "", "vfio": " for virtual machines"}
    words |= {each: f" {each}" for each in ("whole or cut on demand", "cut on demand")}
    devices = [
        f"{format_count(count, 'GPU')}{words[kind]}" if kind in words else f"{count} {kind}"
        for kind, count in counts.items()
    ]
    if devices:
        driver = shown_driver(slices)
        shares = f" ({_sharing_words(driver)})" if driver is not None and driver.shares else ""
        parts.append(f"{', '.join(devices)}{shares} of the DRA driver")
    return "; ".join(parts) or "nothing"


def _with_devices(document: Object, devices: Mapping[str, Object]) -> Object:
    """A ResourceSlice with other forms of its devices, by name."""
    published = [devices.get(str(each.get("name")), each) for each in mappings_at(document, ("spec", "devices"))]
    return {**document, "spec": {**document["spec"], "devices": published}}


def _without_devices(document: Object) -> Object:
    return {**document, "spec": {**document["spec"], "devices": []}}
