"""Lifecycle: one ClusterPolicy at a time, and no removal of the driver under running pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.configuration.checks import CLUSTER_POLICY, CLUSTER_POLICY_DELETION
from policies.configuration.named_objects import counted_names, gpu_claims, gpu_pods, the_nodes
from policies.decision import Severity
from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import FieldPath, lookup
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change

ALLOW_DELETION = "gpu-admission.io/allow-deletion"
_NAME = FieldPath(["metadata", "name"])
_USUAL_NAMES = ("cluster-policy", "gpu-cluster-policy")
"""Of the Helm chart, and of OpenShift's console."""


@CLUSTER_POLICY.rule(
    "GA105",
    "A cluster must have one ClusterPolicy, and no GPUCluster beside it",
    default=Severity.DENY,
    remedy="change the existing one, or delete it first",
    source="github.com/NVIDIA/gpu-operator controllers/active_config.go, controllers/clusterpolicy_controller.go",
    rows=("A-01", "A-02", "A-07"),
)
def one_cluster_policy(change: Change) -> Iterator[Problem]:
    """The operator follows the oldest ClusterPolicy and silently ignores every other.

    Edits of an ignored one have no effect. Beside a GPUCluster the operator reconciles neither of the two, and no longer
    manages what runs on the nodes.
    """
    if not change.is_created:
        return
    others = [
        name_of(policy) for policy in change.facts.known_objects("ClusterPolicy") if name_of(policy) != change.name
    ]
    if others:
        yield problem(_NAME, f'"{change.name}" would be ignored, because the operator follows the older "{others[0]}"')
    clusters = [name_of(cluster) for cluster in change.facts.known_objects("GPUCluster")]
    if clusters:
        text = (
            f'"{change.name}" and the GPUCluster "{clusters[0]}" exclude each other; the operator would report: '
            f'conflicting GPUCluster resource "{clusters[0]}" detected; ClusterPolicy and GPUCluster cannot co-exist'
        )
        yield problem(_NAME, text, f'delete the GPUCluster "{clusters[0]}" first, or keep it')
    if change.name and not others and change.name not in _USUAL_NAMES:
        text = (
            f'"{change.name}" is allowed, but documentation and scripts patch clusterpolicies.nvidia.com/cluster-policy'
        )
        yield problem(_NAME, text, 'write "cluster-policy"', severity=Severity.AUDIT)


@CLUSTER_POLICY_DELETION.rule(
    "GA106",
    "A ClusterPolicy must not be deleted while pods use GPUs",
    default=Severity.WARN,
    remedy=f'end these pods first, or annotate the ClusterPolicy with {ALLOW_DELETION}: "true"',
    source="github.com/NVIDIA/gpu-operator issues 303, 474, 367, 661, 2166",
    rows=("A-03",),
    setting="configuration.clusterPolicyDeletion",
)
def deleted_without_pods(change: Change) -> Iterator[Problem]:
    """Deleting the ClusterPolicy deletes the driver and every other operand on every node at once.

    The driver's modules are in use and cannot be unloaded ("Failed to remove GPU"), pods that end stay Terminating, and
    running pods keep devices that no component accounts for. Nodes recover by a reboot.
    """
    if lookup(change.object, ("metadata", "annotations", ALLOW_DELETION)) == "true":
        return
    active = change.facts.cluster_policy()
    if isinstance(active, dict) and name_of(active) != change.name:
        return
    holders = (("pod", gpu_pods(change.facts)), ("claim", gpu_claims(change.facts)))
    users = " and ".join(counted_names(noun, names) for noun, names in holders if names)
    if users:
        text = f'"{change.name}" is deleted while GPUs are held by {users}; this removes the driver under them'
        yield problem(_NAME, text, severity=change.facts.cluster_policy_deletion)


@CLUSTER_POLICY.rule(
    "GA108",
    "The driver must not be disabled on running nodes",
    default=Severity.WARN,
    remedy="drain the nodes first",
    source="github.com/NVIDIA/gpu-operator controllers/state_manager.go, controllers/nvidiadriver_controller.go",
    rows=("A-05", "A-06"),
)
def driver_kept(change: Change) -> Iterator[Problem]:
    """The operator removes the driver's DaemonSets at once, with the modules that running pods use.

    Switching `useNvidiaDriverCRD` off makes every NVIDIADriver `disabled` and replaces their DaemonSets by one with the
    settings of the ClusterPolicy, which may be another driver.
    """
    if change.old is None:
        return
    driver, facts = change.section("driver"), change.facts
    if driver.value_before("enabled") is not False and driver.value("enabled") is False:
        path, nodes = driver.at("enabled"), facts.nodes_with("nvidia.com/gpu.deploy.driver", "true")
        if facts.all("Node") is UNKNOWN:
            yield problem(path, "removes the driver from every node that has it; the nodes are not known here")
        elif nodes:
            yield problem(path, f"removes the driver from {the_nodes(nodes)}, under the pods that run there")
    if driver.value_before("useNvidiaDriverCRD") is True and not driver.flag("useNvidiaDriverCRD"):
        path, remedy = driver.at("useNvidiaDriverCRD"), "delete the NVIDIADrivers first, or leave it true"
        names = [name_of(each) for each in facts.known_objects("NVIDIADriver")]
        if facts.all("NVIDIADriver") is UNKNOWN:
            yield problem(path, "disables every NVIDIADriver; which ones exist is not known here", remedy)
        elif names:
            text = f"disables {counted_names('NVIDIADriver', names)} and replaces the driver on their nodes"
            yield problem(path, text, remedy)
