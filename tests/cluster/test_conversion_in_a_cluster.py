"""Pods that request GPUs get claims in namespaces that opt in."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from testbed import manifests
from testbed.waiting import until

CLAIMS = {"claims": [{"name": "gpu", "request": "main"}]}


def resources(pod):
    return pod["spec"]["containers"][0]["resources"]


def template_of(pod):
    (claim,) = pod["spec"]["resourceClaims"]
    return claim["resourceClaimTemplateName"]


def test_pod_is_stored_with_claims_instead_of_gpus(cluster):
    pod = cluster.create(manifests.pod(cluster.namespace(dra="enabled"))).object
    assert resources(pod) == CLAIMS
    assert pod["metadata"]["labels"]["gpu-admission.io/managed"] == "true"
    record = json.loads(pod["metadata"]["annotations"]["gpu-admission.io/converted"])
    assert record == {"containers": [{"name": "main", "kind": "container", "resources": {"nvidia.com/gpu": 1}}]}
    assert {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"} in pod["spec"]["tolerations"]


def test_template_exists_when_the_pod_is_stored(cluster):
    team = cluster.namespace(dra="enabled")
    pod = cluster.create(manifests.pod(team, gpus=2)).object
    template = cluster.get("ResourceClaimTemplate", template_of(pod), team).object
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    exactly = request["exactly"]
    assert (request["name"], exactly["deviceClassName"], exactly["count"]) == ("main", manifests.CLASS, 2)


def test_equal_pods_share_a_template(cluster):
    team = cluster.namespace(dra="enabled")
    templates = {template_of(cluster.create(manifests.pod(team, f"train-{number}")).object) for number in range(3)}
    assert {each["metadata"]["name"] for each in cluster.list("ResourceClaimTemplate", team)} == templates
    assert len(templates) == 1


def test_conditions_on_gpu_labels_move_to_the_device(cluster):
    team = cluster.namespace(dra="enabled")
    labels = {"kubernetes.io/arch": "amd64", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    pod = cluster.create(manifests.pod(team, nodeSelector=labels)).object
    assert pod["spec"]["nodeSelector"] == {"kubernetes.io/arch": "amd64"}
    template = cluster.get("ResourceClaimTemplate", template_of(pod), team).object
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    (selector,) = request["exactly"]["selectors"]
    assert 'productName.replace(" ", "-") == "NVIDIA-H100-80GB-HBM3"' in selector["cel"]["expression"]


def test_pod_of_a_controller_is_converted_before_it_has_a_name(cluster):
    team = cluster.namespace(dra="enabled")
    document = manifests.pod(team)
    del document["metadata"]["name"]
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "train-5f", "uid": "7d1c", "controller": True}
    document["metadata"] |= {"generateName": "train-5f-", "ownerReferences": [owner]}
    pod = cluster.create(document, dry_run=True).object
    assert pod["metadata"]["name"].startswith("train-5f-")
    assert resources(pod) == CLAIMS


def test_pods_of_a_deployment_are_converted(real):
    if not real.makes_pods:
        pytest.skip("no kube-controller-manager runs here")
    team = real.namespace(dra="enabled")
    assert resources(real.create(manifests.deployment(team, "train", 2)).object["spec"]["template"]) == {
        "limits": {"nvidia.com/gpu": "1"}
    }
    pods = until(lambda: len(found := real.list("Pod", team)) == 2 and found, "both pods are made")
    assert [resources(pod) for pod in pods] == [CLAIMS, CLAIMS]


def test_pod_is_left_alone_where_the_namespace_says_nothing(cluster):
    team = cluster.namespace()
    answer = cluster.create(manifests.pod(team))
    assert resources(answer.object)["limits"] == {"nvidia.com/gpu": "1"}
    assert "resourceClaims" not in answer.object["spec"]
    assert cluster.list("ResourceClaimTemplate", team) == []


def test_pod_without_gpus_is_left_alone(cluster):
    document = manifests.pod(cluster.namespace(dra="enabled"))
    document["spec"]["containers"][0]["resources"] = {}
    answer = cluster.create(document)
    assert "annotations" not in answer.object["metadata"]
    assert answer.warnings == ()


def test_preview_says_what_would_become_of_a_pod(cluster):
    answer = cluster.create(manifests.pod(cluster.namespace(dra="preview"), gpus=2))
    assert resources(answer.object)["limits"] == {"nvidia.com/gpu": "2"}
    (warning,) = (line for line in answer.warnings if line.startswith("would be converted"))
    assert warning.startswith("would be converted to ResourceClaimTemplate gpu-")
    assert warning.endswith(": 2 x gpu.nvidia.com (main)")


def test_preview_says_what_would_be_refused(cluster):
    team = cluster.namespace(dra="preview")
    answer = cluster.create(manifests.pod(team, nodeSelector={"nvidia.com/gpu.count": "2"}))
    assert answer.object["spec"]["nodeSelector"] == {"nvidia.com/gpu.count": "2"}
    text = " ".join(line.strip() for line in answer.warnings)
    assert text.startswith("Remove nvidia.com/gpu.count from nodeSelector, or select by nvidia.com/gpu.product, ")
    assert "would be refused: nvidia.com/gpu.count counts the GPUs of the node" in text
    assert "; spec.nodeSelector[nvidia.com/gpu.count] [GA307]" in text


def test_dry_run_converts_and_makes_no_template(cluster):
    team = cluster.namespace(dra="enabled")
    assert resources(cluster.create(manifests.pod(team), dry_run=True).object) == CLAIMS
    assert cluster.list("ResourceClaimTemplate", team) == []
    assert cluster.list("Pod", team) == []


def test_gpus_that_a_limit_range_puts_back_are_taken_out_again(cluster):
    team = cluster.namespace(dra="enabled")
    cluster.create(manifests.limit_range(team, "nvidia.com/gpu", 1)).object  # noqa: B018 - it is not refused
    pod = until_converted(cluster, team)
    assert "nvidia.com/gpu" not in json.dumps(resources(pod))
    assert resources(pod)["claims"] == CLAIMS["claims"]


def until_converted(cluster, team):
    """Admission plug-ins of a real API server learn of a LimitRange a moment later."""

    def made():
        pod = cluster.create(manifests.pod(team, "train"), dry_run=True).object
        return "kubernetes.io/limit-ranger" in pod["metadata"]["annotations"] and pod

    return until(made, "the LimitRange takes effect")


def test_pods_that_come_at_once_share_a_template_too(cluster):
    """What a Deployment of many replicas does."""
    team = cluster.namespace(dra="enabled")
    with ThreadPoolExecutor(16) as people:
        answers = list(people.map(lambda number: cluster.create(manifests.pod(team, f"train-{number}")), range(32)))
    assert len({template_of(answer.object) for answer in answers}) == 1
    assert len(cluster.list("ResourceClaimTemplate", team)) == 1
