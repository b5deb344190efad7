"""What is compared: each template once, by the workload above it."""

from policies.outcome import subjects_of
from tests.explain import conftest as k8s
from tests.outcome.clusters import GPU, bound, gpu_node, situation


def deployment(name="web", replicas=2, gpus=1):
    containers = [{"name": "main", "image": "web", "resources": {"limits": {GPU: str(gpus)}}}]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "team-a", "uid": f"uid-{name}"},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": containers}}},
    }


def replica_set(name="web-5d8f", owner="web"):
    found = deployment(name) | {"kind": "ReplicaSet"}
    owners = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": owner, "controller": True}]
    return found | {"metadata": {**found["metadata"], "ownerReferences": owners}}


def listed(*objects):
    found = situation(*objects)
    return [(each.label, each.pod_names, each.count) for each in subjects_of(*found)]


def test_pods_belong_to_the_workload_at_the_top():
    pods = [bound(f"web-{number}", owner="ReplicaSet/web-5d8f") for number in range(2)]
    assert listed(gpu_node(), deployment(), replica_set(), *pods) == [
        ("Deployment team-a/web", ("team-a/web-0", "team-a/web-1"), 2)
    ]


def test_workload_without_pods_counts_with_the_pods_that_it_would_have():
    assert listed(deployment(replicas=3)) == [("Deployment team-a/web", (), 3)]


def test_workload_without_gpus_is_left_out():
    assert listed(deployment(gpus=1) | {"spec": {"template": {"spec": {"containers": [{"name": "main"}]}}}}) == []


def test_pods_of_an_unknown_controller_are_compared_together():
    pods = [bound(f"web-{number}", owner="ReplicaSet/web-5d8f") for number in range(2)]
    assert listed(*pods) == [("ReplicaSet team-a/web-5d8f", ("team-a/web-0", "team-a/web-1"), 2)]


def test_equal_pods_without_a_controller_are_compared_together():
    assert listed(bound("b"), bound("a"), bound("big", gpus=2)) == [
        ("pod team-a/a (2 alike)", ("team-a/a", "team-a/b"), 2),
        ("pod team-a/big", ("team-a/big",), 1),
    ]


def test_pods_of_a_daemon_set_are_compared_by_node():
    pods = [bound("a", "node-1", owner="DaemonSet/d"), bound("b", "node-2", owner="DaemonSet/d")]
    for pod in pods:
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [pod["spec"]["nodeName"]]}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        pod["spec"]["affinity"] = {"nodeAffinity": required}
    assert [pods for _, pods, _ in listed(*pods)] == [("team-a/a",), ("team-a/b",)]


def test_pods_that_ended_and_pods_without_devices_are_left_out():
    ended = bound("done") | {"status": {"phase": "Succeeded"}}
    assert listed(ended, k8s.pod({"cpu": "1"})) == []


def test_claims_and_templates_are_compared_if_no_pod_uses_them():
    used = k8s.pod(resourceClaims=[{"name": "gpus", "resourceClaimName": "used"}])
    objects = [used, k8s.claim(name="used"), k8s.claim(name="spare"), k8s.template(name="spare")]
    assert [label for label, _, _ in listed(*objects)] == [
        "pod team-a/train",
        "ResourceClaim team-a/spare",
        "ResourceClaimTemplate team-a/spare",
    ]
