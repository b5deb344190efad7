"""The examples in the help of the commands: at least three each, and those that need no cluster work."""

from __future__ import annotations

import re
import shutil
from inspect import cleandoc

import pytest

from tests.cli.quota_files import EXAMPLES, ROOT
from webhook.cli import COMMANDS, find_command

LIVE = (
    "serve",
    "sandbox",
    "audit",
    "cel",
    "plan",
    "quota",
    "usage",
    "report",
    "cutover",
    "snapshot",
    "preflight",
    "doctor",
    "apply-webhooks",
    "delete-webhooks",
)
"""Commands that read or serve a cluster, unless --cluster names files; a server with files would not end."""
NOT_RUN = re.compile(r"gpu-admission (serve|sandbox) |my-examples|less$|<\(")
"""What does not end, needs a terminal or another shell, or names what only the reader has."""
EXIT_CODES = {
    "gpu-admission audit --cluster cluster/": 1,
    "gpu-admission cutover --cluster cluster/": 1,
    "gpu-admission explain --cluster cluster/ -n team-a pod/train": 1,
    "gpu-admission plan --cluster cluster/ time-slicing.yaml": 1,
    "gpu-admission usage --cluster cluster/": 1,
}
"""The exit codes other than 0: the pod of the workplace escaped conversion and tolerates no taint, claims are unknown, and so
is which nodes use a ConfigMap without a ClusterPolicy."""
HELM = """\
#!/bin/sh
cat examples/single-gpu/pod.yaml
"""
SUITE = """\
apiVersion: test.gpu-admission.io/v1alpha1
kind: Suite
cluster: [../cluster]
cases:
- {name: a MIG device, file: ../examples/mig/pod.yaml, expect: {change: converted}}
"""


def examples_of(name):
    """The command lines in the help of a command."""
    text = cleandoc(find_command(name).help)
    return re.findall(r"^  (?=.*\bgpu-admission\b)(\S.*)$", text, re.MULTILINE)


def needs_a_cluster(line):
    command = re.findall(r"gpu-admission ([\w-]+)", line)[-1]
    if line == "gpu-admission explain":
        return True
    return "--cluster" not in line and (
        command in LIVE or "--live" in line or "--context" in line or "pod train" in line or "/train" in line
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_three_examples(name):
    assert len([line for line in examples_of(name) if f"gpu-admission {name}" in line]) >= 3


@pytest.fixture
def workplace(folder, write, pod):
    """A folder with what the examples name, where helm prints a manifest."""
    for name in ("examples", "deploy"):
        (folder / name).symlink_to(ROOT / name)
    for name in ("manifests", "chart"):
        (folder / name).symlink_to(EXAMPLES / "single-gpu")
    shutil.copytree(EXAMPLES / "cluster", folder / "cluster")
    write("cluster/pods.yaml", pod())
    shutil.copy(EXAMPLES / "cluster-with-operator" / "operator.yaml", folder / "cluster")
    for name in ("monday", "friday"):
        shutil.copytree(folder / "cluster", folder / name)
    for name, target in (
        ("pod.yaml", "single-gpu/pod.yaml"),
        ("cluster.yaml", "cluster/namespaces.yaml"),
        ("claim.yaml", "claim-unguarded-selector/guarded.yaml"),
        ("quota.yaml", "cluster-with-quota/gpuquotas.yaml"),
        ("time-slicing.yaml", "plan/time-slicing.yaml"),
    ):
        (folder / name).symlink_to(EXAMPLES / target)
    write("policies/team-a.yaml", SUITE)
    (folder / ".config/fish/completions").mkdir(parents=True)
    write("bin/helm", HELM)
    (folder / "bin/helm").chmod(0o755)
    return folder


RUN = [line for name in COMMANDS for line in examples_of(name) if not (needs_a_cluster(line) or NOT_RUN.search(line))]


def test_exit_codes_are_those_of_examples_that_are_run():
    assert {*EXIT_CODES} <= {*RUN}


def test_most_commands_have_examples_that_are_run():
    not_run = {"serve", "sandbox", "snapshot", "preflight", "doctor", "apply-webhooks", "delete-webhooks"}
    assert {re.search(r"gpu-admission ([\w-]+)", line)[1] for line in RUN} >= {*COMMANDS} - not_run


@pytest.mark.parametrize("line", RUN)
@pytest.mark.usefixtures("workplace")
def test_example_works(run_line, line):
    done = run_line(line)
    assert done.returncode == EXIT_CODES.get(line, 0), done.stderr
    assert "Error: " not in done.stderr
