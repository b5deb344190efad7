"""More than one share for one container, on nodes that would all refuse the pod."""

import pytest

from policies.kubernetes.pods import Pod
from policies.placement.advertised_resources import resource_requests
from policies.placement.resource_requests import one_share
from policies.rules.settings import DEFAULTS, Configuration, GPUAdmissionPolicy
from tests.findings import labelled_text

TWO = {"nvidia.com/gpu": 2}
REFUSING = "version: v1\nsharing: {timeSlicing: {failRequestsGreaterThanOne: true, resources: []}}"
ANY = {"name": "sharing", "default": "any"}
RELAXED = "version: v1\nsharing: {mps: {failRequestsGreaterThanOne: false, resources: []}}"


def findings_of(pod, view, settings=DEFAULTS):
    return [labelled_text(finding) for finding in one_share(pod, resource_requests(pod), view, settings)]


def cluster_policy(config, created=None, name="cluster-policy"):
    metadata = {"name": name, **({"creationTimestamp": created} if created else {})}
    spec = {"devicePlugin": {"config": config}}
    return {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": metadata, "spec": spec}


def config_map(name="sharing", namespace="gpu-operator", **data):
    metadata = {"name": name, "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {key.replace("_", "-"): text for key, text in data.items()},
    }


def finding(ways, found=2, remedy="request 1", resource="gpu", things="GPUs", container="containers[0]"):
    return (
        f"spec.{container}.resources.limits[nvidia.com/{resource}]: is {found}, and every node that offers it to this "
        f"pod shares its {things}, {ways}, and gives a container 1 share; the pod would fail with "
        "UnexpectedAdmissionError: invalid request: maximum request size for shared resources is 1; "
        f"found {found}; {remedy} [GA412]"
    )


def test_two_shares_of_mps_are_reported(pod, cluster):
    assert findings_of(pod(TWO), cluster("f5")) == [finding("by MPS on 1 node")]


@pytest.mark.parametrize(
    ("parts", "limits"),
    [
        pytest.param(("f5",), {"nvidia.com/gpu": 1}, id="one share"),
        pytest.param(("f1",), TWO, id="whole GPUs"),
        pytest.param(("f1", "f5"), TWO, id="whole GPUs on another node"),
        pytest.param(("f4", "f5"), TWO, id="time-slicing, of which nothing is known"),
        pytest.param(("f2",), TWO, id="no node offers it"),
        pytest.param((), TWO, id="nodes unknown"),
        pytest.param(("f5",), {"nvidia.com/hostdev": 2, "cpu": 4}, id="something else"),
        pytest.param(("f5",), {"nvidia.com/gpu": "two"}, id="no amount"),
    ],
)
def test_pod_that_may_be_served_is_not_reported(pod, cluster, parts, limits):
    assert findings_of(pod(limits), cluster(*parts)) == []


def test_only_nodes_count_that_the_pod_may_run_on(pod, cluster, node):
    chosen = pod({"nvidia.com/gpu": 3}, nodeSelector={"nvidia.com/gpu.family": "turing"})
    remedy = "request 1, or let the pod run on 1 node that does not share them"
    assert findings_of(chosen, cluster("f1", "f4", "f5")) == [finding("by MPS on 1 node", found=3, remedy=remedy)]
    remedy = "request 1, or let the pod run on one of the 2 nodes that do not share them"
    wider = cluster("f1", "f6", "f5", node("f5", "t4-mps-2"))
    assert findings_of(chosen, wider) == [finding("by MPS on 2 nodes", found=3, remedy=remedy)]


def test_each_container_counts_for_itself(cluster):
    containers = [
        {"name": name, "resources": {"limits": {"nvidia.com/gpu": amount}}}
        for name, amount in (("one", 1), ("another", 1), ("third", "2"))
    ]
    document = {"metadata": {"name": "a"}, "spec": {"containers": containers, "initContainers": []}}
    assert findings_of(Pod.read(document), cluster("f5")) == [finding("by MPS on 1 node", container="containers[2]")]


def test_shares_under_their_own_name_are_reported(pod, cluster, node):
    renamed = node("f5", offers={"nvidia.com/gpu": None, "nvidia.com/gpu.shared": "4"})
    assert findings_of(pod({"nvidia.com/gpu.shared": 4}), cluster(renamed)) == [
        finding("by MPS on 1 node", found=4, resource="gpu.shared")
    ]


def test_shares_of_mig_devices_are_reported(pod, cluster, node):
    shared = node(
        "f2",
        labels={"nvidia.com/mig-1g.5gb.sharing-strategy": "time-slicing", "nvidia.com/device-plugin.config": "mig"},
    )
    view = cluster(shared, cluster_policy({"name": "sharing"}), config_map(mig=REFUSING))
    assert findings_of(pod({"nvidia.com/mig-1g.5gb": 2}), view) == [
        finding("by time-slicing on 1 node", resource="mig-1g.5gb", things="MIG devices")
    ]


@pytest.mark.parametrize(
    ("config", "maps", "is_told"),
    [
        pytest.param({"name": "sharing"}, [config_map(ts_4=REFUSING)], True, id="by the node's label"),
        pytest.param(
            {"name": "sharing", "default": "ts-4"}, [config_map(any=REFUSING)], False, id="label names no key"
        ),
        pytest.param({"name": "sharing"}, [], False, id="no ConfigMap"),
        pytest.param({"name": "other"}, [config_map(ts_4=REFUSING)], False, id="another ConfigMap"),
        pytest.param({}, [config_map(ts_4=REFUSING)], False, id="no name"),
        pytest.param({"name": 1, "default": 2}, [config_map(ts_4=REFUSING)], False, id="no text"),
        pytest.param({"name": "sharing"}, [config_map(namespace="default", ts_4=REFUSING)], False, id="elsewhere"),
        pytest.param({"name": "sharing"}, [config_map(ts_4=RELAXED)], False, id="says nothing of time-slicing"),
        pytest.param({"name": "sharing"}, [config_map(ts_4="a: [")], False, id="no YAML"),
        pytest.param({"name": "sharing"}, [config_map(ts_4=None)], False, id="empty"),
        pytest.param({"name": "sharing"}, [config_map(ts_4="sharing")], False, id="no mapping"),
        pytest.param(
            {"name": "sharing"},
            [config_map(ts_4=REFUSING.replace("sharing", "Sharing"))],
            True,
            id="any case, as in Go",
        ),
    ],
)
def test_time_slicing_is_reported_where_its_configuration_says_so(pod, cluster, config, maps, is_told):
    expected = [finding("by time-slicing on 1 node")] if is_told else []
    assert findings_of(pod(TWO), cluster("f4", cluster_policy(config), *maps)) == expected


def test_default_configuration_is_that_of_nodes_without_the_label(pod, cluster, node):
    unlabelled = node("f4", labels={"nvidia.com/device-plugin.config": None})
    policy = cluster_policy(ANY)
    assert findings_of(pod(TWO), cluster(unlabelled, policy, config_map(any=REFUSING)))


def test_mps_is_not_reported_where_its_configuration_allows_more(pod, cluster):
    policy = cluster_policy(ANY)
    assert findings_of(pod(TWO), cluster("f5", policy, config_map(any=RELAXED))) == []
    assert findings_of(pod(TWO), cluster("f5", policy, config_map(any="version: v1")))


@pytest.mark.parametrize(("version", "is_reported"), [("v0.19.3", True), ("v0.20.0", False), ("latest", False)])
def test_mps_is_reported_where_the_device_plugin_does_not_know_how_to_allow_more(pod, cluster, version, is_reported):
    policy = cluster_policy(ANY)
    policy["spec"]["devicePlugin"]["version"] = version
    assert bool(findings_of(pod(TWO), cluster("f5", policy, config_map(any=RELAXED)))) is is_reported


def test_oldest_cluster_policy_counts(pod, cluster):
    policies = [
        cluster_policy({"name": name, "default": "any"}, created, name)
        for name, created in (("unstored", None), ("new", "2026-02-01T00:00:00Z"), ("old", "2025-01-01T00:00:00Z"))
    ]
    maps = [config_map("old", any=RELAXED), config_map("new", any="version: v1")]
    assert findings_of(pod(TWO), cluster("f5", *policies, *maps)) == []


def test_config_map_is_read_in_the_operators_namespace(pod, cluster):
    policy = cluster_policy(ANY)
    view = cluster("f5", policy, config_map(namespace="nvidia", any=RELAXED))
    settings = GPUAdmissionPolicy(configuration=Configuration(operator_namespaces=("nvidia",)))
    assert findings_of(pod(TWO), view, settings) == []
    assert findings_of(pod(TWO), view)
