"""`gpu-admission doctor` where newcomers try it: the sandbox, with a replica outside of it."""

import json
import os

import pytest

from testbed import manifests
from testbed.commands import run_command
from testbed.waiting import until

ENVIRONMENT = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "KUBECONFIG")}


@pytest.fixture
def doctor(sandbox, tmp_path):
    """Runs doctor; returns its report and exit code."""

    def doctor():
        options = ("--kubeconfig", sandbox.kubeconfig, "-o", "json")
        done = run_command("doctor", *options, cwd=tmp_path, environment=ENVIRONMENT)
        assert done.returncode in (0, 1, 5), done.stderr
        return json.loads(done.stdout), done.returncode

    return doctor


def found(report, name):
    """The status and the text of the checks of a name."""
    return [(each["status"], each["what"]) for each in report["checks"] if each["name"] == name]


def test_everything_is_known_in_the_sandbox(sandbox, doctor):
    until(lambda: found(doctor()[0], "leader")[0][0] == "ok", "the replica leads", 60)
    report, code = doctor()
    others = [each for each in report["checks"] if each["status"] != "ok"]
    # Calls of other scenarios may have failed, and this machine may be slow.
    assert {each["name"] for each in others} <= {"calls", "latency"}, others
    assert code == (5 if others else 0)
    ((status, text),) = found(report, "replicas")
    assert (status, text.partition(": ")[0]) == ("ok", "1 replica runs outside of the cluster")


def test_stopped_replica_is_missed(sandbox, doctor):
    sandbox.service.stop()
    try:
        report, code = doctor()
    finally:
        sandbox.service.start()
    assert (code, found(report, "replicas")) == (1, [("failing", "no replica runs")])


def test_calls_without_an_answer_are_counted(sandbox, doctor):
    team = sandbox.namespace(dra="enabled")
    before = doctor()[0]["calls"]["webhooks"].get("convert-pods.gpu-admission.io", {"failedClosed": 0})
    sandbox.service.stop()
    try:
        assert sandbox.create(manifests.pod(team)).code == 500
    finally:
        sandbox.service.start()
    report, _ = doctor()
    after = report["calls"]["webhooks"]["convert-pods.gpu-admission.io"]
    assert after["failedClosed"] == before["failedClosed"] + 1
    assert any("convert-pods" in text for _, text in found(report, "calls"))
