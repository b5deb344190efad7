"""The single checks of the allocator and their reasons, which explanations show."""

from __future__ import annotations

import pytest

from policies.devices.allocation.capacity import Reason, Rejection
from policies.devices.allocation.checks import Candidate
from policies.devices.allocation.search import Picks
from policies.devices.allocation.slices import TargetNode

GIB = 2**30 * 10**9


class Asked:
    """The first device of the node, and a claim's only request for it."""

    def __init__(self, cluster, *, allocated=(), **exactly):
        allocator = cluster.allocator(cluster.claim(cluster.request("gpu", **exactly)), allocated=allocated)
        self.question = allocator.question
        self.checks = self.question.checks
        (self.claim,) = self.question.claims
        self.subrequest = self.claim.requests[0].subrequests[0]
        (self.pool,) = allocator.pools(cluster.node)
        self.device = self.pool.slices[0].devices[0]


def test_a_device_in_use_says_so(cluster):
    cluster.add("gpu-0")
    asked = Asked(cluster, allocated=["gpu.example.com/node-a/gpu-0"])

    assert asked.checks.in_use(asked.subrequest, asked.device) == Rejection(Reason.IN_USE)


@pytest.mark.parametrize("reason", [Reason.CLASS_SELECTOR, Reason.REQUEST_SELECTOR])
def test_a_selector_that_does_not_match_is_named(cluster, reason):
    cluster.add("gpu-0")
    selectors = [{"cel": {"expression": "true"}}, {"cel": {"expression": 'device.driver == "other"'}}]
    cluster.classes[0]["spec"]["selectors"] = selectors if reason is Reason.CLASS_SELECTOR else []
    asked = Asked(cluster, selectors=selectors)

    rejection = asked.checks.selectors(asked.claim, asked.subrequest, asked.device)
    assert rejection == Rejection(reason, index=1, name='device.driver == "other"')


def test_a_device_of_another_node_says_so(cluster):
    devices = [cluster.device("gpu-0", nodeName="node-b"), cluster.device("gpu-1", nodeName="node-a")]
    cluster.add(*devices, perDeviceNodeSelection=True)
    asked = Asked(cluster)

    assert asked.checks.node(asked.device, TargetNode(cluster.node)) == Rejection(Reason.OTHER_NODE)


@pytest.mark.parametrize(
    ("capacity", "rejection"),
    [
        ({"memory": {"value": "8Gi"}}, Rejection(Reason.CAPACITY, name="memory", asked=10 * GIB, left=8 * GIB)),
        ({"cores": {"value": "8"}}, Rejection(Reason.NO_SUCH_CAPACITY, name="memory", asked=10 * GIB)),
        (
            {"memory": {"value": "80Gi", "requestPolicy": {"validValues": ["5Gi"]}}},
            Rejection(Reason.CAPACITY_POLICY, name="memory", asked=10 * GIB, left=80 * GIB),
        ),
    ],
    ids=["too little", "none", "policy"],
)
def test_capacity_says_what_is_asked_and_left(cluster, capacity, rejection):
    cluster.add(cluster.device("gpu-0", capacity))
    asked = Asked(cluster, capacity={"requests": {"memory": "10Gi"}})

    assert asked.checks.capacity(asked.subrequest, asked.device, {}) == rejection


def test_a_taint_is_named(cluster):
    taint = {"key": "health", "effect": "NoSchedule"}
    cluster.add(cluster.device("gpu-0", taints=[taint]))
    asked = Asked(cluster)

    assert asked.checks.taints(asked.subrequest, asked.device) == Rejection(Reason.TAINT, taint=taint)


def test_a_counter_is_named_with_what_is_left(cluster):
    cluster.add(sharedCounters=[{"name": "gpu-0", "counters": {"memory": {"value": "8Gi"}}}], count=2)
    consumption = [{"counterSet": "gpu-0", "counters": {"memory": {"value": "10Gi"}}}]
    cluster.add(cluster.device("gpu-0", consumesCounters=consumption), count=2)
    asked = Asked(cluster)
    picks = Picks(asked.checks, asked.question.usage, [[]])

    assert picks.take(0, asked.subrequest, Candidate(asked.device, asked.pool)) == Rejection(
        Reason.COUNTERS, name="gpu-0/memory", asked=10 * GIB, left=8 * GIB
    )
