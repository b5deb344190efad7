"""ResourceQuotas among the files under review count for the pods beside them."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from webhook.cli import main

NAMESPACE = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "team-a", "labels": {"gpu-admission.io/dra": "enabled"}},
}
CLASS = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu.nvidia.com"}, "spec": {}}
GPU = {"name": "main", "image": "train", "resources": {"limits": {"nvidia.com/gpu": 1}}}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "train", "namespace": "team-a"},
    "spec": {"containers": [GPU]},
}


DEVICES = "gpu.nvidia.com.deviceclass.resource.k8s.io/devices"


@pytest.mark.parametrize(("used", "warned"), [("7", False), ("8", True)])
def test_quota_that_has_too_little_left_for_the_claim_is_reported(tmp_path, used, warned):
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpus", "namespace": "team-a"},
        "spec": {"hard": {DEVICES: "8"}},
        "status": {"used": {DEVICES: used}},
    }
    file = tmp_path / "all.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [NAMESPACE, CLASS, POD, quota]}))
    done = CliRunner().invoke(main, ["review", "-o", "json", str(file)])
    (found,) = [each for each in json.loads(done.stdout) if each["object"]["kind"] == "Pod"]
    assert [each["rule"] for each in found["findings"]] == (["GA338"] if warned else [])


@pytest.mark.parametrize(("namespace", "verdict"), [("team-a", "refused"), ("team-b", "admitted")])
def test_quota_among_the_files_that_conversion_switches_off_is_reported(tmp_path, namespace, verdict):
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpus", "namespace": namespace},
        "spec": {"hard": {"requests.nvidia.com/gpu": "4"}},
    }
    file = tmp_path / "all.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [NAMESPACE, CLASS, POD, quota]}))
    done = CliRunner().invoke(main, ["review", "-o", "json", str(file)])
    (found,) = [each for each in json.loads(done.stdout) if each["object"]["kind"] == "Pod"]
    assert found["verdict"] == verdict
    assert [each["rule"] for each in found["findings"]] == (["GA312"] if verdict == "refused" else [])
