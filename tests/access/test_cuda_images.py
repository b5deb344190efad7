"""Images and variables that make NVIDIA's runtime give every GPU."""

import json

import pytest

from policies.rules.decision import Severity
from policies.rules.settings import DEFAULTS, Access, GPUAdmissionPolicy

REMEDY = "request nvidia.com/gpu: 1 in resources.limits, or set NVIDIA_VISIBLE_DEVICES to void"
GPU = {"limits": {"nvidia.com/gpu": 1}}


def variables(**values):
    return [{"name": name, "value": value} for name, value in values.items()]


def test_image_of_nvidia_without_a_request_is_audited_where_the_runtime_is_unknown(findings_of):
    assert findings_of({"containers": [{"name": "a", "image": "nvidia/cuda:12.8.1-base-ubuntu24.04"}]}) == [
        (
            'GA608 audit spec.containers[0].image: container "a" requests no GPU and runs '
            "\"nvidia/cuda:12.8.1-base-ubuntu24.04\": NVIDIA's images set NVIDIA_VISIBLE_DEVICES to all, so where NVIDIA's "
            f"container runtime is the default it gets every GPU of the node; {REMEDY}"
        )
    ]


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("nvcr.io/nvidia/pytorch:25.08-py3", ["GA608"]),
        ("nvcr.io/nvidia/k8s/cuda-sample", ["GA608"]),
        ("mirror.example.com/nvcr.io/nvidia/cuda@sha256:0", ["GA608"]),
        ("nvidia/cuda", ["GA608"]),
        ("docker.io/nvidia/cuda", ["GA608"]),
        ("index.docker.io/nvidia/cuda", ["GA608"]),
        ("NVCR.io/nvidia/cuda", ["GA608"]),
        ("nvcr.io:443/nvidia/cuda", ["GA608"]),
        ("Docker.IO:443/nvidia/cuda", ["GA608"]),
        ("nvcr.io:80/nvidia/cuda", []),
        ("nvcr.io/partner/x", []),
        ("ghcr.io/nvidia/x", []),
        ("mynvidia/cuda", []),
        ("nvidia", []),
        ("ubuntu", []),
        ("", []),
        (None, []),
        (1, []),
    ],
)
def test_image_is_known_by_its_name(rules, image, expected):
    assert rules({"containers": [{"name": "a", "image": image}]}) == expected


@pytest.mark.parametrize("fields", [{"resources": GPU}, {"env": variables(NVIDIA_VISIBLE_DEVICES="void")}], ids=str)
def test_image_of_nvidia_with_a_gpu_or_without_seeing_any_is_nothing(rules, fields):
    assert rules({"containers": [{"name": "a", "image": "nvidia/cuda", **fields}]}) == []


def test_image_is_reported_once_where_the_variable_is_set(rules):
    env = variables(NVIDIA_VISIBLE_DEVICES="all")
    assert rules({"containers": [{"name": "a", "image": "nvidia/cuda", "env": env}]}) == ["GA601"]


@pytest.mark.parametrize("settings", [DEFAULTS, GPUAdmissionPolicy(access=Access(mode="deny"))], ids=["warn", "deny"])
def test_cuda_version_alone_only_warns_where_the_runtime_is_unknown(findings_of, settings):
    assert findings_of(
        {"containers": [{"name": "a", "env": variables(A="b", CUDA_VERSION="12.8")}]}, settings=settings
    ) == [
        (
            'GA610 warn spec.containers[0].env[1]: container "a" requests no GPU and has CUDA_VERSION, but neither '
            "NVIDIA_REQUIRE_CUDA nor NVIDIA_VISIBLE_DEVICES: NVIDIA's container runtime takes it for an old CUDA image and "
            f"gives it every GPU of the node, unless the image says otherwise; {REMEDY}"
        )
    ]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"CUDA_VERSION": "12", "NVIDIA_REQUIRE_CUDA": ""}, ["GA610"]),
        ({"CUDA_VERSION": "12", "NVIDIA_REQUIRE_CUDA": "cuda>=12"}, []),
        ({"CUDA_VERSION": "12", "NVIDIA_VISIBLE_DEVICES": ""}, []),
        ({"CUDA_VERSION": "12", "NVIDIA_VISIBLE_DEVICES": "void"}, []),
        ({"CUDA_VERSION": "12", "NVIDIA_VISIBLE_DEVICES": "all"}, ["GA601"]),
        ({"CUDA_VERSION": ""}, []),
        ({"NVIDIA_REQUIRE_CUDA": ""}, []),
    ],
    ids=str,
)
def test_cuda_version_counts_without_the_other_variables(rules, values, expected):
    assert rules({"containers": [{"name": "a", "env": variables(**values)}]}) == expected


@pytest.mark.parametrize(
    "requirement",
    [
        {"value": "$(UNKNOWN)"},
        {"valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['a']"}}},
        {"valueFrom": {"configMapKeyRef": {"name": "missing", "key": "a", "optional": True}}},
    ],
    ids=str,
)
def test_requirement_that_may_be_empty_on_the_node_counts_as_empty(found, requirement):
    env = [*variables(CUDA_VERSION="12"), {"name": "NVIDIA_REQUIRE_CUDA", **requirement}]
    settings = GPUAdmissionPolicy(access=Access(mode="deny", legacy_runtime=True))
    (finding,) = found({"containers": [{"name": "a", "env": env}]}, settings=settings)
    assert (finding.rule.id, finding.severity) == ("GA610", Severity.DENY)


def test_cuda_version_beside_a_request_is_nothing(rules):
    assert rules({"containers": [{"name": "a", "resources": GPU, "env": variables(CUDA_VERSION="12")}]}) == []


def config_map(**data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cuda", "namespace": "team-a"}, "data": data}


def built(**env):
    return {"containers": [{"name": "a", "envFrom": [{"configMapRef": {"name": "cuda"}}], "env": variables(**env)}]}


def test_cuda_version_from_a_config_map_is_reported(findings_of):
    assert findings_of(built(), cluster=json.dumps(config_map(CUDA_VERSION="12.8"))) == [
        (
            'GA610 warn spec.containers[0].envFrom[0].configMapRef: container "a" requests no GPU and has CUDA_VERSION '
            'from ConfigMap "cuda", but neither NVIDIA_REQUIRE_CUDA nor NVIDIA_VISIBLE_DEVICES: NVIDIA\'s container '
            "runtime takes it for an old CUDA image and gives it every GPU of the node, unless the image says otherwise; "
            f"{REMEDY}"
        )
    ]


@pytest.mark.parametrize(
    ("data", "env", "expected"),
    [
        ({"NVIDIA_VISIBLE_DEVICES": "void"}, {"CUDA_VERSION": "12"}, []),
        ({"NVIDIA_VISIBLE_DEVICES": "all"}, {"CUDA_VERSION": "12"}, ["GA607"]),
        ({"NVIDIA_REQUIRE_CUDA": "cuda>=12"}, {"CUDA_VERSION": "12"}, []),
        ({"CUDA_VERSION": "12"}, {"NVIDIA_VISIBLE_DEVICES": "void"}, []),
        ({"CUDA_VERSION": "12"}, {"CUDA_VERSION": ""}, []),
        ({"OTHER": "12"}, {}, []),
    ],
    ids=str,
)
def test_cuda_version_is_nothing_beside_variables_from_a_config_map(rules, data, env, expected):
    assert rules(built(**env), cluster=json.dumps(config_map(**data))) == expected
