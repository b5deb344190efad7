"""What is completed, whichever shell asks."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys

import pytest
from click.shell_completion import ShellComplete

from tests.cli.quota_files import AWAY, EXAMPLES
from tests.cli.test_startup import HEAVY, modules
from webhook.cli import COMMANDS, main
from webhook.sandbox.server import Sandbox

IN_USE = str(EXAMPLES / "cluster-in-use")


@pytest.fixture(autouse=True)
def _no_cluster(folder, monkeypatch):
    for name, value in AWAY.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def complete():
    """The values for the last of the arguments; paths as `file`."""

    def complete(*arguments):
        *before, last = arguments
        items = ShellComplete(main, {}, "gpu-admission", "").get_completions([*map(str, before)], last)
        return [item.value if item.type == "plain" else item.type for item in items]

    return complete


def test_commands_are_completed_without_importing_them(complete):
    assert complete("") == list(COMMANDS)


def test_options_are_completed(complete):
    assert complete("review", "--no-") == ["--no-diff"]


def test_rules_have_their_titles_as_descriptions():
    (item,) = ShellComplete(main, {}, "gpu-admission", "").get_completions(["rules"], "GA313")
    assert (item.value, item.help) == ("GA313", "A device of the cluster must match the request")


def test_what_fails_a_review_is_completed_behind_a_comma(complete):
    assert complete("review", "--fail-on", "d") == ["deny"]
    assert complete("review", "--fail-on", "deny,ga313") == ["deny,GA313"]


def test_rules_may_be_written_small(complete):
    assert complete("rules", "ga313") == ["GA313"]


@pytest.mark.parametrize("written", ["ClusterP", "clusterp"])
def test_kinds_of_rules_are_completed(complete, written):
    assert complete("rules", "--kind", written) == ["ClusterPolicy"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["review", "exa"],
        ["review", "--settings", "exa"],
        ["review", "--old", "exa"],
        ["review", "--ignore-file", "exa"],
        ["review", "--baseline", "exa"],
        ["serve", "--settings", "exa"],
        ["explain", "exa"],
        ["explain", "-f", "exa"],
        ["audit", "--cluster", "exa"],
        ["quota", "--kubeconfig", "exa"],
        ["sandbox", "exa"],
    ],
    ids=" ".join,
)
def test_names_of_files_are_left_to_the_shell(complete, arguments):
    assert complete(*arguments) == ["file"]


@pytest.mark.parametrize("command", ["review", "explain", "audit", "quota"])
def test_namespaces_of_files_are_completed(complete, cluster, command):
    assert complete(command, "--cluster", cluster, "-n", "team-") == ["team-a", "team-legacy", "team-preview"]


def test_pods_with_gpus_are_completed_by_kind_and_name(complete, cluster):
    files = ["--cluster", cluster, "--cluster", IN_USE]
    assert complete("explain", *files, "-n", "team-a", "po") == ["pod/embed", "pod/pretrain"]
    assert complete("explain", *files, "-n", "team-a", "pod/p") == ["pod/pretrain"]


def test_names_follow_their_kind(complete, cluster):
    files = ["--cluster", cluster, "--cluster", IN_USE, "-n", "team-a"]
    assert complete("explain", *files, "pod", "") == ["embed", "pretrain"]
    assert complete("explain", *files, "pods", "embed", "") == ["pretrain"]


def test_manifests_follow_the_pods(complete, cluster, write):
    write("pods.yaml", "")
    files = ["--cluster", cluster, "--cluster", IN_USE]
    assert complete("explain", *files, "-n", "team-a", "po") == ["pod/embed", "pod/pretrain", "pods.yaml"]


def test_claims_are_completed_by_their_short_name(complete, cluster):
    assert complete("explain", "--cluster", cluster, "--cluster", IN_USE, "-n", "team-a", "claim/e") == ["claim/embed"]


def test_other_namespaces_have_other_objects(complete, cluster):
    assert complete("explain", "--cluster", cluster, "--cluster", IN_USE, "-n", "team-legacy", "pod/embed") == ["file"]


def test_large_files_are_not_read(complete, folder, cluster):
    shutil.copytree(cluster, folder / "cluster")
    (folder / "cluster" / "large.yaml").write_text("#" * 1_000_001)
    assert complete("quota", "--cluster", "cluster", "-n", "") == []


@pytest.mark.parametrize("arguments", [["quota", "-n", ""], ["quota", "--cluster", "missing", "-n", ""]])
def test_what_cannot_be_read_completes_nothing_silently(complete, capfd, arguments):
    assert complete(*arguments) == []
    assert capfd.readouterr() == ("", "")


def test_contexts_of_the_kubeconfig_are_completed(complete, write):
    write("kubeconfig", "contexts: [{name: prod}, {name: test}, {name: preview}]")
    assert complete("quota", "--kubeconfig", "kubeconfig", "--context", "p") == ["prod", "preview"]


@pytest.fixture
async def sandbox(tmp_path):
    """A sandbox with namespaces and pods; its kubeconfig is in `sandbox.file`."""
    sandbox = Sandbox()
    sandbox.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}})
    await sandbox.start()
    sandbox.file = tmp_path / "kubeconfig"
    sandbox.file.write_text(sandbox.kubeconfig())
    yield sandbox
    await sandbox.stop()


NEEDS_KUBECTL = pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl, which reads the cluster")


@NEEDS_KUBECTL
async def test_namespaces_of_the_cluster_are_completed(complete, sandbox):
    found = await asyncio.to_thread(complete, "quota", "--kubeconfig", sandbox.file, "-n", "team")
    assert found == ["team-a"]


@NEEDS_KUBECTL
async def test_context_of_the_kubeconfig_is_used(complete, sandbox):
    sandbox.file.write_text(sandbox.file.read_text() + "current-context: missing\n")
    arguments = ["quota", "--kubeconfig", sandbox.file, "-n", "team"]
    assert await asyncio.to_thread(complete, *arguments) == []
    context = ["--context", "gpu-admission-sandbox"]
    assert await asyncio.to_thread(complete, *arguments[:-2], *context, *arguments[-2:]) == ["team-a"]


@NEEDS_KUBECTL
async def test_pods_of_the_cluster_are_those_of_the_namespace_of_the_context(complete, sandbox, pod, monkeypatch):
    sandbox.create(pod())
    sandbox.create({**pod("web"), "spec": {"containers": [{"name": "web", "image": "nginx"}]}})
    sandbox.create(pod("elsewhere", namespace="default"))
    sandbox.file.write_text(sandbox.kubeconfig().replace("  context:\n", "  context:\n    namespace: team-a\n"))
    monkeypatch.setenv("KUBECONFIG", str(sandbox.file))
    assert await asyncio.to_thread(complete, "explain", "") == ["pod/train"]


def test_completion_of_commands_imports_none_of_them(folder, monkeypatch):
    monkeypatch.setenv("_GPU_ADMISSION_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "gpu-admission ")
    monkeypatch.setenv("COMP_CWORD", "1")
    names = {name.partition(".")[0] for name in modules(folder)}
    assert not names & {*HEAVY, "policies", "yaml", "pydantic", "asyncio"}


@NEEDS_KUBECTL
@pytest.mark.parametrize(
    ("words", "value"), [("quota -n team", "plain,team-a"), ("explain -n team-a pod/", "plain,pod/train")]
)
async def test_completion_from_a_running_cluster_imports_no_client(folder, sandbox, pod, monkeypatch, words, value):
    sandbox.create(pod())
    monkeypatch.setenv("KUBECONFIG", str(sandbox.file))
    monkeypatch.setenv("_GPU_ADMISSION_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", f"gpu-admission {words}")
    monkeypatch.setenv("COMP_CWORD", str(len(words.split())))
    script = "import sys, webhook.cli\ntry: webhook.cli.main(prog_name='gpu-admission')\nfinally: print(sorted({'kubernetes_asyncio', 'aiohttp'} & {*sys.modules}))"
    command = [sys.executable, "-c", script]
    done = await asyncio.to_thread(subprocess.run, command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [value, "[]"]


def test_completion_of_files_imports_no_policies(folder, monkeypatch):
    monkeypatch.setenv("_GPU_ADMISSION_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "gpu-admission review po")
    monkeypatch.setenv("COMP_CWORD", "2")
    names = {name.partition(".")[0] for name in modules(folder)}
    assert not names & {*HEAVY, "policies", "yaml", "pydantic", "asyncio"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_command_prints_the_script_of_a_shell(invoke, shell):
    done = invoke("completion", shell)
    assert done.exit_code == 0
    assert f"_GPU_ADMISSION_COMPLETE={shell}_complete" in done.stdout


def test_unknown_shell_is_refused(invoke):
    done = invoke("completion", "tcsh")
    assert done.exit_code == 2
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'." in done.stderr


@pytest.mark.parametrize("name", ["$(touch pwned)", "`id`", "a;id", "a b", "~", "a\nb", "x&y", "a>b", "é"])
def test_names_that_a_shell_would_run_are_not_offered(complete, write, name):
    """A shell inserts a value as it is, and files of others have any names."""
    pod = {"name": name, "namespace": name}
    container = {"name": "main", "image": "train", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    objects = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**pod, "namespace": "team-a"},
            "spec": {"containers": [container]},
        },
    ]
    write("pods.json", json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    arguments = ["explain", "--cluster", "pods.json", "-n"]
    assert complete(*arguments, "") == []
    assert complete(*arguments, "team-a", "pod/") == ["file"]


def test_files_that_a_shell_would_run_are_left_to_the_shell(complete, cluster, write):
    write("$(touch pwned).yaml", "")
    files = ["--cluster", cluster, "--cluster", IN_USE]
    assert complete("explain", *files, "-n", "team-a", "") == ["pod/embed", "pod/pretrain"]
