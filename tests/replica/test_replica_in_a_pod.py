"""A replica with the files and variables that the kubelet gives to a pod."""

import asyncio
import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from certs import issue_serving, make_authority
from tests.replica.conftest import ACCOUNT

ROOT = Path(__file__).parents[2]

IN_A_POD = """\
import asyncio, json, sys
from pathlib import Path
from tests.replica.conftest import Running, until
from webhook.cli.serve.server_start import APIClient, Replica, ReplicaConfig

async def main(folder, port):
    environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": port}
    client = await APIClient.connect(environ=environ, service_account=Path(folder))
    replica = Replica(client, ReplicaConfig(url="https://localhost:1", port=0, probe_port=0, explain_port=0, drain_delay=0))
    running = Running(replica, await replica.start())
    readiness = await until(running.readiness, lambda reported: reported["ready"])
    await replica.close()
    print(json.dumps([readiness["ready"], client.url, sorted(name for name in sys.modules if "kubernetes_asyncio" in name)]))

asyncio.run(main(*sys.argv[1:]))
"""


async def test_replica_in_a_pod_is_ready_without_importing_the_library(sandbox, tmp_path):
    now = datetime.now(UTC)
    authority = make_authority("cluster", now=now)
    await sandbox.stop()
    await sandbox.start(tls=issue_serving(authority, ["127.0.0.1"], now=now), authority=authority.certificate_pem)
    (tmp_path / "token").write_text(ACCOUNT)
    (tmp_path / "ca.crt").write_bytes(authority.certificate_pem)
    command = [sys.executable, "-c", IN_A_POD, tmp_path, sandbox.url.rpartition(":")[2]]
    done = await asyncio.to_thread(subprocess.run, command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [True, sandbox.url, []]
