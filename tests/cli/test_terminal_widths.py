"""Every command fits terminals of 80 columns and more, also with long names; narrow ones get no traceback."""

from __future__ import annotations

import asyncio
import re

import click.testing
import pytest

from tests.cli.conftest import EXAMPLES
from tests.cli.doctored_sandbox import DoctoredSandbox
from tests.cli.quota_files import ROOT

NAMESPACE = "drug-discovery-genomics-research-eu-west-2026"
LONG = {
    r"team-a\b": NAMESPACE,
    r"team-preview\b": "speech-and-audio-research-eu-preview",
    r"\b(gpu|cpu)-((h100|a100|t4)-)?(mig-|40gb-)?0(?=\d)": r"\g<0>0.gpu.dc-frankfurt.example.internal-0",
    r"\b(pretrain|embed|chat)\b": r"\1-llama4-405b-instruct-with-tools-launcher",
}
FOLDERS = ("cluster", "cluster-in-use", "cluster-with-operator", "cluster-with-quota")
FILES = {
    "pods": [f"{name}/pod.yaml" for name in ("single-gpu", "misspelt-product", "refused-selector", "quota-exceeded")],
    "changes": ["plan/time-slicing.yaml"],
    "workloads": ["cutover/workloads.yaml", "explain-deployment/deployment.yaml", "too-many-gpus/job.yaml"],
    "claims": ["cel/claim.yaml"],
}
COPIED = re.compile(r"[-+@ ].*[{:]|\s*(kubectl|gpu-admission|helm|check:|back:|for |sh |\$) ?|\$ ")
"""Lines that people paste: commands, YAML and diffs."""
COMMANDS = [
    "usage --cluster all",
    "usage --cluster all --by pod",
    "usage --cluster all --by namespace",
    f"usage --cluster all -n {NAMESPACE}",
    "audit --cluster all",
    "quota --cluster all",
    "quota --cluster all --fit pods --fit workloads -n team-a",
    "explain --cluster all",
    "explain --cluster all pods workloads claims",
    "review --cluster all --no-diff pods workloads claims changes",
    "review --cluster all -q pods",
    "plan --cluster all changes",
    "migrate --prove --cluster all",
    "migrate --cluster all workloads",
    "cutover --cluster all",
    "cel --cluster all claims/cel-claim.yaml",
    'cel --cluster all --class gpu.nvidia.com \'device.attributes["gpu.nvidia.com"].architecture == "Hopper"\'',
    "report --cluster all -o page-with-a-very-long-name-for-the-report-of-this-cluster.html",
    "rules",
    "rules --search driver",
    "rules GA307",
    "rules GA1000",
    "test suite",
    "generate quota --help",
    "explain --help",
    "usage --cluster no-such-folder-with-a-very-long-name-for-the-objects-of-this-cluster-in-europe",
    "usage --cluster all -n no-such-namespace",
    "explain --cluster all pod/no-such-pod",
]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with the objects of the examples, in a cluster whose names are long."""
    folder = tmp_path_factory.mktemp("files")

    def copy(source, target):
        text = source.read_text()
        for pattern, name in LONG.items():
            text = re.sub(pattern, name, text)
        target.parent.mkdir(exist_ok=True)
        target.write_text(text)

    for name in FOLDERS:
        for file in (EXAMPLES / name).glob("*.yaml"):
            copy(file, folder / "all" / f"{name}-{file.name}")
    for name, sources in FILES.items():
        for file in sources:
            copy(EXAMPLES / file, folder / name / file.replace("/", "-"))
    for file in (EXAMPLES / "suite").glob("*.yaml"):
        copy(file, folder / "suite" / file.name)
    return folder


@pytest.fixture
def lines(files, invoke, monkeypatch):
    """The lines that a terminal of so many columns shows of a command, but for those that people paste."""
    monkeypatch.chdir(files)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(click.testing._NamedTextIOWrapper, "isatty", lambda _: True)

    def lines(columns, *arguments):
        monkeypatch.setenv("COLUMNS", str(columns))
        done = invoke(*arguments)
        assert done.exit_code < 3, done.output
        return [line for line in done.output.splitlines() if not COPIED.match(line)]

    return lines


def split(command):
    expression = re.search(r"'(.*)'", command)
    return [*command.partition(" '")[0].split(), *([expression[1]] if expression else [])]


@pytest.mark.parametrize("command", COMMANDS)
def test_lines_fit_the_terminal(lines, command):
    for columns in (80, 100, 160):
        shown = lines(columns, *split(command))
        assert [line for line in shown if len(line) > columns] == []
        assert shown


@pytest.mark.parametrize("command", ["usage --cluster all", "audit --cluster all", "explain --cluster all pods"])
def test_lines_fit_terminals_of_40_columns(lines, command):
    assert max(map(len, lines(40, *split(command)))) <= 40


async def test_lines_about_an_installation_fit_the_terminal(tmp_path, lines):
    sandbox = DoctoredSandbox()
    await sandbox.begin()
    sandbox.remove("ClusterRoleBinding", "gpu-admission-certificates")
    file = tmp_path / "kubeconfig"
    file.write_text(sandbox.kubeconfig())
    for command in ("doctor", "preflight", "apply-webhooks --check --timeout 0", "delete-webhooks"):
        version = [str(ROOT / "deploy" / "install.yaml")] if command.startswith("apply") else []
        shown = await asyncio.to_thread(lines, 80, *command.split(), "--kubeconfig", str(file), *version)
        assert [line for line in shown if len(line) > 80] == []
        assert shown
    await sandbox.stop()
