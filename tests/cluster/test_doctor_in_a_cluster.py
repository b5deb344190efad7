"""`gpu-admission doctor`: an installation that works, then with one part broken after the other, and repaired as it says."""

import json
import os

import pytest
import yaml

from testbed import deploy, manifests
from testbed.commands import run_command
from testbed.replica_pods import ReplicaPods
from testbed.waiting import until
from testbed.webhook_configurations import called_at, current_configurations

KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
ENVIRONMENT = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "KUBECONFIG")}


@pytest.fixture
def pods(real, background):
    """The pods of the replicas, which API servers reach."""
    if not (real.makes_pods and real.schedules):
        pytest.skip("no controllers run here, which create and bind pods")
    pods = ReplicaPods(real, background)
    try:
        pods.create()
        yield pods
    finally:
        pods.delete()


@pytest.fixture
def doctor(tmp_path):
    """Runs doctor; returns its JSON and exit code."""

    def doctor(cluster, file=None):
        done = run_command(
            "doctor", "--kubeconfig", file or cluster.kubeconfig, "-o", "json", cwd=tmp_path, environment=ENVIRONMENT
        )
        assert done.returncode in (0, 1, 4, 5), done.stderr
        return json.loads(done.stdout), done.returncode

    return doctor


def found(report, status, *names):
    """The checks of a status, if given of some names only."""
    return [each for each in report["checks"] if each["status"] == status and (not names or each["name"] in names)]


def test_scratch(real, pods, doctor, tmp_path):
    report, code = doctor(real)
    done = run_command("doctor", "--kubeconfig", real.kubeconfig, cwd=tmp_path, environment=ENVIRONMENT)
    __import__("pathlib").Path("/tmp/doctor-page.txt").write_text(done.stdout + done.stderr + str(code))


def test_scratch_sandbox(sandbox, doctor, tmp_path):
    report, code = doctor(sandbox)
    done = run_command("doctor", "--kubeconfig", sandbox.kubeconfig, cwd=tmp_path, environment=ENVIRONMENT)
    __import__("pathlib").Path("/tmp/doctor-page-sandbox.txt").write_text(done.stdout + done.stderr + str(code))
