"""`gpu-admission snapshot` and live `review` of a running cluster."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from testbed import manifests

ROOT = Path(__file__).parents[2]


def run(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "webhook", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


@pytest.fixture
def team(cluster):
    """A namespace with a pod that escaped conversion."""
    team = cluster.namespace()
    cluster.create(manifests.pod(team)).object  # noqa: B018 - it is not refused
    opted_in = {"metadata": {"labels": {"gpu-admission.io/dra": "enabled"}}}
    assert cluster.patch("Namespace", team, body=opted_in).accepted
    return team


def test_audit_of_a_snapshot_is_that_of_the_cluster(cluster, team, tmp_path):
    run("snapshot", "--kubeconfig", cluster.kubeconfig, tmp_path / "snapshot")
    live = json.loads(run("audit", "--kubeconfig", cluster.kubeconfig, "-n", team, "-o", "json"))
    offline = json.loads(run("audit", "--cluster", tmp_path / "snapshot", "-n", team, "-o", "json"))
    assert {**offline, "notes": []} == {**live, "notes": []}
    assert [each["rule"] for each in live["findings"]] == ["GA321"]


def test_review_of_a_snapshot_is_that_of_the_cluster(cluster, team, tmp_path):
    pod = tmp_path / "pod.yaml"
    pod.write_text(yaml.safe_dump(manifests.pod(team, "new")))
    run("snapshot", "--kubeconfig", cluster.kubeconfig, tmp_path / "snapshot")
    live = run("review", "--kubeconfig", cluster.kubeconfig, pod)
    assert run("review", "--cluster", tmp_path / "snapshot", pod) == live
    assert "admitted, converted" in live
