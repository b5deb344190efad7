"""`gpu-admission cel` on a running cluster."""

from __future__ import annotations

import asyncio

import pytest

from tests.cli.example_sandboxes import example_sandbox
from tests.cli.quota_files import AWAY

HOPPER = 'device.attributes["gpu.nvidia.com"].architecture == "Hopper"'


@pytest.fixture
async def sandbox(tmp_path):
    """A sandbox with the devices of the examples; its kubeconfig is in `sandbox.file`."""
    async with example_sandbox(tmp_path, "cluster", kinds={"ResourceSlice", "DeviceClass"}) as sandbox:
        yield sandbox


@pytest.fixture
def live(sandbox, run):
    """Analyze in the sandbox, in a separate process."""

    async def live(*arguments):
        return await asyncio.to_thread(run, "cel", "--kubeconfig", sandbox.file, *arguments, **AWAY)

    return live


async def test_devices_of_a_running_cluster_are_asked(live, sandbox):
    done = await live("--class", "gpu.nvidia.com", HOPPER)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("the expression, for devices of class gpu.nvidia.com  16 of 39 devices match\n")
    assert {request.verb for request in sandbox.requests} <= {"list", "get"}


async def test_cluster_that_does_not_answer_is_an_error(live, sandbox):
    await sandbox.stop()
    done = await live(HOPPER)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
    await sandbox.start()
