"""`gpu-admission snapshot` and live `review` of a running cluster."""

import json

import pytest
import yaml

from testbed import manifests
from tests.cluster.commands import command_output


@pytest.fixture
def team(cluster):
    """A namespace with a pod that escaped conversion."""
    team = cluster.namespace()
    cluster.create(manifests.pod(team)).object  # noqa: B018 - it is not refused
    opted_in = {"metadata": {"labels": {"gpu-admission.io/dra": "enabled"}}}
    assert cluster.patch("Namespace", team, body=opted_in).accepted
    return team


def test_audit_of_a_snapshot_is_that_of_the_cluster(cluster, team, tmp_path):
    command_output("snapshot", "--kubeconfig", cluster.kubeconfig, tmp_path / "snapshot")
    live = json.loads(command_output("audit", "--kubeconfig", cluster.kubeconfig, "-n", team, "-o", "json"))
    offline = json.loads(command_output("audit", "--cluster", tmp_path / "snapshot", "-n", team, "-o", "json"))
    assert {**offline, "notes": []} == {**live, "notes": []}
    assert [each["rule"] for each in live["findings"]] == ["GA321"]


def test_review_of_a_snapshot_is_that_of_the_cluster(cluster, team, tmp_path):
    pod = tmp_path / "pod.yaml"
    pod.write_text(yaml.safe_dump(manifests.pod(team, "new")))
    command_output("snapshot", "--kubeconfig", cluster.kubeconfig, tmp_path / "snapshot")
    live = command_output("review", "--kubeconfig", cluster.kubeconfig, pod)
    assert command_output("review", "--cluster", tmp_path / "snapshot", pod) == live
    assert "admitted, converted" in live
