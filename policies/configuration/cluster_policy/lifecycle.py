"""Lifecycle: one ClusterPolicy at a time, and what must not be taken away under running pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.configuration.checks import CLUSTER_POLICY, CLUSTER_POLICY_DELETION
from policies.configuration.usage import counted, gpu_claims, gpu_pods, listed, the_nodes
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
    """The operator follows the oldest ClusterPolicy and ignores every other, without an event and without an error.

    Edits to an ignored one do nothing, which is found out node by node. Beside a GPUCluster the operator reconciles
    neither, and what runs on the nodes is no longer looked after.
    """
    if not change.created:
        return
    others = [name_of(policy) for policy in change.facts.known("ClusterPolicy") if name_of(policy) != change.name]
    if others:
        yield problem(_NAME, f'"{change.name}" would be ignored, because the operator follows the older "{others[0]}"')
    clusters = [name_of(cluster) for cluster in change.facts.known("GPUCluster")]
    if clusters:
        text = (
            f'"{change.name}" and the GPUCluster "{clusters[0]}" exclude each other; the operator would report: '
            f'conflicting GPUCluster resource "{clusters[0]}" detected; ClusterPolicy and GPUCluster cannot co-exist'
        )
        yield problem(_NAME, text, f'delete the GPUCluster "{clusters[0]}" first, or stay with it')
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
    """Deleting the ClusterPolicy deletes the driver, the device plugin and every other operand on every node at once.

    The driver's modules are in use and cannot be unloaded ("Failed to remove GPU"), pods that end stay Terminating, and
    those that go on hold devices that nobody accounts for. Nodes come back by a reboot.
    """
    if not change.deleted or lookup(change.object, ("metadata", "annotations", ALLOW_DELETION)) == "true":
        return
    active = change.facts.cluster_policy()
    if isinstance(active, dict) and name_of(active) != change.name:
        return
    pods = gpu_pods(change.facts.known("Pod"), change.facts.view)
    claims = gpu_claims(change.facts.known("ResourceClaim"))
    users = [counted(len(found), noun, listed(found)) for found, noun in ((pods, "pod"), (claims, "claim")) if found]
    if users:
        text = (
            f'"{change.name}" is deleted while GPUs are held by {" and ".join(users)}; the driver goes from under them'
        )
        yield problem(_NAME, text, severity=change.facts.cluster_policy_deletion)


@CLUSTER_POLICY.rule(
    "GA108",
    "The driver must not be switched off under running nodes",
    default=Severity.WARN,
    remedy="drain the nodes first",
    source="github.com/NVIDIA/gpu-operator controllers/state_manager.go, controllers/nvidiadriver_controller.go",
    rows=("A-05", "A-06"),
)
def driver_kept(change: Change) -> Iterator[Problem]:
    """The operator removes the driver's DaemonSets at once, and with them the modules under running pods.

    Switching `useNvidiaDriverCRD` off makes every NVIDIADriver `disabled` and replaces their DaemonSets by one with the
    settings of the ClusterPolicy, which may be another driver.
    """
    if change.old is None or change.deleted:
        return
    if change.before("driver", "enabled") is not False and change.value("driver", "enabled") is False:
        yield from _driver_disabled(change)
    if change.before("driver", "useNvidiaDriverCRD") is True and not change.flag("driver", "useNvidiaDriverCRD"):
        yield from _driver_resources_disabled(change)


def _driver_disabled(change: Change) -> Iterator[Problem]:
    path = change.at("driver", "enabled")
    if change.facts.all("Node") is UNKNOWN:
        yield problem(path, "takes the driver from every node that has it; which nodes do is not known here")
        return
    nodes = change.facts.nodes_with("nvidia.com/gpu.deploy.driver", "true")
    if nodes:
        text = f"takes the driver from {the_nodes(nodes)}, under the pods that run there"
        yield problem(path, text)


def _driver_resources_disabled(change: Change) -> Iterator[Problem]:
    path = change.at("driver", "useNvidiaDriverCRD")
    remedy = "delete the NVIDIADrivers first, or leave it true"
    if change.facts.all("NVIDIADriver") is UNKNOWN:
        yield problem(path, "disables every NVIDIADriver; which there are is not known here", remedy)
        return
    drivers = [name_of(driver) for driver in change.facts.known("NVIDIADriver")]
    if drivers:
        text = (
            f"disables {counted(len(drivers), 'NVIDIADriver', listed(drivers))} and replaces the driver on their nodes"
        )
        yield problem(path, text, remedy)
