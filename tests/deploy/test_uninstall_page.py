"""docs/uninstall.md removes from a cluster what install.yaml put there, and our labels."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from testbed import libyaml

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "uninstall.md").read_text()
NEEDS_A_WAITING_POD = "kubectl patch pod"

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")


@pytest.fixture
def cluster(tmp_path):
    """The variables with which programs reach a sandbox where gpu-admission is installed."""
    config = tmp_path / "kubeconfig"
    command = [sys.executable, "-m", "webhook", "sandbox", "examples/cluster", "deploy/install.yaml", "--port=0"]
    command.append(f"--kubeconfig-out={config}")
    variables = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    with subprocess.Popen(command, cwd=ROOT, env=variables, stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        yield {**variables, "KUBECONFIG": str(config)}
        process.kill()


def test_commands_remove_all_that_was_installed(cluster):
    def kubectl(*arguments):
        command = ["kubectl", *arguments]
        return subprocess.run(command, env=cluster, capture_output=True, text=True, check=True).stdout

    text = (ROOT / "deploy" / "install.yaml").read_text()
    kinds = sorted({document["kind"] for document in libyaml.load_all(text) if document})
    commands = "".join(re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)).replace("\\\n", " ").splitlines()
    script = "\n".join(line for line in commands if not line.startswith(NEEDS_A_WAITING_POD))
    done = subprocess.run(
        ["bash", "-e", "-c", script], cwd=ROOT, env=cluster, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for kind in kinds:
        assert kubectl("get", kind, "-A", "-l", "app.kubernetes.io/name=gpu-admission", "-o", "name") == "", kind
    namespaces = json.loads(kubectl("get", "namespaces", "-o", "json"))["items"]
    labels = {label for each in namespaces for label in each["metadata"]["labels"]}
    assert not any(label.startswith("gpu-admission.io/") for label in labels)
