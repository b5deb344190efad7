"""The device plugin's resources by cut, strategy and sharing: a table of what the real one did."""

import pytest

from policies.fleet.offers import Cut, NodeState
from policies.fleet.offers.offer import PluginOffer, plugin_offer
from policies.nvidia.plugin_configs import PluginConfig
from tests.fleet.offers.reference import counts

GPU, ONE = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"
OFF, EMPTY = [None] * 4, [{}] * 4
SEVEN = [counts("1g.10gb 7")] * 4
BALANCED = [counts("1g.10gb 2 2g.20gb 1 3g.40gb 1")] * 4
HALF = [None, None, counts("1g.10gb 7"), counts("1g.10gb 7")]
COMPUTE = [counts("1c.3g.40gb 6")] * 4


def sharing(kind="timeSlicing", resource=GPU, replicas=4, **options):
    return {"sharing": {kind: {"resources": [{"name": resource, "replicas": replicas}], **options}}}


def offer(by_gpu, strategy, document=None):
    return plugin_offer(len(by_gpu), NodeState(Cut.of(by_gpu), strategy, PluginConfig(document)))


@pytest.mark.parametrize(
    ("by_gpu", "strategy", "document", "resources"),
    [
        (OFF, "mixed", None, {GPU: 4}),
        (OFF, "single", sharing(), {GPU: 16}),
        (OFF, "none", sharing(renameByDefault=True), {f"{GPU}.shared": 16}),
        (OFF, "none", sharing(resource=ONE), {GPU: 4}),
        (OFF, "none", sharing("mps", ONE), {GPU: 4}),
        (SEVEN, "none", None, {GPU: 4}),
        (SEVEN, "none", sharing("mps", failRequestsGreaterThanOne=False), {GPU: 16}),
        (SEVEN, "single", None, {GPU: 28}),
        (SEVEN, "single", sharing(replicas=2), {GPU: 56}),
        (SEVEN, "mixed", sharing(), {ONE: 28}),
        (SEVEN, "mixed", sharing(resource=ONE, renameByDefault=True), {f"{ONE}.shared": 112}),
        (BALANCED, "mixed", None, {ONE: 8, "nvidia.com/mig-2g.20gb": 4, "nvidia.com/mig-3g.40gb": 4}),
        (HALF, "mixed", sharing(), {GPU: 8, ONE: 14}),
        (EMPTY, "mixed", None, {}),
        (EMPTY, "none", None, {GPU: 4}),
        (COMPUTE, "single", None, {GPU: 24}),
        ([counts("1g.10gb+me 1")], "mixed", None, {f"{ONE}.me": 1}),
    ],
)
def test_plugin_offers_devices(by_gpu, strategy, document, resources):
    assert offer(by_gpu, strategy, document) == PluginOffer(resources)


@pytest.mark.parametrize(
    ("document", "single"),
    [
        (sharing(), set()),
        (sharing(failRequestsGreaterThanOne=True), {GPU}),
        (sharing("mps"), {GPU}),
        (sharing("mps", renameByDefault=True), {f"{GPU}.shared"}),
        (sharing("mps", failRequestsGreaterThanOne=False), set()),
        (sharing(resource=ONE, failRequestsGreaterThanOne=True), set()),
    ],
)
def test_plugin_refuses_two_shares_if_configured(document, single):
    assert offer(OFF, "single", document).single == single


@pytest.mark.parametrize(
    ("by_gpu", "strategy", "document", "words"),
    [
        (BALANCED, "single", None, "more than one MIG device type present on node"),
        (HALF, "single", None, "all devices on the node must be configured with the same migEnabled value"),
        (EMPTY, "single", None, "device 0 has no MIG devices configured"),
        ([counts("1g.10gb 7"), {}], "single", None, "device 1 has no MIG devices configured"),
        (COMPUTE, "mixed", None, "MIG profile '1c.3g.40gb' does not match any resource patterns"),
        (OFF, "mixed", sharing("mps"), "using --mig-strategy=mixed is not supported with MPS"),
        (SEVEN, "single", sharing("mps"), "sharing using MPS is not supported for MIG devices"),
        (SEVEN, "single", sharing("mps", ONE), "sharing using MPS is not supported for MIG devices"),
        (BALANCED, "single", sharing("mps"), "more than one MIG device type present on node"),
        (OFF, "none", sharing(replicas=1), "number of replicas must be >= 2"),
    ],
)
def test_plugin_that_cannot_start_offers_nothing(by_gpu, strategy, document, words):
    assert offer(by_gpu, strategy, document) == PluginOffer(refusal=words)


def test_resource_that_is_listed_twice_is_shared_by_the_larger_number():
    resources = [{"name": GPU, "replicas": 2}, {"name": GPU, "replicas": 4}]
    assert offer(OFF, "none", {"sharing": {"timeSlicing": {"resources": resources}}}).resources == {GPU: 16}


def test_node_without_the_plugin_offers_no_resource():
    assert plugin_offer(4, NodeState(Cut.of(OFF), has_plugin=False)) == PluginOffer()
