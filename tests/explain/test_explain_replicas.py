"""The number of replicas that fit, placed one after the other."""

from __future__ import annotations

import pytest

from policies.devices.pod_groups import POD_GROUP_VERSIONS


def replicas(answer):
    return answer.replicas, answer.replicas_at_least


def templated(k8s, limits=None):
    return k8s.pod(limits, resourceClaims=k8s.claiming(resourceClaimTemplateName="gpus"))


def test_replicas_fill_every_node(ask, k8s):
    nodes = [k8s.node(f"node-{number}") for number in range(3)]
    slices = [k8s.resource_slice(k8s.gpus(8), f"node-{number}") for number in range(2)]
    slices.append(k8s.resource_slice(k8s.gpus(4), "node-2"))
    answer = ask(templated(k8s), *nodes, *slices, k8s.template({"count": 3}))
    assert replicas(answer) == (5, False)
    assert answer.headline == "fits 3 of 3 nodes now, 5 replicas in all"


def test_replicas_leave_what_is_in_use(ask, k8s):
    answer = ask(
        templated(k8s), k8s.node(), k8s.resource_slice(k8s.gpus(8)), k8s.template(), k8s.holding("other", range(5))
    )
    assert replicas(answer) == (3, False)


def test_replicas_end_with_the_nodes_own_resources(ask, k8s):
    answer = ask(templated(k8s, {"cpu": "40"}), k8s.node(), k8s.resource_slice(k8s.gpus(8)), k8s.template())
    assert replicas(answer) == (3, False)


def test_devices_of_the_network_count_once(ask, k8s):
    nodes = [k8s.node(f"node-{number}") for number in range(4)]
    network = k8s.resource_slice(k8s.gpus(6), None, pool="fabric", allNodes=True)
    assert replicas(ask(templated(k8s), *nodes, network, k8s.template({"count": 2}))) == (3, False)


def test_devices_of_nodes_count_beside_those_of_the_network(ask, k8s):
    nodes = [k8s.node(f"node-{number}") for number in range(2)]
    network = k8s.resource_slice(k8s.gpus(3), None, pool="fabric", allNodes=True)
    own = k8s.resource_slice(k8s.gpus(2), "node-0")
    assert replicas(ask(templated(k8s), *nodes, network, own, k8s.template())) == (5, False)


def test_pods_that_share_a_claim_stay_on_its_node(ask, k8s):
    pod = k8s.pod({"cpu": "1"}, resourceClaims=k8s.claiming(resourceClaimName="gpus"))
    nodes = [k8s.node(f"node-{number}") for number in range(2)]
    slices = [k8s.resource_slice(k8s.gpus(8), f"node-{number}") for number in range(2)]
    assert replicas(ask(pod, *nodes, *slices, k8s.claim(stored=True))) == (110, False)


def pod_group(claim="", version="v1alpha2"):
    entry = {"name": "gpus", "resourceClaimTemplateName": "gpus"}
    status = {"resourceClaimStatuses": [{"name": "gpus", "resourceClaimName": claim}]} if claim else {}
    return {
        "apiVersion": f"scheduling.k8s.io/{version}",
        "kind": "PodGroup",
        "metadata": {"name": "ring", "namespace": "team-a", "uid": "g"},
        "spec": {"resourceClaims": [entry]},
        "status": status,
    }


@pytest.mark.parametrize("version", POD_GROUP_VERSIONS)
def test_pods_of_a_group_stay_where_their_claim_is_allocated(ask, k8s, version):
    """One that is still to be made for all of them, from a template."""
    pod = k8s.pod(
        {"cpu": "1"},
        resourceClaims=k8s.claiming(resourceClaimTemplateName="gpus"),
        schedulingGroup={"podGroupName": "ring"},
    )
    nodes = [k8s.node(f"node-{number}") for number in range(2)]
    slices = [k8s.resource_slice(k8s.gpus(2), f"node-{number}") for number in range(2)]
    assert replicas(ask(pod, *nodes, *slices, k8s.template())) == (4, False)
    assert replicas(ask(pod, *nodes, *slices, k8s.template(), pod_group(version=version))) == (110, False)


def test_answer_says_that_the_group_of_a_pod_is_unknown(ask, k8s):
    pod = k8s.pod(
        resourceClaims=k8s.claiming(resourceClaimTemplateName="gpus"), schedulingGroup={"podGroupName": "ring"}
    )
    answer = ask(pod, k8s.node(), k8s.resource_slice(k8s.gpus(2)), k8s.template())
    assert answer.certainty == "assumed"
    assert (
        "PodGroup ring is unknown, so the pod counts with claims of its own (add: kubectl get podgroups.scheduling.k8s.io "
        "-A -o yaml > podgroups.yaml)"
    ) in answer.remarks


def test_claim_that_an_unknown_group_controls_is_the_groups(ask, k8s):
    held = k8s.holding("other", [0], namespace="team-a")
    owner = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "name": "ring", "uid": "g"}
    held["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    held["status"]["reservedFor"] = [{"resource": "pods", "name": f"ring-{number}"} for number in range(256)]
    pod = k8s.pod(
        resourceClaims=k8s.claiming(resourceClaimTemplateName="gpus"), schedulingGroup={"podGroupName": "ring"}
    )
    made = {"resourceClaimStatuses": [{"name": "gpus", "resourceClaimName": held["metadata"]["name"]}]}
    stored = {**pod, "metadata": {**pod["metadata"], "uid": "p"}, "status": {**pod.get("status", {}), **made}}
    answer = ask(stored, k8s.node(), k8s.resource_slice(k8s.gpus(1)), held)
    assert answer.obstacles == ()


def test_claim_of_a_group_is_reserved_for_any_number_of_its_pods(ask, k8s):
    held = k8s.holding("other", [0], namespace="team-a")
    owner = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "name": "ring", "uid": "g"}
    held["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    held["status"]["reservedFor"] = [{"resource": "podgroups", "name": f"ring-{number}"} for number in range(256)]
    pod = k8s.pod(
        resourceClaims=k8s.claiming(resourceClaimTemplateName="gpus"), schedulingGroup={"podGroupName": "ring"}
    )
    answer = ask(pod, k8s.node(), k8s.resource_slice(k8s.gpus(1)), pod_group(held["metadata"]["name"]), held)
    assert replicas(answer) == (110, False)


def test_claim_is_shared_by_at_most_256_pods(ask, k8s):
    held = k8s.holding("other", [0], namespace="team-a")
    held["status"]["reservedFor"] = [{"resource": "pods", "name": f"pod-{number}"} for number in range(254)]
    pod = k8s.pod(resourceClaims=k8s.claiming(resourceClaimName="other-gpu"))
    assert replicas(ask(pod, k8s.node(), k8s.resource_slice(k8s.gpus(8)), held)) == (2, False)


def test_pods_without_claims_fill_nodes_too(ask, k8s):
    assert replicas(ask(k8s.pod({"cpu": "40"}), k8s.node("node-1"), k8s.node("node-2"))) == (6, False)


def test_admin_access_has_no_end(ask, k8s):
    admin = k8s.namespace("team-a", **{"resource.kubernetes.io/admin-access": "true"})
    answer = ask(k8s.claim({"adminAccess": True}), admin, k8s.node(), k8s.resource_slice(k8s.gpus(1)))
    assert answer.headline == "fits 1 of 1 node now, at least 128 claims in all"


def test_nothing_fits_where_nothing_is_free(ask, k8s):
    answer = ask(templated(k8s), k8s.node(), k8s.resource_slice(k8s.gpus(1)), k8s.template(), k8s.holding("other", [0]))
    assert replicas(answer) == (0, False)


def daemon_set(pod):
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "exporter", "namespace": "team-a"},
        "spec": {"template": {"metadata": {}, "spec": pod["spec"]}},
    }


def test_daemon_set_has_one_pod_on_a_node(ask, k8s):
    nodes = [k8s.node(f"node-{number}", allocatable={"cpu": str(number)}) for number in range(4)]
    answer = ask(daemon_set(k8s.pod({"cpu": "1"})), *nodes)
    assert replicas(answer) == (3, False)
    assert answer.headline == "fits 3 of 4 nodes now, one pod on each"


def test_daemon_set_with_claims_has_one_pod_on_a_node(ask, k8s):
    slices = [k8s.resource_slice(k8s.gpus(4), name) for name in ("node-1", "node-2")]
    answer = ask(daemon_set(templated(k8s)), k8s.node(), k8s.node("node-2"), *slices, k8s.template())
    assert replicas(answer) == (2, False)


@pytest.mark.parametrize(("minor", "expected"), [(36, 4), (37, 110)])
def test_pods_of_a_job_share_its_claims_since_1_37(ask, k8s, minor, expected):
    entry = {"name": "gpus", "resourceClaimTemplateName": "gpus"}
    spec = k8s.pod({"cpu": "1"}, resourceClaims=k8s.claiming(resourceClaimTemplateName="gpus"))["spec"]
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "team-a"},
        "spec": {
            "parallelism": 4,
            "scheduling": {"resourceClaims": [entry]},
            "template": {"spec": {**spec, "restartPolicy": "Never"}},
        },
    }
    nodes = [k8s.node(f"node-{number}") for number in range(2)]
    slices = [k8s.resource_slice(k8s.gpus(8), f"node-{number}") for number in range(2)]
    version = {"serverVersion": {"gitVersion": f"v1.{minor}.0"}}
    assert replicas(ask(job, *nodes, *slices, k8s.template({"count": 4}), version)) == (expected, False)
