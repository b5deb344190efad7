"""Steps of a cutover: what to do, how to see that it is done, and the way back.

A ClusterPolicy and a GPUCluster exclude each other in the whole cluster, so nodes change while the ClusterPolicy stays: the DRA
driver of its own chart runs on the nodes of the waves that were moved, and a label keeps the device plugin away from them. The
last step exchanges the ClusterPolicy for the GPUCluster when no node has the device plugin any more.

Source: github.com/NVIDIA/gpu-operator controllers/gpucluster_controller.go, nodelabeling_controller.go, state_manager.go;
github.com/kubernetes-sigs/dra-driver-nvidia-gpu deployments/helm/dra-driver-nvidia-gpu.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

from policies.analyses.cutover.cutover_files import DRA_NODES, NVIDIA_DRIVER, device_classes
from policies.analyses.cutover.inventory import (
    DEPLOY_MIG_MANAGER_LABEL,
    WAVE_LABEL,
    cutover_nodes,
    discovery_labels,
    gpu_pods,
    namespace_wave,
    plugin_namespaces,
    serves_gpu_cluster,
)
from policies.configuration.cluster_policy.policy_driver import ALLOW_DELETION
from policies.fleet.device_plugin import active_cluster_policy
from policies.fleet.operands import GPU_CLUSTER
from policies.kubernetes.names import DRA_LABEL, format_count, format_list
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.objects import DEFAULT_NAMESPACE, HelmRelease, lookup, mapping_at, name_of, namespace_of
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.identifiers import DEPLOY_PLUGIN_LABEL
from policies.outcome import subjects_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from policies.analyses.cutover.inventory import CutoverNode, Inventory
    from policies.analyses.cutover.waves import WaveMembers
    from policies.kubernetes.view import ClusterView
    from policies.rules.settings import GPUAdmissionPolicy


class StepKind(StrEnum):
    """The kinds of steps; those of a wave have its number before them: `wave-2-switch`."""

    OPERATOR = "operator"
    LABEL_WAVES = "label-waves"
    DRA_DRIVER = "dra-driver"
    NVIDIA_DRIVER = "nvidia-driver"
    EMPTY = "empty"
    SWITCH = "switch"
    CONVERT = "convert"
    OPEN = "open"
    EXCHANGE = "exchange"
    STALE_LABELS = "stale-labels"


@dataclass(frozen=True, slots=True)
class CutoverStep:
    """A step: its commands, the command that checks it, and those of the way back."""

    id: str
    title: str
    why: str
    """Sentences for people."""
    commands: tuple[str, ...]
    check: str
    """A command that ends with 0 if and only if the step is done."""
    back: tuple[str, ...]
    wave: int | None
    is_done: bool


DRA_CHART = "oci://registry.k8s.io/dra-driver-nvidia/charts/dra-driver-nvidia-gpu"
OPERATOR_CHART = "nvidia/gpu-operator"
_DRA_RELEASE = HelmRelease("dra-driver-nvidia-gpu", "dra-driver-nvidia-gpu")
_MOST_NAMES = 50
"""Nodes of one command, so that it stays short enough for a terminal."""
_PUBLISHED = "NVIDIA's DRA driver publishes no GPUs for it"


def cutover_steps(
    inventory: Inventory, waves: Sequence[WaveMembers], folder: str, is_done: Callable[[str], bool]
) -> tuple[CutoverStep, ...]:
    """The steps in their order.

    Args:
        inventory: The cluster.
        waves: Its waves.
        folder: The folder with the files.
        is_done: True if the step with an id is done.
    """
    found = [*_preparation(inventory, waves, folder)]
    for wave in waves:
        found += _steps_of_wave(wave, inventory)
    found += _last_steps(inventory, folder)
    return tuple(
        CutoverStep(**each._asdict(), check=f"gpu-admission cutover --check {each.id}", is_done=is_done(each.id))
        for each in found
    )


class _Draft(NamedTuple):
    """A step without its check."""

    id: str
    title: str
    why: str
    commands: tuple[str, ...]
    back: tuple[str, ...]
    wave: int | None = None


def driver_release(inventory: Inventory) -> HelmRelease:
    """The release of the DRA driver's own chart, by its DeviceClasses."""
    return next((each.release for each in inventory.classes if each.release is not None), _DRA_RELEASE)


def _install_driver(inventory: Inventory, folder: str) -> str:
    release = driver_release(inventory)
    return (
        f"helm upgrade --install {quote(release.name)} {DRA_CHART} -n {quote(release.namespace)} --create-namespace "
        f"-f {quote(folder)}/dra-driver-values.yaml"
    )


def _upgrade(operator: HelmRelease) -> str:
    return (
        f"helm upgrade {quote(operator.name)} {OPERATOR_CHART} -n {quote(operator.namespace)} --reset-then-reuse-values"
    )


def _preparation(inventory: Inventory, waves: Sequence[WaveMembers], folder: str) -> Iterator[_Draft]:
    operator = inventory.policy_release or HelmRelease("gpu-operator", inventory.operator_namespace)
    upgrade = _upgrade(operator)
    if not inventory.serves_gpu_cluster:
        yield _Draft(
            StepKind.OPERATOR,
            "Upgrade the GPU Operator to a version with GPUClusters",
            "GPUClusters exist since v26.7.0. The ClusterPolicy stays as it is.",
            (upgrade,),
            (f"helm rollback {quote(operator.name)} -n {quote(operator.namespace)}",),
        )
    selector = f"-l {WAVE_LABEL}"
    yield _Draft(
        StepKind.LABEL_WAVES,
        "Label nodes and namespaces with their wave",
        "Later plans and checks read the waves from these labels. To move a node or namespace to another wave, change its label "
        "before that wave begins. Wave 0 has the nodes that use DRA already.",
        tuple(_wave_labels(inventory, waves)),
        (
            f"kubectl label nodes {selector} {WAVE_LABEL}- {DRA_NODES}-",
            f"kubectl label namespaces {selector} {WAVE_LABEL}-",
        ),
    )
    release = driver_release(inventory)
    has_driver = any(each.name == "gpu.nvidia.com" for each in inventory.classes)
    yield _Draft(
        StepKind.DRA_DRIVER,
        "Install the DRA driver for labelled nodes" if not has_driver else "Restrict the DRA driver to labelled nodes",
        f"Its DaemonSet selects nodes with {DRA_NODES}=true, so that it runs on no node that the device plugin serves.",
        (_install_driver(inventory, folder),),
        (
            f"helm rollback {quote(release.name)} -n {quote(release.namespace)}"
            if has_driver
            else f"helm uninstall {quote(release.name)} -n {quote(release.namespace)}",
        ),
    )
    if inventory.driver_owner == "ClusterPolicy":
        policy, no_upgrade = quote(inventory.policy), "--set driver.upgradePolicy.autoUpgrade=false"
        by_helm = inventory.policy_release is not None
        patch = "kubectl patch clusterpolicies.nvidia.com {} --type merge -p '{}'"
        on, off = (
            json.dumps({"spec": {"driver": {"useNvidiaDriverCRD": flag}}}, separators=(",", ":"))
            for flag in (True, inventory.uses_driver_crd)
        )
        yield _Draft(
            StepKind.NVIDIA_DRIVER,
            "Hand the driver over to an NVIDIADriver",
            "With the ClusterPolicy, its driver would be removed from all nodes. The operator leaves the running driver pods "
            "alone; with automatic upgrades off, each is replaced when it is deleted, which an empty node allows.",
            (f"{upgrade} --set driver.nvidiaDriverCRD.enabled=true {no_upgrade}",)
            if by_helm
            else (
                f"kubectl apply -f {quote(folder)}/nvidiadriver.yaml",
                patch.format(policy, on),
            ),
            (f"helm rollback {quote(operator.name)} -n {quote(operator.namespace)}",)
            if by_helm
            else (patch.format(policy, off), f"kubectl delete nvidiadrivers.nvidia.com {NVIDIA_DRIVER}"),
        )


def _wave_labels(inventory: Inventory, waves: Sequence[WaveMembers]) -> Iterator[str]:
    moved = [quote(each.name) for each in inventory.moved]
    for start in range(0, len(moved), _MOST_NAMES):
        names = " ".join(moved[start : start + _MOST_NAMES])
        yield f"kubectl label nodes {names} --overwrite {WAVE_LABEL}=0 {DRA_NODES}=true"
    for wave in waves:
        nodes = [quote(each.name) for each in wave.nodes]
        for start in range(0, len(nodes), _MOST_NAMES):
            names = " ".join(nodes[start : start + _MOST_NAMES])
            yield f"kubectl label nodes {names} --overwrite {WAVE_LABEL}={wave.number}"
        if wave.namespaces:
            names = " ".join(map(quote, wave.namespaces))
            yield f"kubectl label namespaces {names} --overwrite {WAVE_LABEL}={wave.number}"


def _steps_of_wave(wave: WaveMembers, inventory: Inventory) -> Iterator[_Draft]:
    selector = f"-l {WAVE_LABEL}={wave.number}"
    bare = any(each.name in inventory.unmanaged_pods for each in wave.nodes)
    drain = f"kubectl drain {selector} --ignore-daemonsets --delete-emptydir-data{' --force' if bare else ''}"
    uncordon = f"kubectl uncordon {selector}"
    prefix = f"wave-{wave.number}-"
    yield _Draft(
        f"{prefix}{StepKind.EMPTY}",
        f"Wave {wave.number}: empty {format_count(len(wave.nodes), 'node')}",
        "A pod that holds a GPU by the device plugin must not run where DRA hands it out once more.",
        (drain,),
        (uncordon,),
        wave=wave.number,
    )
    off = f"{DEPLOY_PLUGIN_LABEL}=false {DEPLOY_MIG_MANAGER_LABEL}=false {DRA_NODES}=true"
    yield _Draft(
        f"{prefix}{StepKind.SWITCH}",
        f"Wave {wave.number}: exchange the device plugin for the DRA driver",
        "The operator removes its device plugin and MIG manager from nodes with these labels, and the DRA driver starts there. "
        "Wait until the check succeeds before the nodes are opened.",
        (f"kubectl label nodes {selector} --overwrite {off}",),
        tuple(_plugin_back(wave)),
        wave=wave.number,
    )
    if wave.namespaces:
        of_namespaces = f"kubectl label namespaces {selector}"
        names = " ".join(quote(each) for each in wave.namespaces if each in inventory.previews)
        previews = (f"kubectl label namespaces {names} --overwrite {DRA_LABEL}=preview",) if names else ()
        yield _Draft(
            f"{prefix}{StepKind.CONVERT}",
            f"Wave {wave.number}: convert the pods of {format_count(len(wave.namespaces), 'namespace')}",
            f"New pods of {format_list([*wave.namespaces])} get claims, and so places on nodes with DRA only. Delete pods that wait "
            "since the drain, so that their controllers create converted ones.",
            (f"{of_namespaces} --overwrite {DRA_LABEL}=enabled",),
            (f"{of_namespaces} {DRA_LABEL}-", *previews),
            wave=wave.number,
        )
    yield _Draft(
        f"{prefix}{StepKind.OPEN}",
        f"Wave {wave.number}: open the nodes",
        "Pods with claims, and plain pods where a DeviceClass stands for nvidia.com/gpu, may run there now.",
        (uncordon,),
        (drain,),
        wave=wave.number,
    )


def _plugin_back(wave: WaveMembers) -> Iterator[str]:
    """Commands that give the nodes of a wave their labels of before, as the operator sets them."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for node in wave.nodes:
        is_moved = node.deploys.get(DEPLOY_PLUGIN_LABEL) == "false"
        found = {DEPLOY_PLUGIN_LABEL: "true"} if is_moved else dict(node.deploys)
        texts = [
            f"{name}={quote(found[name])}" if name in found else f"{name}-"
            for name in (DEPLOY_PLUGIN_LABEL, DEPLOY_MIG_MANAGER_LABEL)
        ]
        groups[" ".join(texts)].append(quote(node.name))
    for changes, names in groups.items():
        which = f"-l {WAVE_LABEL}={wave.number}" if len(groups) == 1 else " ".join(names)
        yield f"kubectl label nodes {which} --overwrite {changes} {DRA_NODES}-"


def _last_steps(inventory: Inventory, folder: str) -> Iterator[_Draft]:
    release, where = driver_release(inventory), quote(folder)
    install = _install_driver(inventory, folder)
    # The operator sets missing labels to true, so the device plugin would start beside the DRA driver.
    keep_off = f"kubectl label nodes -l {WAVE_LABEL} --overwrite {DEPLOY_PLUGIN_LABEL}=false {DEPLOY_MIG_MANAGER_LABEL}=false {DRA_NODES}=true"
    delete = f"kubectl delete gpuclusters.nvidia.com {GPU_CLUSTER}"
    if operator := inventory.policy_release:
        upgrade = _upgrade(operator)
        # Helm creates what is new before it deletes, and a GPUCluster beside a ClusterPolicy is refused.
        exchange = [f"{upgrade} --set clusterPolicy.deployCR=false", f"{upgrade} -f {where}/operator-values.yaml"]
        back = (
            delete,
            keep_off,
            f"{upgrade} --set clusterPolicy.deployCR=true --set gpuCluster.deployCR=false",
            install,
        )
    else:
        exchange = [
            f"kubectl delete clusterpolicies.nvidia.com {quote(inventory.policy)}",
            f"kubectl apply -f {where}/gpucluster.yaml",
        ]
        back = (delete, keep_off, f"kubectl apply -f {where}/clusterpolicy.yaml", install)
    yield _Draft(
        StepKind.EXCHANGE,
        "Exchange the ClusterPolicy for the GPUCluster",
        "Only when all waves are open, and no workload requests resources of the device plugin any more. Helm removes the "
        "DeviceClasses with the driver's own chart, so they are applied again at once; until then, new pods with claims wait, and "
        "namespaces that convert refuse pods. Running pods go on. The operator takes the classes over, and removes "
        "extendedResourceName from them.",
        (
            f"helm uninstall {quote(release.name)} -n {quote(release.namespace)}",
            f"kubectl apply -f {where}/deviceclasses.yaml",
            f"kubectl annotate clusterpolicies.nvidia.com {quote(inventory.policy)} --overwrite {ALLOW_DELETION}=true",
            *exchange,
        ),
        back,
    )
    if inventory.discovery_labels:
        removed = " ".join(f"{quote(name)}-" for name in inventory.discovery_labels)
        yield _Draft(
            StepKind.STALE_LABELS,
            "Remove labels that no component updates any more",
            "Without GPU Feature Discovery its labels stay as they are, whatever becomes of the GPUs. If they come back, delete the "
            f"NodeFeatures nvidia-features-for-NODE in namespace {inventory.operator_namespace}.",
            (f"kubectl label nodes --all {removed}",),
            (f"sh {where}/node-labels.sh",),
        )


def open_points(step_id: str, view: ClusterView, settings: GPUAdmissionPolicy) -> tuple[str, ...] | None:
    """Return what a step lacks, sentences without full stops; empty if it is done.

    Nothing that is unknown counts as done. None if there is no such step.
    """
    wave, kind = _parse_id(step_id)
    if kind is None:
        return None
    if wave is not None:
        return tuple(_open_in_wave(kind, wave, view))
    match kind:
        case StepKind.OPERATOR:
            return (
                ()
                if serves_gpu_cluster(view, settings)
                else ("the version of the operator is unknown, or older than v26.7.0",)
            )
        case StepKind.LABEL_WAVES:
            return tuple(_find_unlabelled(view, settings))
        case StepKind.DRA_DRIVER:
            return (*_missing_classes(view), *_unrestricted_driver(view))
        case StepKind.NVIDIA_DRIVER:
            return tuple(_open_of_driver(view))
        case StepKind.EXCHANGE:
            return tuple(_open_of_exchange(view))
        case StepKind.STALE_LABELS:
            if view.list("Node") is UNKNOWN:
                return ("nodes are unknown",)
            found = discovery_labels(view)
            return (f"nodes have {format_list(found)}",) if found else ()
    return None


_OF_WAVES = (StepKind.EMPTY, StepKind.SWITCH, StepKind.CONVERT, StepKind.OPEN)


def _parse_id(step_id: str) -> tuple[int | None, StepKind | None]:
    """The wave and the kind of a step; no kind if there is no such step."""
    wave, name = None, step_id
    if step_id.startswith("wave-"):
        number, _, name = step_id.removeprefix("wave-").partition("-")
        wave = int(number) if number.isascii() and number.isdecimal() and len(number) <= 4 else None
        if wave is None:
            return None, None
    kind = next((each for each in StepKind if each == name), None)
    return (wave, kind) if kind is None or (kind in _OF_WAVES) == (wave is not None) else (None, None)


def _find_unlabelled(view: ClusterView, settings: GPUAdmissionPolicy) -> Iterator[str]:
    if view.list("Node") is UNKNOWN or view.list("Namespace") is UNKNOWN:
        yield "nodes or namespaces are unknown"
        return
    nodes = [each.name for each in cutover_nodes(view) if each.wave is None]
    if nodes:
        yield f"{format_count(len(nodes), 'node')} without {WAVE_LABEL}: {format_list(nodes)}"
    namespaces = plugin_namespaces(subjects_of(view, settings))
    missing = [name for name in namespaces if namespace_wave(name, view) is None]
    if missing:
        yield f"{format_count(len(missing), 'namespace')} without {WAVE_LABEL}: {format_list(missing)}"


def _missing_classes(view: ClusterView) -> Iterator[str]:
    for each in map(name_of, device_classes()):
        found = view.get("DeviceClass", each)
        if not isinstance(found, dict):
            yield f"DeviceClass {each} {'is unknown' if found is UNKNOWN else 'does not exist'}"


def _unrestricted_driver(view: ClusterView) -> Iterator[str]:
    selectors = [
        mapping_at(each, ("spec", "template", "spec", "nodeSelector")) for each in view.known_objects("DaemonSet")
    ]
    if not any(each.get(DRA_NODES) == "true" for each in selectors):
        yield f"no DaemonSet is known that selects nodes with {DRA_NODES}=true"


def _open_of_driver(view: ClusterView) -> Iterator[str]:
    policy = active_cluster_policy(view)
    if lookup(policy, ("spec", "driver", "useNvidiaDriverCRD")) is not True:
        yield "the ClusterPolicy does not set driver.useNvidiaDriverCRD: true, or is unknown"
    if not view.known_objects("NVIDIADriver"):
        yield "no NVIDIADriver is known"


def _open_in_wave(kind: StepKind, wave: int, view: ClusterView) -> Iterator[str]:
    if kind is StepKind.CONVERT:
        namespaces = view.list("Namespace")
        members = [each for each in view.known_objects("Namespace") if namespace_wave(name_of(each), view) == wave]
        if namespaces is UNKNOWN or not members:
            yield f"no namespace with {WAVE_LABEL}={wave} is known"
        for each in members:
            if lookup(each, ("metadata", "labels", DRA_LABEL)) != "enabled":
                yield f"namespace {name_of(each)} does not have {DRA_LABEL}=enabled"
        return
    nodes = [each for each in cutover_nodes(view) if each.wave == wave]
    if not nodes:
        yield f"no node with {WAVE_LABEL}={wave} is known"
        return
    if kind is StepKind.EMPTY:
        yield from _open_of_empty(nodes, view)
        return
    documents = {name_of(each): labels_of(each) for each in view.known_objects("Node")}
    for node in nodes:
        labels = documents[node.name]
        if labels.get(DEPLOY_PLUGIN_LABEL) != "false" or labels.get(DRA_NODES) != "true":
            yield f"node {node.name} does not have {DEPLOY_PLUGIN_LABEL}=false and {DRA_NODES}=true"
        elif node.offers:
            yield f"node {node.name}: the device plugin still hands out {format_list([*node.offers])}"
        elif not node.is_published:
            yield f"node {node.name}: {_PUBLISHED}"
        elif kind is StepKind.OPEN and node.is_cordoned:
            yield f"node {node.name} is cordoned"


def _open_of_empty(nodes: Sequence[CutoverNode], view: ClusterView) -> Iterator[str]:
    if view.list("Pod") is UNKNOWN:
        yield "pods are unknown"
    names = {each.name for each in nodes}
    for node in nodes:
        if not node.is_cordoned:
            yield f"node {node.name} is not cordoned"
    for pod in gpu_pods(view):
        node_name = str(lookup(pod, ("spec", "nodeName")))
        if node_name in names:
            yield f"pod {namespace_of(pod) or DEFAULT_NAMESPACE}/{name_of(pod)} may hold GPUs of node {node_name}"


def _open_of_exchange(view: ClusterView) -> Iterator[str]:
    policies = view.list("ClusterPolicy")
    if policies is UNKNOWN or policies:
        which = "which exist is unknown" if policies is UNKNOWN else format_list([*map(name_of, policies)])
        yield f"the ClusterPolicy must be gone: {which}"
    cluster = view.get("GPUCluster", GPU_CLUSTER)
    state = lookup(cluster, ("status", "state"))
    if state != "ready":
        yield f"GPUCluster {GPU_CLUSTER} is not ready: {state or 'it has no state, or is unknown'}"
    yield from _missing_classes(view)
    missing = [each.name for each in cutover_nodes(view) if not each.is_published]
    if missing:
        yield f"{format_count(len(missing), 'node')} without published GPUs: {format_list(missing)}"
