"""`gpu-admission preflight` of what the chart renders."""

import asyncio
import json
import os
from importlib.metadata import version

import pytest
import yaml

from testbed.commands import run_command
from webhook.sandbox.server import Sandbox


@pytest.fixture
async def preflight(tmp_path):
    """Runs preflight of objects on a sandbox."""
    sandbox = Sandbox()
    await sandbox.start()
    file = tmp_path / "kubeconfig"
    file.write_text(sandbox.kubeconfig())

    async def preflight(documents):
        arguments = ("preflight", "-f", "-", "--kubeconfig", file, "-o", "json")
        done = await asyncio.to_thread(
            lambda: run_command(*arguments, cwd=tmp_path, environment=os.environ, stdin=yaml.safe_dump_all(documents))
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    yield preflight
    await sandbox.stop()


async def test_chart_can_be_installed(helm, preflight):
    report = await preflight(helm.template())
    assert report["step"] == {"verb": "install", "from": None, "to": version("gpu-admission")}
    warned = [(each["name"], each["what"]) for each in report["checks"] if each["status"] == "warning"]
    assert warned == [
        ("objects", "namespace gpu-admission does not exist, and the manifests do not create it"),
        ("network", "no network plugin is seen that enforces NetworkPolicies"),
    ]
    assert set(report["namespaces"]["entries"]) >= {"convert-pods", "enforce-quota"}
