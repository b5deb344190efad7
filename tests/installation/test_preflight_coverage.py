"""Namespaces and pods that would be reviewed, and versions."""

import pytest

from policies.analyses.installation import Coverage, webhooks_in
from policies.analyses.installation.component_versions import (
    component_checks,
    component_of,
    kubernetes_checks,
)
from policies.analyses.installation.other_webhooks import coverage_checks
from policies.kubernetes.objects import json_document
from policies.kubernetes.view import UNKNOWN
from testbed.webhook_configurations import current_configurations
from tests.installation.planned_objects import texts
from webhook.cli.installation.preflight import CoverageJSON, coverage_json
from webhook.cli.installation.preflight_reads import conditions_hold


def namespace(name, **labels):
    ours = {f"gpu-admission.io/{key}": value for key, value in labels.items()}
    return {"metadata": {"name": name, "labels": ours}}


NAMESPACES = [
    namespace("kube-system"),
    namespace("gpu-operator"),
    namespace("team-a", dra="enabled"),
    namespace("team-b", dra="preview", quota="enforced"),
    namespace("team-c"),
]


def pod(namespace, name="a", owner=None, phase="Running", requests=None, **container):
    resources = {"requests": requests} if requests else {}
    metadata = {"name": name, "namespace": namespace}
    if owner:
        metadata["ownerReferences"] = [{"uid": owner, "controller": True}]
    spec = {"containers": [{"name": "main", "image": "train:1", "resources": resources, **container}]}
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase}}


GPU = {"nvidia.com/gpu": "1"}


def counted(*pods, namespaces=NAMESPACES, holds=conditions_hold):
    coverage = Coverage(webhooks_in(current_configurations()), namespaces, holds)
    for each in pods:
        coverage.add(each)
    return coverage


def entries(coverage):
    return {entry: count.pods for entry, count in coverage.counts.items() if count.pods}


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (pod("team-a", requests=GPU), {"convert-pods": 1, "enforce-converted-pods": 1}),
        (pod("team-a", requests={"example.com/x": "1"}), {"place-unconverted-pods": 1, "check-unconverted-pods": 1}),
        (pod("team-b", requests=GPU), {"place-pods": 1, "enforce-quota": 1}),
        (pod("team-c", requests=GPU), {"place-pods": 1, "check-pods": 1}),
        (pod("team-c", env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]), {"guard-pods": 1}),
        (pod("team-c"), {}),
        (pod("team-c", requests=GPU, phase="Succeeded"), {}),
        (pod("kube-system", requests=GPU), {}),
        (pod("gone", requests=GPU), {}),
    ],
)
def test_pods_are_counted_by_the_webhooks_that_would_be_called(one, expected):
    coverage = counted(one)
    assert entries(coverage) == expected
    assert coverage.pods == (1 if expected else 0)


def test_pods_of_one_controller_are_evaluated_once():
    calls = []

    def holds(webhook, pod):
        calls.append(webhook["name"])
        return conditions_hold(webhook, pod)

    coverage = counted(*(pod("team-c", f"p{number}", "uid", requests=GPU) for number in range(9)), holds=holds)
    assert entries(coverage) == {"place-pods": 9, "check-pods": 9}
    assert len(calls) == len(set(calls))


def test_webhooks_are_those_of_the_manifests():
    """A rendered configuration may exclude more namespaces than the default one."""
    mutating, validating = current_configurations()
    for webhook in (*mutating["webhooks"], *validating["webhooks"]):
        webhook["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": "team-c"}}
    coverage = Coverage(webhooks_in([validating, mutating]), NAMESPACES, conditions_hold)
    assert [place.name for place in coverage.covered] == ["team-c"]


def test_counts_are_in_json():
    shown = json_document(coverage_json(counted(pod("team-a", requests=GPU))), CoverageJSON)
    assert shown["entries"].pop("convert-pods") == {"namespaces": 1, "pods": 1}
    assert {key: shown[key] for key in ("exempt", "converting", "preview", "quotaEnforced", "pods")} == {
        "exempt": ["kube-system"],
        "converting": ["team-a"],
        "preview": ["team-b"],
        "quotaEnforced": ["team-b"],
        "pods": 1,
    }


COVERED = "4 namespaces would be covered; exempt: kube-system"
LABELS = "team-a converts; team-b previews; team-b enforces quotas"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"is_new": True},
            [("warning", f"namespaces have labels of gpu-admission already: {LABELS}"), ("ok", COVERED)],
        ),
        ({"is_new": False}, [("ok", f"{COVERED}; {LABELS}")]),
    ],
)
def test_labels_from_before_the_installation_are_warned_about(options, expected):
    found = [*coverage_checks(counted(), are_pods_known=True, **options)]
    assert texts(found, "what") == [
        *expected,
        ("ok", "of the running pods, these would be reviewed if they were created now: none"),
    ]


def test_namespaces_and_pods_that_may_not_be_listed_are_unknown():
    assert texts(coverage_checks(None, is_new=True, are_pods_known=True), "why") == [
        ("unknown", "you may not list namespaces")
    ]
    found = [*coverage_checks(counted(), is_new=False, are_pods_known=False)]
    assert texts(found, "why")[-1] == ("unknown", "you may not list pods in all namespaces")


def node(name, version):
    return {"metadata": {"name": name}, "status": {"nodeInfo": {"kubeletVersion": version}}}


SLICE = {"spec": {"driver": "gpu.nvidia.com", "nodeName": "a"}}


@pytest.mark.parametrize(
    ("server", "claims", "nodes", "expected"),
    [
        (
            (1, 36),
            ["v1"],
            [node("a", "v1.36.2"), node("b", "v1.35.1"), node("c", "v1.36.2")],
            [
                ("ok", "the API server is Kubernetes 1.36"),
                ("ok", "resource.k8s.io/v1 is served"),
                ("ok", "kubelets are v1.35.1 on 1 and v1.36.2 on 2 nodes"),
            ],
        ),
        (
            (1, 34),
            ["v1"],
            [],
            [
                ("ok", "the API server is Kubernetes 1.34; the strategies rename and auto need 1.36"),
                ("ok", "resource.k8s.io/v1 is served"),
                ("ok", "there are no nodes"),
            ],
        ),
        (
            (1, 33),
            ["v1beta1"],
            [node("a", "v1.33.0"), node("b", "v1.33.0")],
            [
                ("failing", "the API server is Kubernetes 1.33"),
                ("warning", "the API server does not serve resource.k8s.io/v1"),
                ("warning", "kubelets of nodes with GPUs of the DRA driver are older than 1.34: a"),
            ],
        ),
        (
            UNKNOWN,
            UNKNOWN,
            UNKNOWN,
            [
                ("unknown", "the version of the API server is unknown"),
                ("unknown", "it is unknown whether resource.k8s.io/v1 is served"),
                ("unknown", "the versions of the kubelets are unknown"),
            ],
        ),
    ],
)
def test_versions_of_kubernetes_are_compared_with_those_supported(server, claims, nodes, expected):
    assert texts(kubernetes_checks(server, claims, nodes, [SLICE]), "what") == expected


@pytest.mark.parametrize(
    ("image", "component"),
    [
        ("nvcr.io/nvidia/gpu-operator:v26.7.0", ("GPU Operator", "v26.7.0")),
        ("registry:5000/mirror/k8s-device-plugin:v0.20.0@sha256:00", ("device plugin", "v0.20.0")),
        ("nvcr.io/nvidia/k8s-dra-driver-gpu", ("DRA driver", "")),
        ("train:1", None),
    ],
)
def test_components_are_known_by_their_images(image, component):
    assert component_of(image) == component


NONE = "no DRA driver of NVIDIA is seen"


@pytest.mark.parametrize(
    ("images", "slices", "converting", "expected"),
    [
        ({}, [], [], [("ok", f"{NONE}; only conversion needs it")]),
        ({}, [], ["team-a"], [("warning", NONE)]),
        ({}, [SLICE], ["team-a"], [("ok", "DRA driver of unknown version, seen by its ResourceSlices")]),
        (
            {("DRA driver", "v25.3.1"): 4},
            [],
            [],
            [
                ("warning", "DRA driver v25.3.1 is older than what gpu-admission knows"),
                ("ok", "GPU Operator and device plugin not seen; gpu-admission needs none"),
            ],
        ),
        (
            {("DRA driver", "v0.5.0"): 4, ("GPU Operator", "v26.7.0"): 1, ("device plugin", ""): 2},
            [],
            [],
            [("ok", "GPU Operator v26.7.0"), ("ok", "device plugin of unknown version"), ("ok", "DRA driver v0.5.0")],
        ),
    ],
)
def test_components_of_nvidia_are_reported(images, slices, converting, expected):
    assert texts(component_checks(images, slices, converting), "what") == expected


def test_components_that_may_not_be_seen_are_unknown():
    found = texts(component_checks(UNKNOWN, [], []), "why")
    assert found[0] == ("unknown", "you may not list pods in all namespaces")
