"""`review -o json`."""

from __future__ import annotations

import json

import jsonpatch


def test_result_of_a_converted_pod(reviewed, write, pod):
    (result,) = reviewed(write("pod.yaml", pod()))
    template = result["templates"][0]
    assert result.keys() == {
        "object",
        "source",
        "verdict",
        "notReviewed",
        "findings",
        "findingsLeftOut",
        "warnings",
        "patch",
        "templates",
    }
    assert result["object"] == {"apiVersion": "v1", "kind": "Pod", "namespace": "team-a", "name": "train"}
    assert result["source"] == {"file": "pod.yaml", "line": 1}
    assert (result["verdict"], result["notReviewed"]) == ("admitted", "")
    assert result["findings"] == result["warnings"] == []
    assert template["kind"] == "ResourceClaimTemplate"
    assert template["metadata"]["namespace"] == "team-a"
    assert template["spec"]["spec"]["devices"]["requests"] == [
        {
            "name": "train",
            "exactly": {"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": 1},
        }
    ]


def test_patch_applies_to_the_pod_with_its_defaults(reviewed, write, pod):
    document = pod()
    (result,) = reviewed(write("pod.yaml", document))
    document["spec"]["containers"][0]["resources"]["requests"] = {"nvidia.com/gpu": 1}
    admitted = jsonpatch.apply_patch(document, result["patch"])
    assert admitted["spec"]["containers"][0]["resources"] == {"claims": [{"name": "gpu", "request": "train"}]}
    assert admitted["spec"]["resourceClaims"] == [
        {"name": "gpu", "resourceClaimTemplateName": result["templates"][0]["metadata"]["name"]}
    ]


def test_finding_has_its_place_in_the_file(reviewed, write, pod):
    file = write("pods.yaml", pod("a"), pod("b", nodeSelector={"nvidia.com/gpu.count": "8"}))
    first, second = reviewed(file)
    assert first["source"]["line"] == 1
    assert second["source"]["line"] == 14
    assert second["findings"] == [
        {
            "rule": "GA307",
            "severity": "deny",
            "path": "spec.nodeSelector[nvidia.com/gpu.count]",
            "message": "counts the GPUs of the node; no device knows how many there are",
            "remedy": "remove nvidia.com/gpu.count from nodeSelector, or select by nvidia.com/gpu.product, .memory or .family",
            "administrator": "",
            "waived": "",
            "line": 27,
            "column": 27,
            "known": False,
        }
    ]


def test_finding_on_a_field_that_is_not_written_has_the_place_of_its_parent(reviewed, write, pod):
    document = pod()
    document["spec"]["containers"][0]["resources"] = {"requests": {"nvidia.com/gpu": 1}}
    (result,) = reviewed(write("pod.yaml", document, {"apiVersion": "v1", "kind": "Pod"}))[:1]
    (finding,) = result["findings"]
    assert finding["path"] == "spec.containers[0].resources.requests[nvidia.com/gpu]"
    assert (finding["line"], finding["column"]) == (12, 25)


def test_refused_pod_has_no_patch_and_no_templates(reviewed, write, pod):
    (result,) = reviewed(write("pod.yaml", pod(gpus="0.5")))
    assert result["verdict"] == "refused"
    assert result["patch"] == result["templates"] == []


def test_warnings_are_those_of_the_webhook(reviewed, write, pod):
    (result,) = reviewed(write("pod.yaml", pod(nodeSelector={"nvidia.com/gpu.product": "NVIDIA-H100"})))
    assert [finding["severity"] for finding in result["findings"]] == ["warn"]
    assert len(result["warnings"]) == 2
    assert all(len(line) <= 120 for line in result["warnings"])


def test_generated_name_is_empty(reviewed, write, pod):
    document = pod()
    document["metadata"] = {"generateName": "train-", "namespace": "team-a"}
    (result,) = reviewed(write("pod.yaml", document))
    assert result["object"]["name"] == ""


def test_refusal_exits_with_1_and_prints_json(invoke, cluster, write, pod):
    done = invoke("review", "--cluster", cluster, "-o", "json", write("pod.yaml", pod(gpus="0.5")))
    assert done.exit_code == 1
    assert json.loads(done.stdout)[0]["verdict"] == "refused"


def test_text_outside_ascii_is_written_as_it_is(invoke, write):
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "grüße"}}
    assert '"grüße"' in invoke("review", "-o", "json", write("map.yaml", document)).stdout
