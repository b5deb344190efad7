"""`gpu-admission doctor` on a running installation: what it prints, sends and how it ends."""

from __future__ import annotations

import asyncio
import json
import re
import shlex

import pytest

from tests.cli.doctored_sandbox import PODS, DoctoredSandbox
from tests.cli.quota_files import AWAY, ROOT
from tests.sandbox import faults

PAGE = (ROOT / "docs" / "doctor.md").read_text()
((COMMAND, SHOWN),) = re.findall(r"```console\n\$ gpu-admission (doctor.*?)\n(.*?)```", PAGE, re.DOTALL)
NOTE = (
    "replica other cannot be reached at 10.0.0.2:8444, so replicas compete for the ledgers of quotas; allow that port"
)


@pytest.fixture
async def sandbox(tmp_path):
    """A sandbox with gpu-admission in it; its kubeconfig is in `sandbox.file`."""
    sandbox = DoctoredSandbox()
    await sandbox.begin()
    sandbox.file = tmp_path / "kubeconfig"
    sandbox.file.write_text(sandbox.kubeconfig())
    yield sandbox
    await sandbox.stop()


@pytest.fixture
def live(sandbox, run):
    """Check the sandbox, in a separate process."""

    async def live(*arguments):
        return await asyncio.to_thread(lambda: run("doctor", "--kubeconfig", sandbox.file, *arguments, **AWAY))

    return live


def checks(done, *statuses):
    return [(each["name"], each["what"]) for each in json.loads(done.stdout)["checks"] if each["status"] in statuses]


def open_webhook(sandbox):
    """What way 2 of docs/break-glass.md does."""
    stored = sandbox.get("MutatingWebhookConfiguration", "gpu-admission")
    first, *others = stored["webhooks"]
    sandbox.replace({**stored, "webhooks": [{**first, "failurePolicy": "Ignore"}, *others]})


async def test_page_shows_what_the_command_prints(live, sandbox):
    open_webhook(sandbox)
    sandbox.remove("ClusterRoleBinding", "gpu-admission-certificates")
    done = await live(*shlex.split(COMMAND)[1:])
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == SHOWN


async def test_installation_that_works_ends_with_a_warning_about_counted_failures_only(live):
    done = await live("-o", "json")
    assert checks(done, "failing", "unknown") == []
    assert checks(done, "warning") == [
        ("calls", "6 of 1,246 calls of convert-pods.gpu-admission.io had no answer since 2026-11-27 16:00 UTC")
    ]
    assert done.returncode == 5


async def test_installation_without_warnings_ends_with_success(live, sandbox):
    sandbox.counted = "process_start_time_seconds 1.7957952e+09\n"
    done = await live("-o", "json")
    assert (done.returncode, checks(done, "failing", "unknown", "warning")) == (0, [])


async def test_only_reads_are_sent(live, sandbox):
    await live()
    assert {request.verb for request in sandbox.requests} == {"get", "list"}


async def test_json_has_a_version_and_the_calls(live):
    found = json.loads((await live("-o", "json")).stdout)
    assert found["format"] == 1
    assert [*found] == ["format", "checks", "calls", "conclusion"]
    assert found["calls"]["webhooks"]["nodes.gpu-admission.io"]["excluded"] == 51200
    assert found["calls"]["webhooks"]["convert-pods.gpu-admission.io"] == {
        "calls": 1246,
        "refused": 0,
        "failedClosed": 6,
        "failedOpen": 0,
        "excluded": 0,
        "conditionErrors": 0,
        "secondsOfHalf": 0.005,
        "secondsOf99Percent": 0.025,
    }


async def test_notes_of_replicas_are_shown_once(live, sandbox):
    sandbox.notes.append(NOTE)
    done = await live("-o", "json")
    assert [what for name, what in checks(done, "warning") if name == "readiness"] == [NOTE]


async def test_replica_that_is_not_ready_fails_although_it_answers_with_503(live, sandbox):
    sandbox.readiness.phase = "stopping"
    done = await live("-o", "json")
    assert done.returncode == 1
    assert checks(done, "failing") == [("readiness", f"replica {name} is not ready") for name in PODS]


async def test_answer_of_something_else_than_a_replica_is_shown(live, sandbox):
    sandbox.answer_first(faults.html(), "*/proxy/readyz")
    done = await live("-o", "json")
    assert {name for name, _ in checks(done, "warning")} >= {"readiness"}


async def test_forbidden_reads_are_unknown_kind_by_kind(live, sandbox):
    sandbox.answer_first(faults.failing(403, "Forbidden"), "*")
    done = await live("-o", "json")
    assert done.returncode == 4
    found = json.loads(done.stdout)["checks"]
    assert {each["status"] for each in found} == {"unknown"}
    assert found[0]["why"] == "you may not get deployments.apps/gpu-admission -n gpu-admission"


@pytest.mark.parametrize(
    ("path", "unknown"),
    [
        ("*/deployments/*", {"replicas"}),
        ("*/namespaces/gpu-admission/pods", {"replicas"}),
        ("*/proxy/*", {"readiness"}),
        ("/metrics", {"calls"}),
        ("*/mutatingwebhookconfigurations/*", {"webhooks"}),
        ("*/secrets/*", {"certificate"}),
        ("*/namespaces/gpu-admission/leases/*", {"leader"}),
        ("*/gpuquotas", {"quotas"}),
        ("/api/v1/pods", {"templates"}),
        ("*/resourceclaimtemplates", {"templates"}),
        ("*/gpuadmissionpolicies", {"settings"}),
        ("*/customresourcedefinitions/*", {"crds"}),
        ("*/clusterrolebindings/*", {"rbac"}),
        ("*/networkpolicies/*", {"objects"}),
        ("*/namespaces/kube-system/leases", set()),
        ("*/nodes", set()),
    ],
)
async def test_one_missing_right_leaves_the_other_checks(live, sandbox, path, unknown):
    sandbox.answer_first(faults.failing(403, "Forbidden"), path)
    done = await live("-o", "json")
    assert {name for name, _ in checks(done, "unknown")} == unknown
    assert checks(done, "failing") == []
    assert done.returncode == (4 if unknown else 5)


async def test_errors_of_the_api_server_are_unknown_checks(live, sandbox):
    sandbox.answer_first(faults.failing(500), "/api*")
    done = await live("-o", "json")
    assert done.returncode == 4
    found = {each["why"] for each in json.loads(done.stdout)["checks"] if each["status"] == "unknown"}
    assert found == {"etcdserver: leader changed"}


async def test_cluster_that_cannot_be_reached_ends_with_2(live, sandbox):
    await sandbox.stop()
    done = await live()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: GET /version at http://127.0.0.1:")
