"""The device plugin and DRA: two ways to a GPU, of which a node has one."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.configuration.cluster_policy.checks import CLUSTER_POLICY
from policies.configuration.usage import the_nodes
from policies.decision import Severity
from policies.fleet.device_plugin import runs_device_plugin
from policies.kubernetes.objects import name_of
from policies.kubernetes.resourceslices import PoolPart, devices_in, newest
from policies.nvidia.identifiers import DRIVER
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change
    from policies.kubernetes.objects import Object
    from policies.view import ClusterView

_TYPE = f"{DRIVER}/type"


@CLUSTER_POLICY.rule(
    "GA145",
    "The device plugin must not run on nodes whose GPUs are handed out by DRA",
    default=Severity.DENY,
    remedy='write devicePlugin.enabled: false, or label nodes of DRA nvidia.com/gpu.deploy.device-plugin: "false"',
    source="github.com/NVIDIA/gpu-operator pull 1541; github.com/kubernetes-sigs/dra-driver-nvidia-gpu",
    rows=("G-26", "S-06"),
)
def one_way_to_a_gpu(change: Change) -> Iterator[Problem]:
    """The device plugin and the DRA driver do not know of each other: both hand out every GPU of a node they run on.

    Two pods then share a GPU that each believes to have alone, and the second to allocate memory fails. Refused is the
    change that turns the device plugin on; where it is on already, this only warns.
    """
    if change.deleted:
        return
    by_dra = change.facts.view.derive(_nodes_of_driver)
    nodes = [
        node
        for node in change.facts.known("Node")
        if name_of(node) in by_dra and runs_device_plugin(node, change.facts.view, change.object)
    ]
    if nodes:
        hand_out = "hands out its GPUs" if len(nodes) == 1 else "hand out their GPUs"
        text = f"is true, and {the_nodes(nodes)} {hand_out} by DRA (gpu.nvidia.com) already; two pods could get one GPU"
        was_on = not change.created and change.before("devicePlugin", "enabled") is not False
        severity = Severity.WARN if was_on else None
        yield problem(change.at("devicePlugin", "enabled"), text, severity=severity)


def _nodes_of_driver(view: ClusterView) -> frozenset[str]:
    """The nodes whose GPUs or MIG devices NVIDIA's DRA driver publishes; none where ResourceSlices are unknown."""
    slices = view.derive_each("ResourceSlice", _of_driver)
    if slices is UNKNOWN:
        return frozenset()
    return frozenset(chain.from_iterable(newest(each for each in slices if each is not None)))


def _of_driver(resource_slice: Object) -> tuple[PoolPart, frozenset[str]] | None:
    """The nodes of the GPUs and MIG devices of one slice; None where it is not of NVIDIA's driver."""
    part = PoolPart.of(resource_slice)
    if part is None or part.pool[0] != DRIVER:
        return None
    devices = devices_in(resource_slice)
    return part, frozenset(device.node for device in devices if device.attributes.get(_TYPE) in ("gpu", "mig"))
