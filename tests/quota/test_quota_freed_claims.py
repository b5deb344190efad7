"""Claims that get another device after their pods have ended: the quota still holds."""

import pytest

from policies.quota.counter import Counter, Terms
from policies.quota.limits.quota import parse_quota
from policies.rules.settings.choices import Quotas
from tests.quota.counted_objects import claim, document, pod, status_of
from webhook.cluster.manifests import ManifestsView

H100 = {"name": "h100", "selector": {"products": ["H100*"]}, "gpus": 8}
CLASS = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu.nvidia.com"},
    "spec": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.nvidia.com"'}}]},
}


def of_node(name, product):
    attributes = {"productName": {"string": product}, "type": {"string": "gpu"}}
    device = {"name": "gpu-0", "attributes": attributes, "capacity": {"memory": {"value": "81559Mi"}}}
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.nvidia.com", "nodeName": name, "pool": pool, "devices": [device]}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


VIEW = ManifestsView([CLASS, of_node("a", "NVIDIA A100-SXM4-80GB"), of_node("h", "NVIDIA H100 80GB HBM3")])
TERMS = Terms(parse_quota(document(H100)), VIEW, Quotas())


def on_an_a100(wanted):
    result = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "a", "device": "gpu-0"}
    return {**wanted, "status": {"allocation": {"devices": {"results": [result]}}}}


def counted(pods, wanted, counter=None):
    return (counter or Counter()).count(pods, [wanted], TERMS)[1]["uid-of-claim"].amounts


def test_reusable_claim_counts_as_the_most_that_it_can_get():
    assert counted([], claim("claim")) == counted([], on_an_a100(claim("claim"))) == {"h100": 1}


@pytest.mark.parametrize(("node", "amounts"), [("a", {}), ("", {"h100": 1})], ids=["bound", "waits"])
def test_claim_of_a_pod_counts_as_what_it_got_once_the_pod_has_a_node(node, amounts):
    train = pod("train", 0, status_of(gpu="claim"), nodeName=node)
    assert counted([train], on_an_a100(claim("claim", of="train", piece="gpu"))) == amounts


def test_claim_counts_anew_when_its_pod_gets_a_node():
    counter, made = Counter(), on_an_a100(claim("claim", of="train", piece="gpu"))
    waiting, bound = (pod("train", 0, status_of(gpu="claim"), nodeName=node) for node in ("", "a"))
    assert [counted(pods, made, counter) for pods in ([waiting], [bound], [])] == [{"h100": 1}, {}, {}]
