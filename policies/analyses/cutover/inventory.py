"""Inventories: what a cluster has of the device plugin and of DRA before a cutover, and who uses it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping  # noqa: TC003 - pydantic reads the annotation
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from policies.analyses.migrate import migrate_pod
from policies.analyses.usage import pod_use
from policies.configuration.cluster_facts import Facts
from policies.fleet import may_request_gpu
from policies.fleet.device_plugin import active_cluster_policy, node_workload, nodes_with_both
from policies.fleet.gpu_nodes import gpu_nodes
from policies.fleet.offers.offer import is_label_of_discovery
from policies.fleet.offers.published import gpu_slices
from policies.fleet.operands import gpu_cluster, operator_place
from policies.kubernetes.names import DRA_LABEL, PREFIX, format_list
from policies.kubernetes.nodes import is_cordoned, labels_of, required_terms
from policies.kubernetes.objects import (
    DEFAULT_NAMESPACE,
    HelmRelease,
    controller_of,
    has_ended,
    helm_release,
    items_at,
    lookup,
    mapping_at,
    mappings_at,
    name_of,
    namespace_of,
)
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.identifiers import (
    CLIQUE_LABEL,
    DEPLOY_PLUGIN_LABEL,
    DEPLOY_PREFIX,
    DRIVER,
    DRIVER_VERSION_LABEL,
    MIG_CONFIG_LABEL,
    PRODUCT_LABEL,
)
from policies.nvidia.mig import parse_resource
from policies.nvidia.pod_conditions import requested_names
from policies.nvidia.releases import NVIDIAFeature

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.outcome import Subject
    from policies.rules.settings import GPUAdmissionPolicy


WAVE_LABEL = f"{PREFIX}cutover-wave"
"""The label of nodes and namespaces with the number of their wave; 0 for nodes that use DRA already."""
DEPLOY_MIG_MANAGER_LABEL = f"{DEPLOY_PREFIX}mig-manager"
_RUNTIME_CLASS = "nvidia"
"""The RuntimeClass of the operator's container toolkit; it belongs to the ClusterPolicy, unless the spec names another."""
_SHARED = "-SHARED"


@dataclass(frozen=True, slots=True)
class CutoverNode:
    """A node with GPUs."""

    name: str
    product: str
    offers: Mapping[str, int]
    """The devices that the device plugin hands out, by resource."""
    held: Mapping[str, int]
    """The part of them that running pods hold."""
    replicas: Mapping[str, int]
    """The shares that the plugin makes of a device, by resource; empty if it shares none."""
    is_published: bool
    """True if NVIDIA's DRA driver publishes its GPUs."""
    is_cordoned: bool
    mig_config: str
    """The value of the label by which the MIG manager divides its GPUs; empty without one."""
    driver: str
    """The version of the driver; empty if no label has it."""
    wave: int | None
    """The wave that its label names; None without one."""
    deploys: Mapping[str, str]
    """The values of the operator's labels for the device plugin and the MIG manager."""

    @property
    def sharing(self) -> str:
        """The shares of the plugin, for people: `nvidia.com/gpu by 4`; empty if it does not."""
        return ", ".join(f"{name} by {count}" for name, count in self.replicas.items())

    @property
    def load(self) -> float:
        """The part of the node that pods hold by the plugin, from 0 to 1."""
        parts = [self.held.get(name, 0) / amount for name, amount in self.offers.items()]
        return min(1.0, max(parts, default=0.0))


@dataclass(frozen=True, slots=True)
class ClassOwner:
    """A DeviceClass, and who writes it."""

    name: str
    owner: str
    """For people: `Helm release dra in namespace gpu`."""
    release: HelmRelease | None
    extended_resource: str
    """The resource that it stands for in plain requests; empty if it has none."""


@dataclass(frozen=True, slots=True)
class LabelUse:
    """A label of GPU Feature Discovery that workloads select nodes by."""

    label: str
    converted: tuple[str, ...]
    """Workloads whose claim has the condition after conversion."""
    left: tuple[str, ...]
    """Workloads that still select nodes by it, or that conversion leaves."""


@dataclass(frozen=True, slots=True)
class Component:
    """A part of the ClusterPolicy's stack, and what takes its place."""

    name: str
    successor: str


@dataclass(frozen=True, slots=True)
class Inventory:
    """The parts of a cluster that a cutover concerns."""

    policy: str
    """The name of the ClusterPolicy; empty if there is none."""
    policy_release: HelmRelease | None
    operator_namespace: str
    gpu_cluster: str
    """The name of the GPUCluster; empty if there is none."""
    serves_gpu_cluster: bool
    """False if the API server does not serve GPUClusters, so that the operator is too old, or if that is unknown."""
    driver_owner: str
    """`ClusterPolicy`, `NVIDIADriver`, or `host` if the operator installs no driver."""
    uses_driver_crd: bool | None
    """`driver.useNvidiaDriverCRD` of the ClusterPolicy; None if it is missing."""
    drivers: tuple[str, ...]
    """The NVIDIADrivers."""
    config_maps: tuple[str, ...]
    """The ConfigMaps that the ClusterPolicy names."""
    classes: tuple[ClassOwner, ...]
    nodes: tuple[CutoverNode, ...]
    twice: tuple[str, ...]
    """The nodes that hand out their GPUs by the device plugin and by DRA."""
    components: tuple[Component, ...]
    """The parts that go, each with what takes its place."""
    labels: tuple[LabelUse, ...]
    discovery_labels: tuple[str, ...]
    """The labels of GPU Feature Discovery on nodes."""
    runtime_class_users: tuple[str, ...]
    """Workloads whose RuntimeClass goes with the ClusterPolicy."""
    namespaces: Mapping[str, int | None]
    """The namespaces with workloads that request GPUs of the device plugin, each with the wave of its label."""
    previews: tuple[str, ...]
    """Those among them with the label `gpu-admission.io/dra: preview`."""
    holding_pods: Mapping[str, tuple[str, ...]]
    """The running pods that may hold GPUs, by node."""
    unmanaged_pods: Mapping[str, tuple[str, ...]]
    """The running pods with GPUs that no controller creates again, by node."""
    daemon_pods: Mapping[str, tuple[str, ...]]
    """The running pods of DaemonSets that hold GPUs by the device plugin, by node."""
    claiming_pods: Mapping[str, tuple[str, ...]]
    """The running pods that hold GPUs by claims, by node."""
    virtual: tuple[str, ...]
    """Nodes whose GPUs are for virtual machines."""

    @property
    def moving(self) -> tuple[CutoverNode, ...]:
        """The nodes that the device plugin serves, or that have a wave."""
        return tuple(each for each in self.nodes if each.offers or each.wave or not each.is_published)

    @property
    def moved(self) -> tuple[CutoverNode, ...]:
        """The nodes that were on DRA before the cutover began."""
        names = {each.name for each in self.moving}
        return tuple(each for each in self.nodes if each.name not in names)


def take_inventory(view: ClusterView, settings: GPUAdmissionPolicy, subjects: Sequence[Subject]) -> Inventory:
    """The inventory of a cluster; nodes must be known.

    Args:
        view: The cluster.
        settings: The administrator's settings.
        subjects: Its workloads.
    """
    policy = active_cluster_policy(view)
    stored = policy if isinstance(policy, dict) else {}
    users = [each for each in subjects if requests_plugin(each)]
    runtime_class = lookup(stored, ("spec", "operator", "runtimeClass")) or _RUNTIME_CLASS
    nodes = cutover_nodes(view)
    namespaces = plugin_namespaces(subjects)
    pods = tuple(gpu_pods(view))
    return Inventory(
        policy=name_of(stored),
        policy_release=helm_release(stored),
        operator_namespace=operator_place(view, settings).namespaces[0],
        gpu_cluster=name_of(gpu_cluster(view) or {}),
        serves_gpu_cluster=serves_gpu_cluster(view, settings),
        driver_owner=_driver_owner(stored),
        uses_driver_crd=lookup(stored, ("spec", "driver", "useNvidiaDriverCRD")),
        drivers=tuple(map(name_of, view.known_objects("NVIDIADriver"))),
        config_maps=tuple(_config_maps(stored)),
        classes=tuple(map(_class_owner, _nvidia_classes(view))),
        nodes=nodes,
        twice=nodes_with_both(view),
        components=tuple(_components(stored, nodes)),
        labels=tuple(_label_uses(users, view, settings)),
        discovery_labels=discovery_labels(view),
        runtime_class_users=tuple(
            each.label for each in subjects if lookup(each.document, ("spec", "runtimeClassName")) == runtime_class
        ),
        namespaces={name: namespace_wave(name, view) for name in namespaces},
        previews=tuple(
            name
            for name in namespaces
            if lookup(view.get("Namespace", name), ("metadata", "labels", DRA_LABEL)) == "preview"
        ),
        holding_pods=_names_by_node(pods),
        unmanaged_pods=_names_by_node(pod for pod in pods if controller_of(pod) is None),
        daemon_pods=_names_by_node(filter(_is_of_daemon_set, pods)),
        claiming_pods=_names_by_node(pod for pod in pods if pod_use(pod) is None),
        virtual=tuple(
            name_of(each)
            for each in view.known_objects("Node")
            if node_workload(labels_of(each), policy) != "container"
        ),
    )


def cutover_nodes(view: ClusterView) -> tuple[CutoverNode, ...]:
    """The nodes with GPUs, sorted by name."""
    found = gpu_nodes(view)
    if found is UNKNOWN:
        return ()
    published = view.derive(gpu_slices)
    cordoned = {name_of(each) for each in view.known_objects("Node") if is_cordoned(each)}
    held: defaultdict[str, Counter[str]] = defaultdict(Counter)
    uses = view.derive_each("Pod", pod_use)
    for use in () if uses is UNKNOWN else uses:
        if use is not None:
            held[use[0]].update(dict(use[2]))
    return tuple(
        CutoverNode(
            name=each.name,
            product=each.labels.get(PRODUCT_LABEL, "").removesuffix(_SHARED) or "unknown product",
            offers={name: amount for name, amount in sorted(each.offers.items()) if parse_resource(name) is not None},
            held=dict(held[each.name]),
            replicas={
                name: device.sharing.replicas
                for name, device in sorted(each.traits.shown_devices.items())
                if device.sharing.replicas > 1 and name in each.offers
            },
            is_published=each.name in published,
            is_cordoned=each.name in cordoned,
            mig_config=_of_mig_manager(each.labels),
            driver=each.labels.get(DRIVER_VERSION_LABEL, ""),
            wave=wave_in(each.labels),
            deploys={
                name: each.labels[name]
                for name in (DEPLOY_PLUGIN_LABEL, DEPLOY_MIG_MANAGER_LABEL)
                if name in each.labels
            },
        )
        for each in sorted(found.nodes, key=lambda node: node.name)
    )


def _of_mig_manager(labels: Mapping[str, str]) -> str:
    value = labels.get(MIG_CONFIG_LABEL, "")
    return "" if value == "all-disabled" else value


def wave_in(labels: Mapping[str, Any]) -> int | None:
    """The wave that labels name; None if none does."""
    value = labels.get(WAVE_LABEL)
    return int(value) if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= 4 else None


def namespace_wave(name: str, view: ClusterView) -> int | None:
    """The wave of a namespace; None if its label names none."""
    return wave_in(mapping_at(view.get("Namespace", name), ("metadata", "labels")))


def discovery_labels(view: ClusterView) -> tuple[str, ...]:
    """The names of the labels of GPU Feature Discovery that nodes have."""
    return tuple(sorted({key for node in view.known_objects("Node") for key in labels_of(node) if _is_stale(key)}))


def _is_stale(label: str) -> bool:
    """True for a label of GPU Feature Discovery that no component of a GPUCluster sets."""
    return label != CLIQUE_LABEL and is_label_of_discovery(label)


def gpu_pods(view: ClusterView) -> Iterator[Object]:
    """The running pods that may hold GPUs; of DaemonSets, only those that hold some by the plugin.

    A drain leaves pods of DaemonSets.
    """
    for pod in view.known_objects("Pod"):
        if not lookup(pod, ("spec", "nodeName")) or has_ended(pod) or not may_request_gpu(pod):
            continue
        if not _is_of_daemon_set(pod) or pod_use(pod) is not None:
            yield pod


def _is_of_daemon_set(pod: Object) -> bool:
    owner = controller_of(pod)
    return owner is not None and owner.get("kind") == "DaemonSet"


def _names_by_node(pods: Iterable[Object]) -> dict[str, tuple[str, ...]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for pod in pods:
        found[str(lookup(pod, ("spec", "nodeName")))].append(f"{namespace_of(pod) or DEFAULT_NAMESPACE}/{name_of(pod)}")
    return {node: tuple(sorted(names)) for node, names in sorted(found.items())}


def serves_gpu_cluster(view: ClusterView, settings: GPUAdmissionPolicy) -> bool:
    """True if GPUClusters are served, by the version of the operator; false also if that is unknown."""
    policy = active_cluster_policy(view)
    version = Facts(view, settings).operator_version(policy if isinstance(policy, dict) else {})
    return NVIDIAFeature.GPUClusters.is_in(version) is True or gpu_cluster(view) is not None


def _driver_owner(policy: Object) -> str:
    driver = lookup(policy, ("spec", "driver"))
    if not policy or lookup(driver, ("enabled",)) is False:
        return "host"
    return "NVIDIADriver" if lookup(driver, ("useNvidiaDriverCRD",)) is True else "ClusterPolicy"


_CONFIG_MAPS = (
    ("devicePlugin", "config", "name"),
    ("migManager", "config", "name"),
    ("migManager", "gpuClientsConfig", "name"),
    ("dcgmExporter", "config", "name"),
    ("driver", "repoConfig", "configMapName"),
    ("driver", "certConfig", "name"),
    ("driver", "kernelModuleConfig", "name"),
    ("driver", "virtualTopology", "config"),
)


def _config_maps(policy: Object) -> Iterator[str]:
    for path in _CONFIG_MAPS:
        name = lookup(policy, ("spec", *path))
        if isinstance(name, str) and name:
            yield f"{name} ({'.'.join(path[:-1])})"


def _nvidia_classes(view: ClusterView) -> Iterator[Object]:
    for each in view.known_objects("DeviceClass"):
        if name_of(each).endswith("nvidia.com") or DRIVER in str(lookup(each, ("spec", "selectors"))):
            yield each


def _class_owner(document: Object) -> ClassOwner:
    release = helm_release(document)
    references = mappings_at(document, ("metadata", "ownerReferences"))
    owner = "unknown: it has no owner reference, and no annotation of Helm"
    if references:
        owner = format_list([f"{each.get('kind')} {each.get('name')}" for each in references])
    elif release is not None:
        owner = f"Helm release {release.name} in namespace {release.namespace}"
    extended = lookup(document, ("spec", "extendedResourceName"))
    return ClassOwner(name_of(document), owner, release, extended if isinstance(extended, str) else "")


def plugin_namespaces(subjects: Iterable[Subject]) -> tuple[str, ...]:
    """The namespaces with workloads that request resources of the device plugin."""
    return tuple(sorted({each.namespace for each in subjects if requests_plugin(each)}))


def requests_plugin(subject: Subject) -> bool:
    """True for pods that request a resource of the device plugin."""
    return subject.is_pod and any(parse_resource(name) is not None for name in requested_names(subject.document))


def _label_uses(subjects: Sequence[Subject], view: ClusterView, settings: GPUAdmissionPolicy) -> Iterator[LabelUse]:
    converted: defaultdict[str, list[str]] = defaultdict(list)
    left: defaultdict[str, list[str]] = defaultdict(list)
    for subject in subjects:
        before = selected_labels(subject.document)
        if not before:
            continue
        after = migrate_pod(subject.document, subject.namespace, view, settings).pod
        kept = before if after is None else selected_labels(after)
        for label in before:
            (left if label in kept else converted)[label].append(subject.label)
    for label in sorted({*converted, *left}):
        yield LabelUse(label, tuple(converted[label]), tuple(left[label]))


def selected_labels(pod: Object) -> frozenset[str]:
    """The labels of GPU Feature Discovery by which a pod requires its node."""
    spec = mapping_at(pod, ("spec",))
    keys = [*map(str, mapping_at(spec, ("nodeSelector",)))]
    for term in required_terms(spec):
        keys += [str(each.get("key")) for each in items_at(term, ("matchExpressions",)) if isinstance(each, dict)]
    return frozenset(filter(_is_stale, keys))


def _components(policy: Object, nodes: Sequence[CutoverNode]) -> Iterator[Component]:
    """The parts of a ClusterPolicy's stack that go, in the words of the operator."""
    if not policy:
        return
    yield Component("device plugin", "the DRA driver, which publishes the GPUs in ResourceSlices")
    yield Component("GPU Feature Discovery and its labels", "attributes and capacities of devices in ResourceSlices")
    if any(each.mig_config for each in nodes):
        yield Component(
            "MIG manager",
            "nothing that divides GPUs by a label: the DRA driver publishes the MIG devices that exist, and with DynamicMIG "
            "makes those that claims request",
        )
    shared = sorted({each.sharing for each in nodes if each.sharing})
    if shared:
        yield Component(
            f"replicas of the device plugin ({format_list(shared)})",
            "consumableShares of the DRA driver, one setting for the whole cluster",
        )
    yield Component("validator of the device plugin", "the validation of the GPUCluster, by a claim with admin access")
    yield Component("container toolkit and its RuntimeClass", "CDI of the container runtime; no RuntimeClass is left")
    if _driver_owner(policy) == "ClusterPolicy":
        yield Component("driver of the ClusterPolicy", "an NVIDIADriver")
    yield Component("DCGM and its exporter", "DCGM and its exporter of the GPUCluster, under other labels of nodes")
