"""`kubectl gpu`: the commands of every day as a plugin of kubectl."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from testbed import libyaml
from tests.cli.quota_files import AWAY, EXAMPLES, ROOT, WITH_QUOTA, quota
from webhook.cli.kubectl_plugin import complete, plugin
from webhook.sandbox.server import Sandbox

DEFINITION = libyaml.load((ROOT / "deploy" / "base" / "api" / "gpuquotas.yaml").read_text())
FOLDERS = os.pathsep.join(
    (str(Path(sys.executable).parent), os.environ.get("KUBEBUILDER_ASSETS", ""), os.environ["PATH"])
)
"""Where kubectl is looked for, and where kubectl looks for the plugin."""


@pytest.fixture(autouse=True)
def _no_cluster(folder, monkeypatch):
    for name, value in AWAY.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def gpu(folder):
    """Run `kubectl gpu` in this process."""

    def gpu(*arguments):
        return CliRunner().invoke(plugin, [*map(str, arguments)], prog_name="kubectl gpu")

    return gpu


@pytest.fixture
async def sandbox(tmp_path):
    """A sandbox with quotas of two namespaces; the context of its kubeconfig is in team-a."""
    sandbox = Sandbox()
    sandbox.create(DEFINITION)
    for name in ("team-a", "team-b"):
        sandbox.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        sandbox.create(quota(name))
    await sandbox.start()
    sandbox.file = tmp_path / "kubeconfig"
    sandbox.file.write_text(sandbox.kubeconfig().replace("  context:\n", "  context:\n    namespace: team-a\n"))
    yield sandbox
    await sandbox.stop()


@pytest.fixture
def quotas(gpu, sandbox):
    """The namespaces whose quotas are shown."""

    async def quotas(*arguments):
        arguments = [sandbox.file if each == "FILE" else each for each in arguments]
        done = await asyncio.to_thread(gpu, *arguments)
        assert done.stderr == ""
        return [name for name in ("team-a", "team-b") if f"GPUQuota {name}/gpu" in done.stdout]

    return quotas


@pytest.mark.parametrize("command", ["why", "quota", "review", "audit"])
def test_help_says_the_name_of_the_plugin(gpu, command):
    done = gpu(command, "--help")
    assert done.stdout.startswith(f"Usage: kubectl gpu {command} ")
    assert f"    kubectl gpu {command}" in done.stdout
    assert f"gpu-admission {command} " not in done.stdout.replace("\n", " ")
    assert "gpu-admission explain" not in done.stdout


def test_help_of_gpu_admission_stays_as_it_is(gpu, invoke):
    gpu("why", "--help")
    assert "    gpu-admission explain " in invoke("explain", "--help").stdout


def test_wrong_usage_says_the_name_of_the_plugin(gpu):
    done = gpu("why", "-o", "html")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: kubectl gpu why ")


def test_command_that_the_plugin_does_not_have_is_unknown(gpu):
    done = gpu("serve")
    assert done.exit_code == 2
    assert "No such command 'serve'." in done.stderr


def test_why_is_explain(gpu, invoke, cluster):
    arguments = ["--cluster", cluster, "--cluster", EXAMPLES / "cluster-in-use", "-n", "team-a", "pod/pretrain"]
    why, explain = gpu("why", *arguments), invoke("explain", *arguments)
    assert (why.exit_code, why.stdout) == (explain.exit_code, explain.stdout)
    assert why.stdout.startswith("pod team-a/pretrain  impossible\n")


def test_review_is_that_of_gpu_admission(gpu, invoke, cluster, write, pod):
    arguments = ["review", "--cluster", cluster, write("pod.yaml", pod())]
    assert gpu(*arguments).stdout == invoke(*arguments).stdout


def test_cel_is_that_of_gpu_admission(gpu, invoke, cluster):
    arguments = ["cel", "--cluster", cluster, "--class", "gpu.nvidia.com", "true"]
    plugin, own = gpu(*arguments), invoke(*arguments)
    assert (plugin.exit_code, plugin.stdout) == (own.exit_code, own.stdout)
    assert plugin.stdout


@pytest.mark.parametrize(
    ("namespace", "shown"), [((), {"team-a", "team-b"}), (("-n", "team-b"), {"team-b"})], ids=["all", "given"]
)
async def test_report_shows_all_namespaces_or_the_given_one(gpu, sandbox, namespace, shown):
    done = await asyncio.to_thread(gpu, "--kubeconfig", sandbox.file, *namespace, "report", "-o", "-")
    assert {name for name in ("team-a", "team-b") if name in done.stdout} == shown


@pytest.mark.parametrize(
    "arguments",
    [
        ["quota", "--kubeconfig", "FILE"],
        ["--kubeconfig", "FILE", "quota"],
        ["--kubeconfig", "FILE", "--context", "gpu-admission-sandbox", "quota"],
    ],
    ids=" ".join,
)
async def test_namespace_is_that_of_the_context(quotas, arguments):
    assert await quotas(*arguments) == ["team-a"]


@pytest.mark.parametrize(
    "arguments",
    [["--kubeconfig", "FILE", "-n", "team-b", "quota"], ["--kubeconfig", "FILE", "quota", "--namespace", "team-b"]],
    ids=" ".join,
)
async def test_namespace_may_stand_before_or_after_the_command(quotas, arguments):
    assert await quotas(*arguments) == ["team-b"]


async def test_option_after_the_command_wins(quotas):
    assert await quotas("--kubeconfig", "FILE", "-n", "team-b", "quota", "-n", "team-a") == ["team-a"]


async def test_all_namespaces_are_read_on_request(quotas):
    assert await quotas("--kubeconfig", "FILE", "quota", "-A") == ["team-a", "team-b"]


@pytest.fixture
def audited(gpu, sandbox, pod):
    """The namespaces with pods for GPUs that an audit reads."""

    async def audited(*arguments):
        for name in ("team-a", "team-b"):
            sandbox.create(pod(namespace=name))
        done = await asyncio.to_thread(gpu, "--kubeconfig", sandbox.file, *arguments, "-o", "json")
        return sorted(each["namespace"] for each in json.loads(done.stdout)["readiness"])

    return audited


async def test_audit_reads_the_whole_cluster(audited):
    assert await audited("audit") == ["team-a", "team-b"]


async def test_audit_reads_the_namespace_that_is_given(audited):
    assert await audited("-n", "team-b", "audit") == ["team-b"]


def test_namespace_of_the_context_is_not_that_of_files(gpu, cluster, write, monkeypatch):
    context = {"name": "a", "context": {"namespace": "team-a"}}
    monkeypatch.setenv("KUBECONFIG", write("kubeconfig", {"current-context": "a", "contexts": [context]}))
    done = gpu("quota", "--cluster", cluster, "--cluster", WITH_QUOTA)
    assert "GPUQuota team-vision/gpu" in done.stdout


@pytest.fixture
def of_the_context(gpu, sandbox, write, pod, monkeypatch):
    """Run a command on a pod without a namespace; the sandbox is the cluster of the current context."""
    monkeypatch.setenv("KUBECONFIG", str(sandbox.file))
    file = write("pod.yaml", pod(namespace=""))

    async def of_the_context(*arguments):
        return await asyncio.to_thread(gpu, *arguments, file)

    return of_the_context


async def test_review_reads_the_cluster_of_the_context(of_the_context):
    done = await of_the_context("review")
    assert done.stdout.startswith("pod.yaml:1  Pod team-a/train  admitted")
    assert "GA324" not in done.stdout


async def test_why_reads_the_cluster_of_the_context_for_a_file(of_the_context):
    done = await of_the_context("why", "-f")
    assert done.stdout.startswith("pod team-a/train  ")
    assert "No node exists now." in done.stdout


@pytest.mark.parametrize("arguments", [["review"], ["why", "-f"]], ids=" ".join)
async def test_with_cluster_a_file_is_not_about_the_context(of_the_context, cluster, arguments):
    done = await of_the_context(*arguments[:1], "--cluster", cluster, *arguments[1:])
    assert "default/train" in done.stdout


@pytest.fixture
def completed(capsys, monkeypatch):
    """What the executable prints that kubectl runs to complete."""

    def completed(*arguments):
        monkeypatch.setattr(sys, "argv", ["kubectl_complete-gpu", *map(str, arguments)])
        complete()
        return capsys.readouterr().out.splitlines()

    return completed


def test_commands_are_completed_with_what_they_do(completed):
    assert completed("wh") == ["why\tShow where a pod or claim fits, and why not elsewhere.", ":4"]


def test_no_argument_yet_completes_commands(completed):
    assert [line.partition("\t")[0] for line in completed("")] == [*plugin.summaries, ":4"]


def test_names_of_files_are_left_to_the_shell(completed):
    assert completed("review", "exa") == [":0"]


def test_objects_are_completed_after_an_option_before_the_command(completed, cluster):
    arguments = ["-n", "team-a", "why", "--cluster", cluster, "--cluster", EXAMPLES / "cluster-in-use", "pod/p"]
    assert completed(*arguments) == ["pod/pretrain", ":4"]


@pytest.fixture
def kubectl(folder):
    """Run a real kubectl with the plugin on its PATH."""
    executable = shutil.which("kubectl", path=FOLDERS)
    if executable is None:
        pytest.skip("needs kubectl, on PATH or in the folder of KUBEBUILDER_ASSETS")

    def kubectl(*arguments):
        environment = {"PATH": FOLDERS, **AWAY, "HOME": str(folder)}
        command = [executable, *map(str, arguments)]
        return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)

    return kubectl


def test_kubectl_finds_the_plugin(kubectl):
    assert "kubectl-gpu" in kubectl("plugin", "list", "--name-only").stdout.splitlines()


def test_kubectl_runs_the_plugin(kubectl, cluster):
    files = ["--cluster", cluster, "--cluster", EXAMPLES / "cluster-in-use"]
    done = kubectl("gpu", "-n", "team-a", "why", *files, "pod/pretrain")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("pod team-a/pretrain  impossible\n")


def test_kubectl_completes_by_the_plugin(kubectl, cluster):
    files = ["--cluster", cluster, "--cluster", EXAMPLES / "cluster-in-use"]
    done = kubectl("__complete", "gpu", "why", *files, "-n", "team-a", "pod/")
    assert done.stdout.splitlines() == ["pod/embed", "pod/pretrain", ":4"]


def test_kubectl_completes_commands_with_what_they_do(kubectl):
    done = kubectl("__complete", "gpu", "wh")
    assert done.stdout.splitlines() == ["why\tShow where a pod or claim fits, and why not elsewhere.", ":4"]


def test_kubectl_completes_files_as_the_shell_does(kubectl):
    assert kubectl("__complete", "gpu", "review", "exa").stdout.splitlines() == [":0"]
