"""`gpu-admission serve` beside a running cluster, as a process of its own."""

import asyncio
import json
import os
import signal
import sys

import pytest

from testbed.ports import free_ports
from webhook.cluster.resources import RESOURCES


@pytest.fixture
async def serve(tmp_path):
    """Start `serve` with a kubeconfig; give the process."""
    started = []

    async def serve(kubeconfig, *options):
        file = tmp_path / "serve.yaml"
        file.write_text(kubeconfig)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "webhook", "serve", "--kubeconfig", str(file), "--drain-delay", "0", *options),
            env={key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")},
            stderr=asyncio.subprocess.PIPE,
            limit=2**20,
        )
        started.append(process)
        return process

    yield serve
    for process in started:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def said(process, start):
    """Read its log up to a message that begins like this, or to its end: its start takes long beside busy processes."""
    while line := await process.stderr.readline():
        if (message := json.loads(line)["message"]).startswith(start):
            return message
    raise AssertionError(f"it ended and never said {start!r}")


async def test_pod_is_converted_by_a_process_that_ends_at_sigterm(serve, sandbox, client_of, gpu_pod, until):
    port, probe_port = free_ports(2)
    url = f"https://localhost:{port}"
    account = sandbox.kubeconfig("system:serviceaccount:gpu-admission:gpu-admission")
    process = await serve(
        account, "--url", url, "--port", str(port), "--probe-port", str(probe_port), "--explain-port", "0"
    )
    await said(process, "serving on port")
    alice = await client_of("alice")

    def published():
        configuration = sandbox.get("MutatingWebhookConfiguration", "gpu-admission")
        return configuration["webhooks"][0]["clientConfig"].get("caBundle")

    await until(published, bool)
    stored = await alice.post(RESOURCES["Pod"].path("team-a"), gpu_pod())
    assert stored["metadata"]["labels"]["gpu-admission.io/managed"] == "true"
    process.send_signal(signal.SIGTERM)
    assert await said(process, "stopped") == "stopped"
    assert await process.wait() == 0


async def test_process_that_waits_for_a_cluster_ends_at_sigterm(serve, sandbox):
    (nowhere,) = free_ports(1)
    nobody = sandbox.kubeconfig().replace(sandbox.url, f"http://127.0.0.1:{nowhere}")
    process = await serve(nobody, "--port", "0", "--probe-port", "0", "--explain-port", "0")
    await said(process, "cached nodes")
    process.send_signal(signal.SIGTERM)
    assert await process.wait() == 0
