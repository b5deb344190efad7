"""Well-formed pods, as policies read them."""

import pytest

from policies.kubernetes.objects import FieldPath
from policies.kubernetes.pods import Container, Pod


def pod(**spec):
    return Pod.read({"spec": {"containers": [{"name": "train"}], **spec}})


def test_containers_come_with_their_amounts_and_places():
    resources = {
        "limits": {"nvidia.com/gpu": "2"},
        "requests": {"cpu": 1},
        "claims": [{"name": "gpu", "request": "train"}, {"name": "other"}],
    }
    read = pod(containers=[{"name": "log"}, {"name": "train", "resources": resources}])
    assert read.containers == (
        Container("log", FieldPath(["spec", "containers", 0]), "container", {}, {}, ()),
        Container(
            "train",
            FieldPath(["spec", "containers", 1]),
            "container",
            {"nvidia.com/gpu": "2"},
            {"cpu": 1},
            ({"name": "gpu", "request": "train"}, {"name": "other"}),
        ),
    )


@pytest.mark.parametrize(
    ("policy", "kind"),
    [("Always", "sidecar"), ("OnFailure", "init"), ("always", "init"), ("", "init"), (None, "init")],
)
def test_init_container_that_restarts_always_is_a_sidecar(policy, kind):
    read = pod(initContainers=[{"name": "fetch", "restartPolicy": policy}])
    assert [container.kind for container in read.init_containers] == [kind]


def test_init_container_without_restart_policy_is_none():
    assert pod(initContainers=[{"name": "fetch"}]).init_containers[0].kind == "init"


def test_app_container_that_restarts_always_is_no_sidecar():
    assert pod(containers=[{"name": "train", "restartPolicy": "Always"}]).containers[0].kind == "container"


def test_init_containers_come_before_containers():
    read = pod(initContainers=[{"name": "a"}, {"name": "b"}], containers=[{"name": "c"}])
    assert [container.name for container in read.all_containers] == ["a", "b", "c"]
    assert [str(container.path) for container in read.init_containers] == [
        "spec.initContainers[0]",
        "spec.initContainers[1]",
    ]


def test_labels_annotations_and_claims_are_empty_where_there_are_none():
    read = pod()
    assert (read.labels, read.annotations, read.resource_claims) == ({}, {}, [])


def test_nulls_count_as_absent():
    document = {
        "metadata": {"labels": None, "annotations": None, "ownerReferences": None},
        "spec": {
            "containers": [{"name": "train", "resources": None}],
            "initContainers": None,
            "resourceClaims": None,
            "nodeName": None,
        },
    }
    read = Pod.read(document)
    assert (read.labels, read.annotations, read.resource_claims) == ({}, {}, [])
    assert (read.controller_kind, read.is_past_scheduling, read.init_containers) == ("", False, ())
    assert (read.containers[0].limits, read.containers[0].requests, read.containers[0].claims) == ({}, {}, ())


def test_labels_and_annotations_are_the_pods():
    document = {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": {"containers": [{"name": "x"}]}}
    read = Pod.read(document)
    assert (read.labels, read.annotations) == ({"a": "b"}, {"c": "d"})


@pytest.mark.parametrize(
    ("owners", "kind"),
    [([], ""), ([{"kind": "Job"}], ""), ([{}], ""), ([{"kind": "A"}, {"kind": "Job", "controller": True}], "Job")],
)
def test_controller_of_a_pod_is_the_owner_that_says_so(owners, kind):
    document = {"metadata": {"ownerReferences": owners}, "spec": {"containers": [{"name": "x"}]}}
    assert Pod.read(document).controller_kind == kind


@pytest.mark.parametrize("annotation", ["kubernetes.io/config.mirror", "kubernetes.io/config.source"])
def test_annotation_of_static_pods_without_a_node_is_not_believed(annotation):
    document = {"metadata": {"annotations": {annotation: ""}}, "spec": {"containers": [{"name": "x"}]}}
    assert not Pod.read(document).is_past_scheduling


def test_pod_with_a_node_is_past_scheduling():
    assert pod(nodeName="a").is_past_scheduling
    assert not pod(nodeName="").is_past_scheduling


def test_unread_fields_may_have_any_value():
    assert pod(volumes=7, ephemeralContainers="x", overhead=[]).containers
