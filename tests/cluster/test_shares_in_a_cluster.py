"""Shares of devices: what the real scheduler gives to claims, and what quotas and `usage` make of it."""

import json
from fractions import Fraction
from functools import partial

import pytest

from policies.devices.device_sharing import consumed_capacity, held_parts, requested_parts
from policies.kubernetes.quantities import quantity_or_none
from policies.kubernetes.resourceslices import devices_in
from testbed import manifests
from testbed.waiting import until
from tests.cluster.commands import command_output
from tests.cluster.mixed_nodes import MIG_CLASS, mig_class
from tests.cluster.quotas import counted, limited
from tests.cluster.scheduled_pods import Scheduled, beating
from tests.published import shared_device

NODE, PRODUCT = "shares", "NVIDIA A100-SXM4-40GB"
WHOLE, SLICE = ("gpu", "", {"memory": "40Gi"}), ("mig", "1g.5gb", {"memory": "4864Mi", "multiprocessors": "14"})
DIVISIBLE = ("gpu", "", {"memory": "40Gi", "multiprocessors": "108"})
"""A GPU as the driver publishes it with DynamicMIG."""


def published(form, shares):
    """The slice of one device as the driver shares it."""
    kind, profile, capacity = form
    texts = {"type": kind, "productName": PRODUCT} | ({"profile": profile} if profile else {})
    device = {
        "name": f"{kind}-0",
        "attributes": {name: {"string": text} for name, text in texts.items()},
        "capacity": {name: {"value": value} for name, value in capacity.items()},
    }
    document = manifests.resource_slice(NODE, 0)
    document["spec"]["devices"] = [shared_device(device, shares)]
    return document


class Stage:
    """A node that only one test has, and its namespaces."""

    def __init__(self, real):
        self.real, self.made, self.teams = real, [], []

    def add(self, *documents):
        for document in documents:
            self.made.append(document)
            self.real.belongings.add(document)

    def team(self, **labels):
        """A namespace with a quota of 9 GPUs."""
        self.teams.append(self.real.namespace(quota="enforced", **labels))
        return limited(self.real, self.teams[-1], 9)


@pytest.fixture
def stage(real, background):
    if not real.schedules or real.minor < 36:
        pytest.skip("needs a kube-scheduler of Kubernetes 1.36")
    stage = Stage(real)
    beats = beating(real, background, [NODE])
    try:
        yield stage
    finally:
        beats.cancel()
        for team in stage.teams:
            # Claims that no pod uses any more still hold their devices until the controller has freed them.
            for kind in ("Pod", "ResourceClaim"):
                for each in real.list(kind, team):
                    real.delete(kind, each["metadata"]["name"], team, gracePeriodSeconds=0)
            until(partial(_is_free, real, team), "no claim holds the device any more", 60)
        for document in reversed(stage.made):
            real.delete(document["kind"], document["metadata"]["name"])
        real.delete("Lease", NODE, "kube-node-lease")


def _is_free(real, team):
    return not real.list("ResourceClaim", team)


def claim_of(team, name, form, requests):
    document = manifests.claim(team, name, f'device.attributes["gpu.nvidia.com"].productName == "{PRODUCT}"')
    exactly = document["spec"]["devices"]["requests"][0]["exactly"]
    exactly |= {"capacity": {"requests": requests}} if requests else {}
    exactly |= {"deviceClassName": MIG_CLASS} if form is SLICE else {}
    return document


def pod_of(team, name):
    toleration = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    document = manifests.pod(
        team, name, resourceClaims=[{"name": "gpu", "resourceClaimName": name}], tolerations=[toleration]
    )
    document["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    return document


def positive(parts):
    return {name: part for name, part in parts.items() if part}


@pytest.mark.parametrize(
    ("form", "shares", "requests", "starting", "charged"),
    [
        (WHOLE, "4", None, 4, "5/4"),
        (WHOLE, "4", {"shares": "2"}, 2, "5/2"),
        (WHOLE, "memory", {"memory": "10485759Ki"}, 4, "5/4"),
        (WHOLE, "memory", None, 1, "5"),
        (WHOLE, "unlimited", None, 5, "5"),
        (WHOLE, "unlimited", {"memory": "20Gi"}, 2, "5"),
        (WHOLE, "", None, 1, "5"),
        (SLICE, "4", None, 1, "5/7"),
        (SLICE, "4", {"shares": "1", "multiprocessors": "0"}, 4, "5/28"),  # as conversion requests it
        (SLICE, "unlimited", {"multiprocessors": "7"}, 2, "5/7"),
    ],
)
def test_charges_and_holders_are_what_the_scheduler_makes_of_shares(
    real, stage, form, shares, requests, starting, charged
):
    stage.add(manifests.node(NODE), mig_class(), published(form, shares))
    (device,) = devices_in(stage.made[-1])
    team = stage.team()
    names = [f"train-{number}" for number in range(5)]
    for name in names:
        assert real.create(claim_of(team, name, form, requests)).accepted
    started = Scheduled(real, [team]).starts(*(pod_of(team, name) for name in names))
    assert len(started) == starting
    results = [
        result
        for each in real.list("ResourceClaim", team)
        for result in each.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
    ]
    held = [positive(held_parts(device, consumed_capacity(each))) for each in results]
    assert held == [positive(requested_parts(device, requests))] * starting
    counted(real, team, charged)
    report = json.loads(command_output("usage", "--kubeconfig", real.kubeconfig, "-o", "json", "-n", team))
    assert sorted(pod for each in report["holders"] for pod in each["pods"]) == sorted(
        pod["metadata"]["name"] for pod in started
    )
    (devices,) = (devices for node in report["nodes"] for devices in node["devices"])
    assert Fraction(devices["held"]) == 1
    assert report["problems"] == []


def plugin_node(form, resource):
    """A node whose device plugin hands one device out four times, with the labels of GPU Feature Discovery."""
    _, profile, capacity = form
    shown = resource.removesuffix(".shared")
    suffixes = (f"-MIG-{profile}" * bool(profile), "-SHARED" * (shown == resource))
    node = manifests.node(NODE)
    node["metadata"]["labels"] |= {
        "kubernetes.io/hostname": NODE,
        "nvidia.com/gpu.product": PRODUCT.replace(" ", "-"),
        f"{shown}.product": "".join((PRODUCT.replace(" ", "-"), *suffixes)),
        f"{shown}.replicas": "4",
        f"{shown}.sharing-strategy": "time-slicing",
        f"{shown}.memory": str(int(quantity_or_none(capacity["memory"])) // 2**20),
    }
    for amounts in ("allocatable", "capacity"):
        node["status"][amounts] = {**node["status"][amounts], resource: "4"}
    return node


def sharing_pod(team, name, resource):
    document = manifests.pod(team, name, nodeSelector={"kubernetes.io/hostname": NODE})
    document["spec"]["containers"][0]["resources"] = {"limits": {resource: "1"}}
    return document


@pytest.mark.parametrize(
    ("form", "resource", "shares", "starting", "charged"),
    [
        (WHOLE, "nvidia.com/gpu", "4", 4, "1"),
        (WHOLE, "nvidia.com/gpu", "memory", 4, "1"),
        (WHOLE, "nvidia.com/gpu", "unlimited", 5, "5"),
        (WHOLE, "nvidia.com/gpu.shared", "4", 4, "1"),
        (DIVISIBLE, "nvidia.com/gpu", "memory", 4, "1"),
        (SLICE, "nvidia.com/mig-1g.5gb", "4", 4, "1/7"),
        (SLICE, "nvidia.com/mig-1g.5gb.shared", "memory", 4, "1/7"),
    ],
)
def test_pods_that_share_a_device_share_it_after_the_device_plugin(
    real, stage, form, resource, shares, starting, charged
):
    """Five pods for four parts: the fifth waits before and after, but where claims share without limit."""
    stage.add(plugin_node(form, resource), mig_class())
    before, after = stage.team(), stage.team(dra="enabled")
    scheduled = Scheduled(real, [before, after])

    def started(team):
        pods = [sharing_pod(team, f"train-{number}", resource) for number in range(5)]
        found = scheduled.starts(*pods)
        scheduled.end(*(pod for pod in pods if pod not in found))
        return found

    by_plugin = started(before)
    assert len(by_plugin) == 4
    counted(real, before, "1/7" if form is SLICE else "1")
    scheduled.end(*by_plugin)

    body = {"status": {amounts: {resource: None} for amounts in ("allocatable", "capacity")}}
    assert real.patch("Node", NODE, body=body, subresource="status").accepted
    stage.add(published(form, shares))
    probe = sharing_pod(after, "probe", resource)
    until(lambda: "resourceClaims" in real.create(probe, dry_run=True).object["spec"], "pods get claims")
    assert len(started(after)) == starting
    counted(real, after, charged)
    results = [
        result
        for claim in real.list("ResourceClaim", after)
        for result in claim["status"]["allocation"]["devices"]["results"]
    ]
    assert [result["device"] for result in results] == [f"{form[0]}-0"] * starting
