"""`gpu-admission audit --publish`: reports for policy tools in a running cluster."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import re
import urllib.request
from pathlib import Path

import jsonschema
import pytest
from aiohttp import web

from testbed import libyaml
from testbed.commands import run_command
from tests.audit.report_apis import OPEN_REPORT_CRDS, OPEN_SCHEMA, POLICY_REPORT_CRDS, POLICY_SCHEMA, strict_schema
from tests.pages.shown_cluster import mig_devices
from tests.report.test_overview import ANY_CLASS, UNGUARDED
from tests.sandbox import faults
from tests.sandbox.faults import FaultySandbox
from tests.usage.usage_objects import devices, node, resource_slice
from webhook.cli.cluster_options import ClusterOptions
from webhook.cli.reports.live_audits import audit_cluster
from webhook.cluster.client import APIClient
from webhook.sandbox.kinds import parse_path, record_of
from webhook.sandbox.users import user_of

PAGE = Path(__file__).parents[2] / "docs" / "audit.md"
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"} | {"HOME": "/nonexistent"}
PATHS = {
    "Report": "/apis/openreports.io/v1alpha1/reports",
    "ClusterReport": "/apis/openreports.io/v1alpha1/clusterreports",
    "PolicyReport": "/apis/wgpolicyk8s.io/v1alpha2/policyreports",
    "ClusterPolicyReport": "/apis/wgpolicyk8s.io/v1alpha2/clusterpolicyreports",
}
WRITES = {"create", "update", "patch", "delete"}


@pytest.fixture
async def start_sandbox(tmp_path, k8s):
    """Start a sandbox with an escaped pod in team-a, a note on a node pool, and CRDs; its kubeconfig is in `sandbox.file`."""
    started = []

    async def start(*objects, crds=OPEN_REPORT_CRDS):
        sandbox = FaultySandbox(seed=1)
        for document in (*crds, k8s.namespace(), k8s.namespace("team-b"), *k8s.BASE[1:], *objects):
            sandbox.create(copy.deepcopy(document))
        await sandbox.start()
        started.append(sandbox)
        sandbox.file = tmp_path / "kubeconfig"
        sandbox.file.write_text(sandbox.kubeconfig())
        return sandbox

    yield start
    for sandbox in started:
        await sandbox.stop()


async def run(*arguments):
    """The command as a process."""
    return await asyncio.to_thread(run_command, "audit", *arguments, cwd=Path.cwd(), environment=ENVIRONMENT)


async def publish(sandbox, namespace=""):
    """Audit and publish in this process; returns the lines on standard error."""
    audited = await asyncio.to_thread(
        audit_cluster, ClusterOptions(kubeconfig=str(sandbox.file), namespace=namespace), publishes=True
    )
    return [*audited.published.problems, audited.published.summary]


async def stored(sandbox, kind="Report"):
    """The stored reports of a kind, by namespace."""
    listed = await asyncio.to_thread(sandbox_get, sandbox, PATHS[kind])
    return {each["metadata"].get("namespace", ""): each for each in listed["items"]}


def sandbox_get(sandbox, path):
    with urllib.request.urlopen(f"{sandbox.url}{path}") as answer:
        return json.load(answer)


def writes(sandbox):
    return [(each.verb, each.resource, each.namespace) for each in sandbox.requests if each.verb in WRITES]


NODE = {"nvidia.com/gpu.workload.config": "nonsense"}
"""A label that is refused."""


async def test_findings_are_published_by_namespace(start_sandbox, k8s):
    sandbox = await start_sandbox(k8s.pod(), k8s.thing("Node", "node-1", labels=NODE))
    assert await publish(sandbox) == ["published to openreports.io: 2 reports written, 0 unchanged, 0 deleted"]
    (report,) = (await stored(sandbox)).values()
    (result,) = report["results"]
    assert (report["metadata"]["namespace"], result["rule"], result["result"]) == ("team-a", "GA321", "fail")
    pod = await asyncio.to_thread(sandbox_get, sandbox, "/api/v1/namespaces/team-a/pods/train")
    reference = {"apiVersion": "v1", "kind": "Pod", "namespace": "team-a", "name": "train"}
    assert result["resources"] == [{**reference, "uid": pod["metadata"]["uid"]}]
    (cluster_report,) = (await stored(sandbox, "ClusterReport")).values()
    assert [each["resources"][0]["name"] for each in cluster_report["results"]] == ["node-1"]


async def test_report_of_a_namespace_names_no_nodes(start_sandbox):
    """The rights to read reports and to list nodes are granted apart."""
    slices = [resource_slice(devices(1), "h100-01"), resource_slice(mig_devices(), "a100-mig")]
    objects = [node("h100-01"), node("a100-mig"), *slices, ANY_CLASS, UNGUARDED]
    sandbox = await start_sandbox(*objects)
    await publish(sandbox)
    (result,) = (await stored(sandbox))["team-a"]["results"]
    assert re.search("which gpu.* on <node>", result["message"])


async def test_standard_output_stays_the_same(start_sandbox, k8s):
    sandbox = await start_sandbox(k8s.pod())
    arguments = ("--kubeconfig", sandbox.file, "-o", "json")
    plain, published = await run(*arguments), await run(*arguments, "--publish")
    assert (published.returncode, published.stdout) == (plain.returncode, plain.stdout) == (1, plain.stdout)
    assert published.stderr == "published to openreports.io: 1 report written, 0 unchanged, 0 deleted\n"


@pytest.mark.parametrize(
    ("crds", "kinds", "schema"),
    [
        (OPEN_REPORT_CRDS, ("Report", "ClusterReport"), OPEN_SCHEMA),
        (POLICY_REPORT_CRDS, ("PolicyReport", "ClusterPolicyReport"), POLICY_SCHEMA),
        ((*POLICY_REPORT_CRDS, *OPEN_REPORT_CRDS), ("Report", "ClusterReport"), OPEN_SCHEMA),
        ((*POLICY_REPORT_CRDS, OPEN_REPORT_CRDS[0]), ("PolicyReport", "ClusterPolicyReport"), POLICY_SCHEMA),
    ],
    ids=["OpenReports", "PolicyReports", "both", "half of OpenReports"],
)
async def test_reports_of_the_api_that_is_served_have_its_schema(start_sandbox, k8s, crds, kinds, schema):
    sandbox = await start_sandbox(k8s.pod(), k8s.thing("Node", "node-1", labels=NODE), crds=crds)
    (summary,) = await publish(sandbox)
    assert ": 2 reports written" in summary
    for kind in kinds:
        (report,) = (await stored(sandbox, kind)).values()
        jsonschema.validate(report, strict_schema(schema))


async def test_cluster_without_such_an_api_is_refused_before_the_audit(start_sandbox):
    sandbox = await start_sandbox(crds=())
    done = await run("--kubeconfig", sandbox.file, "--publish")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"Error: {sandbox.url} serves neither openreports.io/v1alpha1 (Report, ClusterReport) nor wgpolicyk8s.io/v1alpha2 "
        "(PolicyReport, ClusterPolicyReport), so no reports can be published; install the CRDs of OpenReports: helm upgrade "
        "--install openreports --repo https://openreports.github.io/reports-api openreports\n"
    )
    assert writes(sandbox) == []


async def test_files_cannot_be_published():
    done = await run("--cluster", "x", "--publish")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--cluster is for files, and --publish writes into the running cluster that it audits" in done.stderr


async def test_reports_that_have_not_changed_are_not_written(start_sandbox, k8s):
    sandbox = await start_sandbox(k8s.pod(), k8s.thing("Node", "node-1", labels=NODE))
    await publish(sandbox)
    before = writes(sandbox)
    assert await publish(sandbox) == ["published to openreports.io: 0 reports written, 2 unchanged, 0 deleted"]
    assert writes(sandbox) == before


async def test_only_the_report_that_changed_is_updated(start_sandbox, k8s):
    sandbox = await start_sandbox(k8s.pod(), k8s.pod(namespace="team-b"))
    await publish(sandbox)
    sandbox.create(k8s.pod("another", "team-b", gpus=2))
    before = writes(sandbox)
    assert await publish(sandbox) == ["published to openreports.io: 1 report written, 1 unchanged, 0 deleted"]
    assert writes(sandbox)[len(before) :] == [("update", "reports", "team-b")]


async def test_report_of_a_namespace_without_findings_is_deleted(start_sandbox, k8s):
    sandbox = await start_sandbox(k8s.pod(), k8s.pod(namespace="team-b"))
    await publish(sandbox)
    sandbox.remove("Pod", "train", "team-a")
    assert await publish(sandbox) == ["published to openreports.io: 0 reports written, 1 unchanged, 1 deleted"]
    assert {*await stored(sandbox)} == {"team-b"}


async def test_reports_of_others_are_not_touched(start_sandbox, k8s):
    foreign = k8s.thing("Report", "gpu-admission", "team-a", "openreports.io/v1alpha1", source="kyverno")
    other_name = k8s.thing(
        "Report", "polr-1", "team-b", "openreports.io/v1alpha1", labels={"gpu-admission.io/managed": "true"}
    )
    sandbox = await start_sandbox(foreign, other_name, k8s.pod())
    assert await publish(sandbox) == [
        (
            "Report team-a/gpu-admission does not have the label gpu-admission.io/managed=true, so another tool wrote it and it is "
            "not changed; delete it"
        ),
        "published to openreports.io: 0 reports written, 0 unchanged, 0 deleted",
    ]
    found = await stored(sandbox)
    assert {where: each["metadata"]["name"] for where, each in found.items()} == {
        "team-a": "gpu-admission",
        "team-b": "polr-1",
    }
    assert found["team-a"]["source"] == "kyverno"


async def test_labels_that_others_add_to_our_reports_stay(start_sandbox, k8s):
    sandbox = await start_sandbox(k8s.pod())
    await publish(sandbox)
    report = (await stored(sandbox))["team-a"]
    report["metadata"]["labels"]["team"] = "a"
    report["results"] = []
    await put(sandbox, report)
    await publish(sandbox)
    again = (await stored(sandbox))["team-a"]
    assert again["metadata"]["labels"] == {"gpu-admission.io/managed": "true", "team": "a"}
    assert len(again["results"]) == 1


async def put(sandbox, report):
    client = await APIClient.connect(str(sandbox.file), environ={})
    path = PATHS["Report"].replace("/reports", f"/namespaces/{report['metadata']['namespace']}/reports/gpu-admission")
    body = {"apiVersion": "openreports.io/v1alpha1", "kind": "Report", **report}
    try:
        await client.put(path, body)
    finally:
        await client.close()


async def test_reports_in_the_former_api_are_deleted(start_sandbox, k8s):
    sandbox = await start_sandbox(k8s.pod(), k8s.thing("Node", "node-1", labels=NODE), crds=POLICY_REPORT_CRDS)
    await publish(sandbox)
    of_others = {
        **(await stored(sandbox, "PolicyReport"))["team-a"],
        "metadata": {"name": "kyverno", "namespace": "team-b"},
    }
    for document in (*OPEN_REPORT_CRDS, of_others):
        sandbox.create(copy.deepcopy(document))
    assert await publish(sandbox) == ["published to openreports.io: 2 reports written, 0 unchanged, 2 deleted"]
    assert [*(await stored(sandbox, "PolicyReport"))] == ["team-b"]
    assert not await stored(sandbox, "ClusterPolicyReport")


async def test_one_namespace_is_published_alone(start_sandbox, k8s):
    sandbox = await start_sandbox(k8s.pod(), k8s.pod(namespace="team-b"), k8s.thing("Node", "node-1", labels=NODE))
    await publish(sandbox)
    sandbox.remove("Pod", "train", "team-a")
    sandbox.remove("Pod", "train", "team-b")
    assert await publish(sandbox, "team-b") == [
        "published to openreports.io: 0 reports written, 0 unchanged, 1 deleted"
    ]
    assert {*await stored(sandbox)} == {"team-a"}
    assert len(await stored(sandbox, "ClusterReport")) == 1


async def test_reports_stay_if_not_everything_was_reviewed(start_sandbox, k8s):
    sandbox = await start_sandbox(k8s.pod())
    await publish(sandbox)
    sandbox.faults.add(faults.failing(403, "no"), path="/apis/apps/v1/deployments")
    sandbox.remove("Pod", "train", "team-a")
    assert await publish(sandbox) == [
        "reports of earlier audits without findings now are kept, because not everything was reviewed: 1",
        "published to openreports.io: 1 report written, 0 unchanged, 0 deleted",
    ]
    assert {*await stored(sandbox)} == {"team-a"}
    (cluster_report,) = (await stored(sandbox, "ClusterReport")).values()
    assert [each["rule"] for each in cluster_report["results"]] == ["not-reviewed"]


async def test_report_that_changes_meanwhile_is_written_again(start_sandbox, k8s):
    sandbox = await start_sandbox(k8s.pod())
    await publish(sandbox)
    sandbox.create(k8s.pod("another", gpus=2))
    sandbox.faults.add(faults.conflict(), verb="PUT", count=1)
    assert await publish(sandbox) == ["published to openreports.io: 1 report written, 0 unchanged, 0 deleted"]
    assert (await stored(sandbox))["team-a"]["results"][0]["properties"]["objects"] == "2"


async def test_report_that_keeps_changing_is_named(start_sandbox, k8s):
    sandbox = await start_sandbox(k8s.pod())
    await publish(sandbox)
    sandbox.create(k8s.pod("another", gpus=2))
    sandbox.faults.add(faults.conflict(), verb="PUT")
    assert (await publish(sandbox))[0] == (
        "Report team-a/gpu-admission is not written, because it changes all the time; run the command again"
    )


async def test_missing_right_is_named_and_the_other_reports_are_written(start_sandbox, k8s):
    sandbox = await start_sandbox(k8s.pod(), k8s.pod(namespace="team-b"))
    sandbox.faults.add(faults.failing(403, "reports is forbidden"), verb="POST", path="*/namespaces/team-a/reports")
    done = await run("--kubeconfig", sandbox.file, "--publish")
    assert (done.returncode, done.stderr) == (
        2,
        (
            "Report team-a/gpu-admission is not written: reports is forbidden; grant the ClusterRole of docs/audit.md\n"
            "published to openreports.io: 1 report written, 0 unchanged, 0 deleted\n"
        ),
    )
    assert {*await stored(sandbox)} == {"team-b"}


async def test_reports_are_written_without_the_right_to_list_them(start_sandbox, k8s):
    sandbox = await start_sandbox(k8s.pod())
    await publish(sandbox)
    sandbox.create(k8s.pod("another", gpus=2))
    sandbox.faults.add(faults.failing(403, "no"), verb="GET", path="/apis/openreports.io/v1alpha1/reports")
    assert await publish(sandbox) == [
        "outdated reports of earlier audits are not deleted: no; grant the ClusterRole of docs/audit.md",
        "published to openreports.io: 1 report written, 0 unchanged, 0 deleted",
    ]


async def test_namespace_that_is_deleted_meanwhile_needs_no_report(start_sandbox, k8s):
    sandbox = await start_sandbox(k8s.pod())
    sandbox.faults.add(faults.failing(404, "namespaces team-a not found"), verb="POST", path="*/reports")
    assert await publish(sandbox) == ["published to openreports.io: 0 reports written, 0 unchanged, 0 deleted"]


def role_of_the_page():
    (text,) = re.findall(r"```yaml\n(apiVersion: rbac.*?)```", PAGE.read_text(), re.DOTALL)
    return libyaml.load(text)


@pytest.mark.parametrize("crds", [OPEN_REPORT_CRDS, POLICY_REPORT_CRDS], ids=["OpenReports", "PolicyReports"])
async def test_role_of_the_page_is_enough_and_all_of_it_is_used(start_sandbox, k8s, crds):
    """Reports are created, updated after a conflict, for which they are read, and deleted."""
    group = crds[0]["spec"]["group"]
    granted = {
        (verb, resource)
        for rule in role_of_the_page()["rules"]
        if group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    sandbox = await start_sandbox(
        k8s.pod(), k8s.pod(namespace="team-b"), k8s.thing("Node", "n", labels=NODE), crds=crds
    )
    used = set()

    def refuses(request):
        target = parse_path(sandbox._cluster.kinds, request.path)
        if target is None or not request.path.startswith(f"/apis/{group}/"):
            return False
        record = record_of(user_of(None), request.method, target, request.query)
        used.add((record.verb, record.resource))
        return (record.verb, record.resource) not in granted

    async def forbid(request, handler):
        return web.json_response({"kind": "Status", "code": 403, "reason": "Forbidden", "message": "RBAC"}, status=403)

    sandbox.faults.add(forbid, when=refuses)
    assert await publish(sandbox) == [f"published to {group}: 3 reports written, 0 unchanged, 0 deleted"]
    sandbox.create(k8s.pod("another", "team-b", gpus=2))
    sandbox.remove("Pod", "train", "team-a")
    sandbox.create(k8s.thing("Node", "m", labels={"nvidia.com/gpu.workload.config": "other"}))
    sandbox.faults.add(faults.conflict(), verb="PUT", path="*/namespaces/*/gpu-admission", count=1)
    sandbox.faults.add(faults.conflict(), verb="PUT", path="*/cluster*reports/gpu-admission", count=1)
    assert await publish(sandbox) == [f"published to {group}: 2 reports written, 0 unchanged, 1 deleted"]
    sandbox.remove("Node", "n")
    sandbox.remove("Node", "m")
    assert await publish(sandbox) == [f"published to {group}: 0 reports written, 1 unchanged, 1 deleted"]
    assert used == granted
