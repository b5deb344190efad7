"""`gpu-admission preflight` on a running cluster: what it prints, sends and how it ends."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from importlib.metadata import version

import pytest
import yaml

from testbed import libyaml
from tests.cli.example_sandboxes import example_sandbox
from tests.cli.quota_files import AWAY, ROOT
from tests.sandbox import faults

INSTALL = ROOT / "deploy" / "install.yaml"
PAGE = (ROOT / "docs" / "preflight.md").read_text()
((COMMAND, SHOWN),) = re.findall(r"```console\n\$ gpu-admission (preflight.*?)\n(.*?)```", PAGE, re.DOTALL)
READS = {"get", "list"}
REVIEW = "selfsubjectaccessreviews"
INJECTOR = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "MutatingWebhookConfiguration",
    "metadata": {"name": "sidecar-injector"},
    "webhooks": [
        {
            "name": "sidecar-injector.example.com",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "timeoutSeconds": 1,
            "reinvocationPolicy": "IfNeeded",
            "clientConfig": {"service": {"name": "sidecar-injector", "namespace": "mesh", "path": "/inject"}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
            "namespaceSelector": {
                "matchExpressions": [
                    {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "default"]}
                ]
            },
        }
    ],
}


@pytest.fixture
async def sandbox(tmp_path):
    """A sandbox with the cluster of the examples; its kubeconfig is in `sandbox.file`."""
    async with example_sandbox(tmp_path, "cluster", kinds={"Namespace", "Node", "ResourceSlice"}) as sandbox:
        yield sandbox


@pytest.fixture
def live(sandbox, run):
    """Check the sandbox, in a separate process."""

    async def live(*arguments, stdin=""):
        command = partial_run(run, sandbox.file, arguments, stdin)
        return await asyncio.to_thread(command)

    return live


def partial_run(run, file, arguments, stdin):
    return lambda: run("preflight", "--kubeconfig", file, *arguments, stdin=stdin, **AWAY)


def checks(done, *statuses):
    found = json.loads(done.stdout)["checks"]
    return [(each["name"], each["what"]) for each in found if each["status"] in statuses]


async def test_page_shows_what_the_command_prints(live, sandbox):
    sandbox.create(INJECTOR)
    done = await live(*shlex.split(COMMAND)[1:])
    assert (done.returncode, done.stderr) == (4, "")
    assert done.stdout == SHOWN


async def test_only_reads_reviews_and_dry_runs_are_sent(live, sandbox):
    before = {(each["kind"], each["metadata"]["name"]) for each in everything(sandbox)}
    await live()
    assert {(each["kind"], each["metadata"]["name"]) for each in everything(sandbox)} == before
    assert {request.verb for request in sandbox.requests} == {*READS, "create"}


def everything(sandbox):
    return [
        each for kind in ("Namespace", "ClusterRole", "Deployment", "Service", "Pod") for each in sandbox.objects(kind)
    ]


async def test_standard_input_is_read(live):
    done = await live("-f", "-", "-o", "json", stdin=INSTALL.read_text())
    assert json.loads(done.stdout)["step"] == {"verb": "install", "from": None, "to": version("gpu-admission")}


async def test_manifests_without_webhooks_are_refused(live):
    done = await live("-f", "-", stdin="apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "-: no MutatingWebhookConfiguration gpu-admission and no ValidatingWebhookConfiguration gpu-admission; give all "
        "manifests of gpu-admission\n1 problem; nothing was done\n"
    )


async def test_webhooks_that_a_hook_of_the_chart_applies_are_read(live):
    documents = [*libyaml.load_all(INSTALL.read_text())]
    hidden = yaml.safe_dump_all([each for each in documents if "webhooks" in each])
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "webhooks", "namespace": "gpu-admission"},
        "data": {"webhooks.yaml": hidden},
    }
    shown = [each for each in documents if "webhooks" not in each]
    done = await live("-f", "-", "-o", "json", stdin=yaml.safe_dump_all([*shown, config_map]))
    assert checks(done, "failing") == []
    assert json.loads(done.stdout)["namespaces"]["exempt"] == ["kube-system"]
    assert ("objects", "the dry run accepts 42 objects: 42 would be created") in checks(done, "ok")


async def test_webhooks_of_a_chart_that_are_no_yaml_are_refused(live):
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"webhooks.yaml": "{"}}
    done = await live("-f", "-", stdin=yaml.safe_dump(config_map))
    assert done.returncode == 2
    assert done.stderr.startswith("-: invalid YAML in webhooks.yaml of a ConfigMap: ")


async def test_objects_without_a_name_are_refused(live):
    done = await live(
        "-f", "-", stdin=f"{INSTALL.read_text()}---\napiVersion: v1\nkind: Pod\nmetadata: {{generateName: a-}}\n"
    )
    assert done.returncode == 2
    assert "Pod a- has no name, so it cannot be applied" in done.stderr


@pytest.mark.parametrize("hooks", ["test", "pre-delete", "pre-rollback,test"])
async def test_hooks_of_helm_that_do_not_install_are_left_out(live, hooks):
    hook = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "annotations": {"helm.sh/hook": hooks}}}
    done = await live("-f", "-", "-o", "json", stdin=f"{INSTALL.read_text()}---\n{yaml.safe_dump(hook)}")
    assert checks(done, "failing") == []
    assert "Pod default/a" not in done.stdout


@pytest.mark.parametrize(
    ("paths", "unknown"),
    [
        (["*/namespaces"], "namespaces"),
        (["*/api/v1/pods"], "pods"),
        (["*/nodes"], "kubelets"),
        (["*/mutatingwebhookconfigurations", "*/validatingwebhookconfigurations"], "webhooks"),
        (["*/leases"], "clock"),
        (["*/daemonsets"], "network"),
        (["*/validatingadmissionpolicies"], "policies"),
        ([f"*/{REVIEW}"], "rights"),
    ],
)
async def test_what_may_not_be_read_is_unknown(live, sandbox, paths, unknown):
    for path in paths:
        sandbox.faults.add(faults.failing(403, "forbidden"), verb="POST" if path.endswith(REVIEW) else "GET", path=path)
    done = await live("-o", "json")
    assert done.returncode == 4, done.stderr
    assert unknown in {name for name, _ in checks(done, "unknown")}
    assert all("Traceback" not in text for text in (done.stdout, done.stderr))


async def test_user_without_rights_gets_unknown_checks(live, sandbox):
    """Discovery is open to every authenticated user."""
    for path in ("/version", "*/namespaces/*", "*/namespaces", "*s", "*/gpu-admission*", "*gpu-admission.io"):
        sandbox.faults.add(faults.failing(403, "forbidden"), path=path)
    done = await live("-o", "json")
    assert done.returncode in (1, 4), done.stderr
    assert json.loads(done.stdout)["namespaces"] is None
    assert len(checks(done, "unknown")) > 8


async def test_api_server_that_fails_is_reported(live, sandbox):
    sandbox.faults.add(faults.failing(500, "etcdserver: leader changed"), verb="GET", path="*/nodes")
    done = await live()
    assert (done.returncode, done.stderr) == (2, f"Error: {sandbox.url}: etcdserver: leader changed\n")


async def test_dry_run_that_fails_is_unknown(live, sandbox):
    sandbox.faults.add(faults.failing(500, "etcdserver: leader changed"), verb="POST", path="*/clusterroles")
    done = await live("-o", "json")
    assert done.returncode == 4
    (what,) = (what for name, what in checks(done, "unknown") if name == "objects")
    assert what.startswith("it is unknown whether ClusterRole gpu-admission-admin-access, ")


async def test_api_server_that_is_away_is_reported(live, sandbox):
    await sandbox.stop()
    done = await live()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: GET /")
