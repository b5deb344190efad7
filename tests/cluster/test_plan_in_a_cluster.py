"""What `gpu-admission plan` predicts, and what happens when the change is made.

The operator's part is played by hand: what its components would write to nodes and ResourceSlices is written in each
scenario, from their documentation and not from what the plan predicts. Where a scheduler runs, every pod is then created
again, and it must find a place exactly if the plan says so.
"""

import json

import pytest

from testbed import manifests
from testbed.waiting import until
from tests.cluster.plan_stage import (
    CHANGED,
    CONFIG,
    FIRST,
    GAINED,
    GPU,
    KEPT,
    LOST,
    MIG,
    SECOND,
    WORKLOAD,
    Stage,
    claiming,
    node_labels,
    plugin_config,
    pod,
    policy,
    time_slicing,
)
from tests.cluster.quotas import counted


def _whole_state(cluster, name):
    found = cluster.get("Node", name).object
    return found["metadata"]["labels"], found["status"]["allocatable"], found["spec"].get("taints", [])


@pytest.fixture
def stage(cluster, tmp_path):
    """A namespace, and nodes that are as they were when the scenario ends."""
    before = {name: _whole_state(cluster, name) for name in (FIRST, SECOND)}
    slices = {name: cluster.get("ResourceSlice", f"{name}-gpu.nvidia.com").object["spec"]["devices"] for name in before}
    stage = Stage(cluster, cluster.namespace(), tmp_path)
    yield stage
    cluster.belongings.empty(stage.team)
    cluster.delete("ClusterPolicy", "cluster-policy")
    cluster.delete("ConfigMap", CONFIG, "gpu-operator")
    for name, (labels, amounts, taints) in before.items():
        now_labels, now_amounts, _ = _whole_state(cluster, name)
        own = {**dict.fromkeys(now_labels), **labels}
        assert cluster.patch("Node", name, body={"metadata": {"labels": own}, "spec": {"taints": taints}}).accepted
        stage.offer(name, **{**dict.fromkeys(now_amounts), **amounts})
        stage.publish(name, slices[name])


@pytest.fixture
def plugin(stage):
    """The same nodes with two GPUs each by the device plugin, and none by the DRA driver."""
    for node in (FIRST, SECOND):
        stage.publish(node, [])
        stage.offer(node, {"nvidia.com/mig.capable": "true"}, **{GPU: 2})
    stage.apply(plugin_config(time_slicing(4), "sliced"), policy())
    return stage


def test_time_slicing_that_renames_the_resource(plugin):
    team = plugin.team
    plugin.run(
        pod(team, "whole", node=FIRST),
        pod(team, "anywhere", node=SECOND),
        pod(team, "waits", f"{GPU}.shared", node=FIRST),
    )
    change = plugin_config(time_slicing(4, renameByDefault=True))
    plan = plugin.plan(change)
    assert plugin.outcomes(plan) == {"whole": LOST, "anywhere": LOST, "waits": GAINED}
    plugin.apply(change)
    for node in (FIRST, SECOND):
        sharing = {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "time-slicing"}
        plugin.offer(node, sharing, **{GPU: 0, f"{GPU}.shared": 8})
    plugin.check(plan)


def test_time_slicing_that_changes_the_label_of_the_product(plugin):
    team, product = plugin.team, {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    plugin.run(pod(team, "any", node=FIRST), pod(team, "h100", node=SECOND, nodeSelector=product))
    change = node_labels(SECOND, **{"nvidia.com/device-plugin.config": "sliced"})
    plan = plugin.plan(change)
    assert plugin.outcomes(plan) == {"any": KEPT, "h100": LOST}
    plugin.apply(change)
    shared = {
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-SHARED",
        "nvidia.com/gpu.replicas": "4",
        "nvidia.com/gpu.sharing-strategy": "time-slicing",
    }
    plugin.offer(SECOND, shared, **{GPU: 8})
    plugin.check(plan)


def test_fewer_gpus_for_several_pods_of_a_kind(plugin):
    names = [f"web-{number}" for number in range(4)]
    plugin.run(*(pod(plugin.team, name) for name in names[:2]), *(pod(plugin.team, name) for name in names[2:]))
    if not plugin.cluster.schedules:
        pytest.skip("no kube-scheduler runs here")
    change = node_labels(SECOND, **{"nvidia.com/gpu.deploy.device-plugin": "false"})
    plan = plugin.plan(change)
    (fit,) = plan["fits"]
    assert (fit["outcome"], fit["before"]["room"], fit["after"]["room"]) == (LOST, 4, 2)
    plugin.apply(change)
    plugin.offer(SECOND, **{GPU: 0})
    assert plugin.starts_again(*names) == 2


def test_device_plugin_is_disabled(plugin):
    plugin.run(pod(plugin.team, "whole", node=FIRST), pod(plugin.team, "cpu", "example.com/other", node=FIRST))
    change = policy(devicePlugin={"enabled": False})
    plan = plugin.plan(change)
    assert plugin.outcomes(plan) == {"whole": LOST, "cpu": KEPT}
    assert plan["disrupted"] == []
    plugin.apply(change)
    for node in (FIRST, SECOND):
        plugin.offer(node, **{GPU: 0})
    plugin.check(plan, before=["cpu"])


def test_gpus_are_given_to_virtual_machines(plugin):
    plugin.run(pod(plugin.team, "whole", node=FIRST), pod(plugin.team, "other", node=SECOND))
    assert plugin.cluster.patch("Node", SECOND, body=node_labels(SECOND, **{WORKLOAD: "container"})).accepted
    machines = {"vfioManager": {"enabled": True}, "sandboxDevicePlugin": {"enabled": True}}
    change = policy(sandboxWorkloads={"enabled": True, "defaultWorkload": "vm-passthrough"}, **machines)
    plan = plugin.plan(change)
    assert plugin.outcomes(plan) == {"whole": LOST, "other": KEPT}
    assert [each["name"] for each in plan["disrupted"]] == [f"pod {plugin.team}/whole"]
    plugin.apply(change)
    plugin.offer(FIRST, **{GPU: 0})
    plugin.check(plan)


def test_namespace_converts_its_pods_to_claims(plugin):
    """The nodes of the device plugin have no devices for claims."""
    plugin.run(pod(plugin.team, "converted", node=FIRST), pod(plugin.team, "part", f"{GPU}.shared", node=FIRST))
    labels = {"gpu-admission.io/dra": "enabled"}
    change = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": plugin.team, "labels": labels}}
    plan = plugin.plan(change)
    assert plugin.outcomes(plan) == {"converted": LOST, "part": KEPT}
    assert plugin.cluster.patch("Namespace", plugin.team, body={"metadata": {"labels": labels}}).accepted
    if plugin.cluster.schedules:
        until(lambda: _is_converted(plugin), "the service knows the label")
    plugin.check(plan, before=["part"])


def _is_converted(stage):
    trial = stage.cluster.create(pod(stage.team, "trial"), dry_run=True)
    return trial.accepted and "resourceClaims" in trial.object["spec"]


@pytest.mark.parametrize(
    ("strategy", "offered", "labels", "outcomes"),
    [
        ("mixed", {GPU: 0, MIG: 14}, {}, {"whole": LOST, "small": GAINED, "other": KEPT, "h100": LOST}),
        (
            "single",
            {GPU: 14},
            {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "nvidia.com/gpu.count": "14"},
            {"whole": CHANGED, "small": KEPT, "other": KEPT, "h100": LOST},
        ),
    ],
)
def test_gpus_of_a_node_are_cut_by_mig(plugin, strategy, offered, labels, outcomes):
    team, product = plugin.team, {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    plugin.apply(policy(strategy))
    plugin.run(
        pod(team, "whole", node=FIRST),
        pod(team, "small", MIG, node=FIRST),
        pod(team, "other", node=SECOND),
        pod(team, "h100", node=FIRST, nodeSelector=product),
    )
    change = node_labels(FIRST, **{"nvidia.com/mig.config": "all-1g.10gb"})
    plan = plugin.plan(change)
    assert plugin.outcomes(plan) == outcomes
    assert {each["name"] for each in plan["disrupted"]} == {f"pod {team}/whole", f"pod {team}/h100"}
    (node,) = plan["nodes"]
    assert node["after"] == "; ".join(f"{amount} {name}" for name, amount in offered.items() if amount)
    plugin.apply(change)
    plugin.offer(FIRST, labels, **offered)
    plugin.check(plan, before=["small"])


def test_label_is_removed_that_pods_select(plugin):
    pool = {"example.com/pool": "training"}
    assert plugin.cluster.patch("Node", FIRST, body={"metadata": {"labels": pool}}).accepted
    plugin.run(pod(plugin.team, "pool", nodeSelector=pool), pod(plugin.team, "any", node=FIRST))
    change = node_labels(FIRST, **{"example.com/pool": None})
    plan = plugin.plan(change)
    assert plugin.outcomes(plan) == {"pool": LOST, "any": KEPT}
    assert plan["disrupted"] == []
    assert plugin.cluster.patch("Node", FIRST, body={"metadata": change["metadata"]}).accepted
    plugin.check(plan)


@pytest.mark.parametrize("is_tolerated", [True, False], ids=["tolerated by the operator", "not tolerated"])
def test_taint_ends_pods_that_do_not_tolerate_it(plugin, is_tolerated):
    """The device plugin ends too, unless the ClusterPolicy has a toleration for it."""
    tolerating = [{"key": "example.com/repair", "operator": "Exists"}]
    if is_tolerated:
        tolerations = [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}, *tolerating]
        plugin.apply(policy(daemonsets={"tolerations": tolerations}))
    plugin.run(
        pod(plugin.team, "plain", node=FIRST),
        pod(plugin.team, "tolerant", node=FIRST, tolerations=[{"key": GPU, "operator": "Exists"}, *tolerating]),
        pod(plugin.team, "other", node=SECOND),
    )
    taints = plugin.cluster.get("Node", FIRST).object["spec"]["taints"]
    repair = {"key": "example.com/repair", "effect": "NoExecute"}
    change = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": FIRST}, "spec": {"taints": [*taints, repair]}}
    plan = plugin.plan(change)
    assert plugin.outcomes(plan) == {"plain": LOST, "tolerant": KEPT if is_tolerated else LOST, "other": KEPT}
    assert [each["name"] for each in plan["disrupted"]] == [f"pod {plugin.team}/plain"]
    assert plugin.cluster.patch("Node", FIRST, body={"spec": change["spec"]}).accepted
    if plugin.cluster.makes_pods and plugin.cluster.schedules:
        until(lambda: _is_ending(plugin, "plain"), "the pod is evicted", 60)
        assert not _is_ending(plugin, "tolerant")
    if not is_tolerated:
        plugin.offer(FIRST, **{GPU: 0})
    plugin.check(plan)


def _is_ending(stage, name):
    found = stage.cluster.get("Pod", name, stage.team)
    return found.code == 404 or "deletionTimestamp" in found.object["metadata"]


@pytest.fixture
def spare_class(stage):
    """A DeviceClass of the scenario's own, and a template of claims for it."""
    document = manifests.device_class()
    document = {**document, "metadata": {"name": "spare"}, "spec": {"selectors": document["spec"]["selectors"]}}
    stage.cluster.belongings.add(document)
    template = manifests.template(stage.team, "spare")
    template["spec"]["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "spare"
    assert stage.cluster.create(template).accepted
    assert stage.cluster.create(manifests.template(stage.team, "gpus")).accepted
    yield document
    stage.cluster.delete("DeviceClass", "spare")


@pytest.mark.parametrize("change", ["deleted", "selects nothing"])
def test_device_class_that_claims_name(stage, spare_class, change):
    stage.run(claiming(stage.team, "own", "spare", node=FIRST), claiming(stage.team, "other", node=FIRST))
    if change == "deleted":
        plan = stage.plan(arguments=["--delete", "deviceclass/spare"])
        assert stage.cluster.delete("DeviceClass", "spare").accepted
    else:
        selectors = [{"cel": {"expression": "device.driver == 'example.com'"}}]
        document = {**spare_class, "spec": {"selectors": selectors}}
        plan = stage.plan(document)
        assert stage.cluster.patch("DeviceClass", "spare", body={"spec": document["spec"]}).accepted
    assert stage.outcomes(plan) == {"own": LOST, "other": KEPT}
    stage.check(plan)


def test_device_class_that_serves_a_resource(stage, spare_class):
    """Since Kubernetes 1.36, a DeviceClass can serve an extended resource by claims."""
    resource = "example.com/gpu"
    serving = {**spare_class, "spec": {**spare_class["spec"], "extendedResourceName": resource}}
    assert stage.cluster.patch("DeviceClass", "spare", body={"spec": serving["spec"]}).accepted
    assert stage.cluster.create(pod(stage.team, "served", resource)).accepted
    stage.pods["served"] = pod(stage.team, "served", resource)
    if stage.cluster.schedules and not stage.verdict("served"):
        pytest.skip("this cluster serves no extended resources by claims")
    change = {**serving, "spec": {**spare_class["spec"], "extendedResourceName": "example.com/other"}}
    plan = stage.plan(change)
    assert stage.outcomes(plan) == {"served": LOST}
    assert stage.cluster.patch("DeviceClass", "spare", body={"spec": change["spec"]}).accepted
    stage.check(plan)


def test_gpus_that_claims_hold_are_cut_by_mig(stage):
    """The devices of the DRA driver are predicted from those of another node."""
    product, parts = "NVIDIA H100 80GB HBM3", 7
    gpu = stage.cluster.get("ResourceSlice", f"{SECOND}-gpu.nvidia.com").object["spec"]["devices"][0]

    def parted(number):
        attributes = {**gpu["attributes"], "type": {"string": "mig"}, "profile": {"string": "1g.10gb"}}
        capacity = {"memory": {"value": "9856Mi"}}
        return [
            {"name": f"gpu-{number}-mig-{part}", "attributes": attributes, "capacity": capacity}
            for part in range(parts)
        ]

    assert product == gpu["attributes"]["productName"]["string"]
    stage.publish(SECOND, parted(0))
    document = manifests.device_class()
    expression = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'"
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    stage.cluster.belongings.add({**document, "metadata": {"name": "spare"}, "spec": spec})
    try:
        template = manifests.template(stage.team, "parts")
        template["spec"]["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] = "spare"
        assert stage.cluster.create(template).accepted
        assert stage.cluster.create(manifests.template(stage.team, "gpus")).accepted
        stage.run(claiming(stage.team, "whole"), claiming(stage.team, "part", "parts", node=FIRST))
        change = node_labels(FIRST, **{"nvidia.com/mig.config": "all-1g.10gb"})
        plan = stage.plan(change)
        if stage.cluster.schedules:
            assert stage.outcomes(plan) == {"whole": LOST, "part": GAINED}
            assert [each["name"] for each in plan["disrupted"]] == [f"pod {stage.team}/whole"]
        stage.apply(change)
        stage.publish(FIRST, [*parted(0), *parted(1)])
        stage.check(plan)
    finally:
        stage.cluster.belongings.empty(stage.team)
        stage.cluster.delete("DeviceClass", "spare")


def test_quota_counts_shares_of_gpus_as_parts(plugin):
    team = plugin.team
    plugin.run(pod(team, "one", node=FIRST), pod(team, "two", node=SECOND))
    plugin.apply(manifests.quota(team, 2))
    change = plugin_config(time_slicing(4))
    plan = plugin.plan(change)
    (limit,) = plan["limits"]
    assert (limit["outcome"], limit["before"]["used"], limit["after"]["used"]) == (LOST, "2", "1/2")
    plugin.apply(change)
    shared = {
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-SHARED",
        "nvidia.com/gpu.replicas": "4",
        "nvidia.com/gpu.sharing-strategy": "time-slicing",
    }
    for node in (FIRST, SECOND):
        plugin.offer(node, shared, **{GPU: 8})
    counted(plugin.cluster, team, limit["after"]["used"])


def test_quota_that_is_lower_than_what_is_used(plugin):
    team = plugin.team
    plugin.run(pod(team, "one", node=FIRST), pod(team, "two", node=SECOND))
    change = manifests.quota(team, 1)
    plan = plugin.plan(change)
    assert plugin.outcomes(plan) == {"one": KEPT, "two": KEPT}
    (limit,) = plan["limits"]
    assert (limit["outcome"], limit["after"]) == (LOST, {"hard": "1", "used": "2"})
    assert sorted(pod for each in plan["refusals"] for pod in each["pods"]) == [f"{team}/one", f"{team}/two"]
    plugin.apply(change)
    until(lambda: "used" in json.dumps(plugin.cluster.get("GPUQuota", "gpu", team).object), "the quota is counted")
    plugin.cluster.delete("Pod", "one", team, gracePeriodSeconds=0)
    until(lambda: plugin.cluster.get("Pod", "one", team).code == 404, "the pod is gone")
    answer = plugin.cluster.create(plugin.pods["one"])
    assert (answer.code, "exceeded quota" in answer.message) == (403, True)
