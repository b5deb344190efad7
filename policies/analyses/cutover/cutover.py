"""Plans of cutovers: waves, steps, and what each wave keeps, changes and loses."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - pydantic reads the annotation
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from policies.analyses.cutover.cutover_files import (
    device_classes,
    driver_chart_values,
    gpu_cluster,
    label_commands,
    nvidia_driver,
    operator_values,
    stored_policy,
)
from policies.analyses.cutover.cutover_steps import CutoverStep, cutover_steps, open_points
from policies.analyses.cutover.inventory import Inventory, requests_plugin, selected_labels, take_inventory
from policies.analyses.cutover.waves import plan_waves
from policies.analyses.migrate import migrate_pod
from policies.analyses.migrate.migrated_cluster import migrated_cluster
from policies.analyses.migrate.proof import PodCharges, quota_cell
from policies.analyses.plan import predict
from policies.configuration.v1alpha1 import LEAST_BRANCH, is_old_branch
from policies.fleet.device_plugin import active_cluster_policy
from policies.kubernetes.bounds import check_cancelled
from policies.kubernetes.names import format_count, format_list, inflect, is_dns_subdomain, shown
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.objects import mapping_at, name_of
from policies.kubernetes.versions import Feature
from policies.kubernetes.view import UNKNOWN, ChangedView
from policies.outcome import Certainty, FitComparer, Outcome, Situation, subjects_of
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.analyses.cutover.inventory import CutoverNode
    from policies.analyses.cutover.waves import WaveMembers
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView, Key
    from policies.outcome import FitComparison, Subject
    from policies.rules.settings import GPUAdmissionPolicy


REDACTED = "redacted"
"""The value of variables in snapshots."""


class CutoverError(ValueError):
    """Nothing can be planned; the text is a sentence without a full stop."""


@dataclass(frozen=True, slots=True)
class Effect:
    """The fate of the pods of a workload."""

    workload: str
    namespace: str
    pods: int
    outcome: Outcome
    sentence: str
    """A clause without a full stop."""


@dataclass(frozen=True, slots=True)
class Wave:
    """A wave of nodes, and what it does to workloads and quotas."""

    number: int
    nodes: tuple[str, ...]
    products: Mapping[str, int]
    """The number of its nodes by product."""
    namespaces: tuple[str, ...]
    """The namespaces that convert with it."""
    homeless: tuple[str, ...]
    """The products for which other nodes have no room for its pods."""
    evicted: tuple[str, ...]
    """The running pods that hold GPUs of its nodes."""
    unmanaged: tuple[str, ...]
    """Those among them that no controller creates again."""
    claiming: tuple[str, ...]
    """Those among them that hold GPUs by claims already."""
    counts: Mapping[str, int]
    """The number of workloads by outcome, once the nodes are open."""
    effects: tuple[Effect, ...]
    """The workloads that are not kept."""
    quotas: tuple[Effect, ...]
    """The workloads that a quota counts otherwise, once their namespace converts."""


@dataclass(frozen=True, slots=True)
class CutoverPlan:
    """The plan of a cutover."""

    inventory: Inventory
    waves: tuple[Wave, ...]
    steps: tuple[CutoverStep, ...]
    after: Wave
    """The effects of the exchange itself: no wave, but the same facts about all workloads."""
    by_hand: tuple[str, ...]
    """The tasks that no step does; sentences without full stops, each with what to do first."""
    assumptions: tuple[str, ...]

    @property
    def is_smooth(self) -> bool:
        """True if no workload loses or changes anything, and nothing is unknown or to be done by hand."""
        return not self.by_hand and not any(each.effects or each.quotas for each in (*self.waves, self.after))


@dataclass(frozen=True, slots=True)
class CutoverDocuments:
    """The files of a cutover, by their names; lists are several documents, texts are scripts."""

    documents: Mapping[str, Sequence[Object]]
    scripts: Mapping[str, str]


def plan_cutover(view: ClusterView, settings: GPUAdmissionPolicy, folder: str) -> CutoverPlan:
    """The plan of a cluster.

    Args:
        view: The cluster.
        settings: The administrator's settings.
        folder: The folder of the files that commands name.

    Raises:
        CutoverError: Nodes are unknown, there is nothing to cut over, or a name is invalid.
    """
    if view.list("Node") is UNKNOWN:
        raise CutoverError("the cluster has no Nodes, or you may not list them; a plan needs them")
    policy = active_cluster_policy(view)
    if not isinstance(policy, dict):
        why = "it is unknown" if policy is UNKNOWN else "there is none"
        raise CutoverError(
            f"a cutover begins with the ClusterPolicy of the GPU Operator, and {why}; to look at a step after the exchange, "
            "use --check"
        )
    _check_names(policy, view)
    subjects = [each for each in subjects_of(view, settings) if each.is_pod]
    inventory = take_inventory(view, settings, subjects)
    members = plan_waves(inventory, view)
    cluster = gpu_cluster(policy, consumable_shares(inventory))
    # Before the exchange, an NVIDIADriver has the driver.
    spec = mapping_at(policy, ("spec",))
    crd = {**policy, "spec": {**spec, "driver": {**mapping_at(spec, ("driver",)), "useNvidiaDriverCRD": True}}}
    handed_over = [crd, nvidia_driver(policy, view)] if inventory.driver_owner == "ClusterPolicy" else []
    simulation = _Simulation(view, settings, subjects, inventory, cluster, handed_over)
    waves = tuple(simulation.wave(each) for each in members)
    after = simulation.exchange()

    def is_done(step_id: str) -> bool:
        return open_points(step_id, view, settings) == ()

    steps = cutover_steps(inventory, members, folder, is_done)
    by_hand = tuple(_by_hand(inventory, members, policy, view, simulation.left()))
    return CutoverPlan(inventory, waves, steps, after, by_hand, tuple(simulation.assumptions()))


def _check_names(policy: Object, view: ClusterView) -> None:
    """Raise CutoverError if a name that commands contain is invalid.

    Files may have one such as `--all`, which kubectl takes for an option.
    """
    for each in (policy, *view.known_objects("Node"), *view.known_objects("Namespace")):
        if not is_dns_subdomain(name_of(each)):
            raise CutoverError(
                f"rename {each.get('kind')} {shown(name_of(each))}: no object has this name in a cluster, and commands contain it"
            )


def cutover_documents(view: ClusterView, settings: GPUAdmissionPolicy) -> CutoverDocuments:
    """The files that the commands of a plan read.

    Raises:
        CutoverError: There is no ClusterPolicy, or a name is invalid.
    """
    policy = active_cluster_policy(view)
    if not isinstance(policy, dict):
        raise CutoverError("the files are made of the ClusterPolicy, which is missing or unknown")
    _check_names(policy, view)
    inventory = take_inventory(view, settings, ())
    shares = consumable_shares(inventory)
    cluster = gpu_cluster(policy, shares)
    documents: dict[str, Sequence[Object]] = {
        "gpucluster.yaml": (cluster,),
        "deviceclasses.yaml": device_classes(),
        "dra-driver-values.yaml": (driver_chart_values(policy, inventory, shares),),
        "operator-values.yaml": (operator_values(cluster, inventory),),
        "clusterpolicy.yaml": (stored_policy(policy),),
    }
    if inventory.driver_owner == "ClusterPolicy":
        documents["nvidiadriver.yaml"] = (nvidia_driver(policy, view),)
    lines = "\n".join(label_commands(view, inventory.discovery_labels))
    return CutoverDocuments(documents, {"node-labels.sh": f"#!/bin/sh\nset -e\n{lines}\n"})


def consumable_shares(inventory: Inventory) -> str:
    """The shares of a device, for the driver: the most of any node, empty if none shares."""
    found = [count for node in inventory.nodes for count in node.replicas.values()]
    return str(max(found)) if found else ""


_WORSE = (Outcome.LOST, Outcome.CHANGED, Outcome.UNKNOWN)


class _Simulation:
    """The cluster after each wave, compared with the cluster as it is."""

    def __init__(
        self,
        view: ClusterView,
        settings: GPUAdmissionPolicy,
        subjects: Sequence[Subject],
        inventory: Inventory,
        cluster: Object,
        handed_over: Sequence[Object],
    ) -> None:
        self._cluster, self._handed_over = cluster, handed_over
        self._view, self._settings, self._subjects, self._inventory = view, settings, subjects, inventory
        self._before = Situation(view, settings)
        self._comparer = FitComparer(self._before, self._before)
        self._compared: dict[str, FitComparison] = {}
        """The last comparison of each workload, by its label."""
        self._nodes: set[str] = set()
        self._namespaces: set[str] = set()
        self._after = view
        self._predicted: set[str] = set()
        self._sharing: set[str] = set()

    def wave(self, members: WaveMembers) -> Wave:
        """A wave after all that came before it."""
        check_cancelled()
        self._nodes |= {each.name for each in members.nodes}
        self._namespaces |= set(members.namespaces)
        migrated = migrated_cluster(self._view, self._namespaces, self._nodes)
        self._after = migrated.view
        self._predicted |= set(migrated.predicted)
        self._sharing |= set(migrated.sharing)
        wave = _wave(members, self._inventory)
        changed = [each for each in self._subjects if requests_plugin(each) and each.namespace in members.namespaces]
        concerned = [each for each in self._subjects if requests_plugin(each) and self._is_concerned(each, members)]
        return replace(self._with_effects(wave, self._after, concerned), quotas=tuple(self._quotas(changed)))

    def exchange(self) -> Wave:
        """The cluster with the GPUCluster, as `plan` predicts it, and without labels of GPU Feature Discovery."""
        check_cancelled()
        handed_over: dict[Key, Object | None] = {
            (str(each["kind"]), "", name_of(each)): each for each in self._handed_over
        }
        before = Situation(ChangedView(self._after, handed_over), self._settings)
        planned: dict[Key, Object | None] = {
            ("ClusterPolicy", "", self._inventory.policy): None,
            ("GPUCluster", "", name_of(self._cluster)): self._cluster,
        }
        after = predict(before, planned, self._settings).after.view
        objects: dict[Key, Object | None] = {("DeviceClass", "", name_of(each)): each for each in device_classes()}
        for node in after.known_objects("Node"):
            labels = labels_of(node)
            if not labels.keys().isdisjoint(self._inventory.discovery_labels):
                kept = {key: value for key, value in labels.items() if key not in self._inventory.discovery_labels}
                objects["Node", "", name_of(node)] = {**node, "metadata": {**node["metadata"], "labels": kept}}
        nothing = Wave(0, (), {}, (), (), (), (), (), {}, (), ())
        self._after = ChangedView(after, objects)
        concerned = [each for each in self._subjects if requests_plugin(each) or selected_labels(each.document)]
        return self._with_effects(nothing, self._after, concerned)

    def _is_concerned(self, subject: Subject, members: WaveMembers) -> bool:
        """False if a wave takes no place from a subject that was kept, and does not convert it."""
        last = self._compared.get(subject.label)
        if last is None or last.outcome is not Outcome.KEPT or subject.namespace in members.namespaces:
            return True
        return not last.before.nodes.isdisjoint(each.name for each in members.nodes)

    def _with_effects(self, wave: Wave, after: ClusterView, concerned: Sequence[Subject]) -> Wave:
        """The wave with the fate of all workloads, of which only some can differ from what they were."""
        self._comparer.change(Situation(after, self._settings))
        self._compared |= {each.label: self._comparer.compare(each) for each in concerned}
        found = self._compared.values()
        counts = {str(outcome): sum(each.outcome is outcome for each in found) for outcome in Outcome}
        return replace(wave, counts=counts, effects=tuple(_effect(each) for each in found if each.outcome in _WORSE))

    def _quotas(self, subjects: Sequence[Subject]) -> Iterator[Effect]:
        charged = PodCharges(self._before, Situation(self._after, self._settings))
        for each in subjects:
            cell = quota_cell(each, charged, Certainty.PREDICTED)
            if cell.outcome is not Outcome.KEPT:
                yield Effect(each.label, each.namespace, each.count, cell.outcome, cell.sentence)

    def left(self) -> dict[str, str]:
        """The workloads that conversion leaves or refuses after the exchange, each with the reason."""
        found: dict[str, str] = {}
        for each in filter(requests_plugin, self._subjects):
            pod = migrate_pod(each.document, each.namespace, self._after, self._settings)
            if pod.is_left:
                denied = [str(finding) for finding in pod.findings if finding.severity is Severity.DENY]
                found[each.label] = pod.reason or (denied or [str(finding) for finding in pod.findings])[0]
        return found

    def assumptions(self) -> Iterator[str]:
        """The assumptions of the comparison."""
        if self._predicted:
            yield (
                f"the devices of {format_count(len(self._predicted), 'node')} without ResourceSlices are predicted from node "
                f"labels: {format_list(sorted(self._predicted))}"
            )
        if self._sharing:
            yield (
                f"{format_count(len(self._sharing), 'node')} {inflect('shares', len(self._sharing))} GPUs; their pods are "
                f"compared as if the plugin stayed: {format_list(sorted(self._sharing))}"
            )
        yield "each workload is placed alone, as if its own pods ended and were created again while all others run on"


def _wave(members: WaveMembers, inventory: Inventory) -> Wave:
    products: dict[str, int] = {}
    for node in members.nodes:
        products[node.product] = products.get(node.product, 0) + 1
    names = tuple(each.name for each in members.nodes)
    return Wave(
        number=members.number,
        nodes=names,
        products=products,
        namespaces=members.namespaces,
        homeless=members.homeless,
        evicted=tuple(pod for name in names for pod in inventory.holding_pods.get(name, ())),
        unmanaged=tuple(pod for name in names for pod in inventory.unmanaged_pods.get(name, ())),
        claiming=tuple(pod for name in names for pod in inventory.claiming_pods.get(name, ())),
        counts={},
        effects=(),
        quotas=(),
    )


def _effect(comparison: FitComparison) -> Effect:
    subject = comparison.subject
    return Effect(subject.label, subject.namespace, subject.count, comparison.outcome, comparison.sentence)


def _changes_of_left(left: Mapping[str, str]) -> Iterator[str]:
    """The tasks for workloads that conversion leaves, by the reason."""
    for why in dict.fromkeys(left.values()):
        labels = [label for label, reason in left.items() if reason == why]
        them = "it" if len(labels) == 1 else "them"
        yield f"change {format_list(labels)}: conversion leaves {them}, and the requested resources go; {why}"


def _by_hand(
    inventory: Inventory, members: Sequence[WaveMembers], policy: Object, view: ClusterView, left: Mapping[str, str]
) -> Iterator[str]:
    """The tasks that no step does: those that stop a cutover, those for workloads, then the others.

    Args:
        inventory: The cluster.
        members: Its waves.
        policy: The ClusterPolicy.
        view: The cluster.
        left: The workloads that conversion leaves, each with the reason.
    """
    nodes = inventory.nodes
    version = view.server_version()
    if Feature.ResourceV1.is_on(view) is not True:
        known = "is unknown" if version is UNKNOWN else f"is {version[0]}.{version[1]}"
        yield f"upgrade Kubernetes to 1.34.2 or newer: its version {known}, and GPUClusters need resource.k8s.io/v1"
    if inventory.gpu_cluster:
        yield (
            f"delete GPUCluster {inventory.gpu_cluster} first: beside ClusterPolicy {inventory.policy} the operator looks after "
            "neither"
        )
    if inventory.virtual:
        yield (
            f"keep the ClusterPolicy, or free {format_list(inventory.virtual)}: a GPUCluster has no parts for virtual machines "
            "(sandboxWorkloads)"
        )
    old = [each.name for each in nodes if is_old_branch(each.driver)]
    if old:
        yield f"upgrade the driver to {LEAST_BRANCH} or newer on {format_list(old)}: the DRA driver needs it"
    if inventory.twice:
        yield (
            f"empty {format_list(inventory.twice)} now: the device plugin and the DRA driver hand out the same GPUs there; "
            "move these nodes to wave 1 by their label"
        )
    yield from _of_sharing(nodes)
    cut = sorted({each.name for each in nodes if each.mig_config})
    if cut:
        yield (
            f"choose how {format_list(cut)} {inflect('is', len(cut))} divided: MIG devices of the MIG manager are gone after a "
            "reboot or when the driver is loaded anew, and no component makes them again; turn DynamicMIG on, or run mig-parted at boot"
        )
    if inventory.runtime_class_users:
        yield (
            f"remove runtimeClassName from {format_list(inventory.runtime_class_users)}: the RuntimeClass goes with the "
            "ClusterPolicy, and pods that name it are refused then"
        )
    for use in inventory.labels:
        if labels := [each for each in use.left if each not in left]:
            yield (
                f"remove {use.label} from the selectors of {format_list(labels)}: no component updates this label after the "
                "exchange, and conversion cannot express it"
            )
    yield from _changes_of_left(left)
    homeless = [f"wave {each.number} ({format_list(each.homeless)})" for each in members if each.homeless]
    if homeless:
        yield (
            f"make room for the pods of {format_list(homeless)}: other nodes with the same GPUs have none, so they wait until their "
            "wave is open"
        )
    daemons = sorted({pod for pods in inventory.daemon_pods.values() for pod in pods})
    if daemons:
        yield f"stop {format_list(daemons)} before their nodes move: a drain leaves pods of DaemonSets"
    cordoned = [each.name for each in nodes if each.is_cordoned and not each.wave]
    if cordoned:
        yield f"cordon {format_list(cordoned)} again after its wave, if it has to stay so: the last step of a wave uncordons"
    if REDACTED in str(policy.get("spec")):
        yield "write the files from the running cluster: this snapshot has no values of variables"
    extended = [each.name for each in inventory.classes if each.extended_resource]
    if extended:
        yield (
            f"convert or migrate plain requests before the exchange: {format_list(extended)} serves them by "
            "extendedResourceName, which the operator's DeviceClass lacks"
        )


def _of_sharing(nodes: Sequence[CutoverNode]) -> Iterator[str]:
    """The task to choose a number of shares, if nodes or resources have several."""
    by_sharing: dict[str, list[str]] = {}
    for node in nodes:
        if node.sharing:
            by_sharing.setdefault(node.sharing, []).append(node.name)
    if len({count for node in nodes for count in node.replicas.values()}) > 1:
        parts = [f"{sharing} on {format_list(names)}" for sharing, names in sorted(by_sharing.items())]
        yield (
            f"choose one number of shares: {'; '.join(parts)}; the DRA driver has one setting for the whole cluster, and the files "
            "have the largest, by which no pod gets more"
        )
