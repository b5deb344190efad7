"""`review -o yaml` and `-o patch`: output that can be applied."""

from __future__ import annotations

import json

from policies.kubernetes.yaml import scan_documents
from testbed import libyaml


def objects(done):
    documents, errors = scan_documents(done.stdout)
    assert errors == []
    return [document.value for document in documents]


def test_admitted_objects_are_followed_by_their_templates(invoke, cluster, write, pod):
    done = invoke("review", "--cluster", cluster, "-o", "yaml", write("pods.yaml", pod("a"), pod("b", gpus=2)))
    assert done.exit_code == 0
    assert [document["kind"] for document in objects(done)] == [
        "Pod",
        "ResourceClaimTemplate",
        "Pod",
        "ResourceClaimTemplate",
    ]


def test_template_of_several_pods_is_written_once(invoke, cluster, write, pod):
    done = invoke("review", "--cluster", cluster, "-o", "yaml", write("pods.yaml", pod("a"), pod("b")))
    assert [document["kind"] for document in objects(done)] == ["Pod", "ResourceClaimTemplate", "Pod"]


def test_admitted_objects_are_admitted_again_without_a_change(invoke, cluster, write, pod):
    pods = [pod("a", nodeSelector={"nvidia.com/gpu.family": "hopper"}), pod("b", "team-legacy")]
    once = invoke("review", "--cluster", cluster, "-o", "yaml", write("pods.yaml", *pods))
    again = invoke("review", "--cluster", cluster, "-o", "yaml", write("again.yaml", once.stdout))
    assert objects(again) == objects(once)
    assert again.stderr == ""


def test_refused_objects_are_left_out_and_named_on_stderr(invoke, cluster, write, pod):
    file = write("pods.yaml", pod("a"), pod("b", gpus="0.5"))
    done = invoke("review", "--cluster", cluster, "-o", "yaml", file)
    assert done.exit_code == 1
    assert [document["metadata"]["name"] for document in objects(done)] == ["a", "gpu-c6e64bdbb49dc79c"]
    assert done.stderr == (
        'Error from server (Forbidden): error when creating "pods.yaml": admission webhook '
        '"convert-pods.gpu-admission.io" denied the request: Request a whole number of GPUs, or a MIG device such as '
        'nvidia.com/mig-1g.10gb: "0.5" is not a whole number of devices; '
        "spec.containers[0].resources.limits[nvidia.com/gpu] [GA302]\n"
        "pods.yaml:14: Pod team-a/b is left out, because it is refused\n"
    )


def test_warnings_are_on_stderr(invoke, cluster, write, pod):
    document = pod(nodeSelector={"nvidia.com/gpu.product": "NVIDIA-H100"})
    done = invoke("review", "--cluster", cluster, "-o", "yaml", write("pod.yaml", document))
    assert done.stderr == (
        'Warning: Write "NVIDIA-H100-80GB-HBM3": no device matches product NVIDIA-H100; the cluster has NVIDIA-A100-SXM4-80GB '
        "on 1 node,\n"
        "Warning:   NVIDIA-H100-80GB-HBM3 on 2 nodes; spec.nodeSelector[nvidia.com/gpu.product] [GA313]\n"
    )
    assert "Warning" not in done.stdout


def test_namespace_of_the_option_is_written_into_the_object(invoke, cluster, write, pod):
    done = invoke("review", "--cluster", cluster, "-n", "team-a", "-o", "yaml", write("pod.yaml", pod(namespace=None)))
    assert [document["metadata"]["namespace"] for document in objects(done)] == ["team-a", "team-a"]


def test_nothing_admitted_writes_nothing(invoke, cluster, write, pod):
    done = invoke("review", "--cluster", cluster, "-o", "yaml", write("pod.yaml", pod(gpus="0.5")))
    assert done.stdout == ""


def test_patch_is_the_json_patch_of_the_object(invoke, cluster, write, pod):
    policy = {"apiVersion": "gpu-admission.io/v1alpha1", "kind": "GPUAdmissionPolicy", "metadata": {"name": "default"}}
    settings = write("settings.yaml", {**policy, "spec": {"placement": {"tolerateGPUNodes": "Always"}}})
    file = write("pod.yaml", pod(namespace="team-legacy"))
    done = invoke("review", "--cluster", cluster, "--settings", settings, "-o", "patch", file)
    assert done.exit_code == 0
    assert json.loads(done.stdout) == [
        {
            "op": "add",
            "path": "/spec/tolerations",
            "value": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        }
    ]


def test_patch_of_an_object_that_stays_is_empty(invoke, write):
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    assert json.loads(invoke("review", "-o", "patch", write("map.yaml", document)).stdout) == []


def test_patch_of_a_refused_object_is_none(invoke, cluster, write, pod):
    done = invoke("review", "--cluster", cluster, "-o", "patch", write("pod.yaml", pod(gpus="0.5")))
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.endswith("pod.yaml:1: Pod team-a/train is left out, because it is refused\n")


def test_patch_of_several_objects_is_a_usage_error(invoke, write, pod):
    done = invoke("review", "-o", "patch", write("pods.yaml", pod("a"), pod("b")))
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.endswith("Error: -o patch prints the patch of one object, and there are 2\n")


def test_output_of_yaml_is_yaml_to_other_readers(invoke, cluster, write, pod):
    document = pod()
    document["metadata"]["annotations"] = {"a": "yes", "b": "1e6", "c": "0o17", "d": "line\nline\n", "e": "2024-01-01"}
    done = invoke("review", "--cluster", cluster, "-o", "yaml", write("pod.json", json.dumps(document)))
    annotations = next(libyaml.load_all(done.stdout))["metadata"]["annotations"]
    assert document["metadata"]["annotations"].items() <= annotations.items()
