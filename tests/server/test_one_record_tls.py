"""The small buffer of TLS, which rests on a private class of asyncio, on each Python that is supported."""

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from certs import issue_serving, make_authority
from release.plugin import PYTHONS

ROOT = Path(__file__).parents[2]

ECHO = """\
import asyncio, ssl, sys
from webhook.server.guarded_connection import OneRecordTLS

class Echo(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.transport.write(data)

async def main(pair, authority):
    loop = asyncio.get_running_loop()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair)
    served = []

    def accept():
        options = {"server_side": True, "ssl_handshake_timeout": 5, "ssl_shutdown_timeout": 5}
        served.append(OneRecordTLS(loop, Echo(), context, loop.create_future(), **options))
        return served[-1]

    server = await loop.create_server(accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    client = ssl.create_default_context(cafile=authority)
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname="localhost")
    sent = bytes(range(256)) * 400
    writer.write(sent)
    assert await reader.readexactly(len(sent)) == sent
    writer.close()
    await writer.wait_closed()
    server.close()
    print(len(served[0]._ssl_buffer), served[0]._incoming_high_water)

asyncio.run(main(*sys.argv[1:]))
"""


def interpreter(python):
    """The command of this version of Python; None where it is not installed."""
    if sys.version_info[:2] == tuple(map(int, python.split("."))):
        return sys.executable
    command = f"python{python}"
    try:
        subprocess.run([command, "-c", "import ssl"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return command


@pytest.mark.parametrize("python", PYTHONS)
def test_tls_has_buffers_of_one_record(python, tmp_path):
    command = interpreter(python)
    if command is None:
        pytest.skip(f"python{python} is not installed")
    now = datetime.now(UTC)
    authority = make_authority("authority", now=now)
    pair = issue_serving(authority, ["localhost"], now=now)
    (tmp_path / "pair.pem").write_bytes(pair.key_pem + pair.certificate_pem)
    (tmp_path / "authority.pem").write_bytes(authority.certificate_pem)
    done = subprocess.run(
        [command, "-c", ECHO, tmp_path / "pair.pem", tmp_path / "authority.pem"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout == "16384 20480\n", done.stderr
