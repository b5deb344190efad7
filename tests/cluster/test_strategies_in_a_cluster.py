"""Conversion strategies by namespace."""

import pytest

from testbed import manifests

NAME = "deviceclass.resource.kubernetes.io/gpu.nvidia.com"


@pytest.fixture
def recent(cluster):
    if cluster.minor < 36:
        pytest.skip("strategies other than template need Kubernetes 1.36")
    if any(node["metadata"]["name"] not in cluster.nodes for node in cluster.list("Node")):
        pytest.skip("other nodes than the tests' decide here too")
    return cluster


def created(cluster, strategy, **spec):
    return cluster.create(manifests.pod(cluster.namespace(dra="enabled", dra_strategy=strategy), **spec))


def resources(answer):
    return answer.object["spec"]["containers"][0]["resources"]


def test_rename_asks_by_the_name_of_the_class(recent):
    answer = created(recent, "rename", gpus=2)
    assert resources(answer) == {"limits": {NAME: "2"}, "requests": {NAME: "2"}}
    assert {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"} in answer.object["spec"][
        "tolerations"
    ]
    assert answer.warnings == ()


def test_leave_changes_nothing(recent):
    answer = created(recent, "leave")
    assert resources(answer) == {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}}
    assert "annotations" not in answer.object["metadata"]


def test_auto_leaves_what_a_class_hands_out_and_says_so(recent):
    answer = created(recent, "auto")
    assert resources(answer)["limits"] == {"nvidia.com/gpu": "1"}
    text = " ".join(line.strip() for line in answer.warnings)
    assert ": the strategy auto leaves the pod as it is: DRA hands" in text
    assert "; metadata.namespace [GA333]" in text


def test_auto_takes_a_template_where_something_needs_translating(recent):
    answer = created(recent, "auto", nodeSelector={"nvidia.com/gpu.family": "hopper"})
    assert resources(answer) == {"claims": [{"name": "gpu", "request": "main"}]}
    assert any("[GA333]" in line for line in answer.warnings)


def test_rename_refuses_what_a_name_cannot_say(recent):
    answer = created(recent, "rename", nodeSelector={"nvidia.com/gpu.family": "hopper"})
    assert answer.code == 403
    assert answer.message.endswith("[GA330]")


def test_unknown_strategy_refuses_the_pod(sandbox):
    """On a real API server the policy for namespace labels refuses the label itself."""
    answer = created(sandbox, "fastest")
    assert answer.code == 403
    assert answer.message.endswith("[GA323]")


def test_renamed_pod_can_be_applied_again(recent):
    document = manifests.pod(recent.namespace(dra="enabled", dra_strategy="rename"))
    recent.apply(document).object  # noqa: B018 - it is not refused
    answer = recent.apply(document)
    assert (answer.code, answer.warnings) == (200, ())
