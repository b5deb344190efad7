"""Credentials that change: rotated tokens, plugins that run again, kubeconfigs with another server."""

import json
import logging
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import yaml
from aiohttp import web

from tests.cluster_client.credentials.accounts import POD
from webhook.cluster.answers import APIError, NoCluster, Unreachable
from webhook.cluster.client import APIClient
from webhook.cluster.credentials import Credentials, find_credentials


@pytest.fixture
def tokens(api):
    """The tokens that the API server takes; others are refused with 401. Their use is noted in `seen`."""

    class Tokens:
        good = {"Bearer one"}  # noqa: RUF012 - replaced by tests
        seen = []  # noqa: RUF012 - new for each test, as the class is

    async def check(server, request, *, is_watch):
        api.faults.append(check)
        Tokens.seen.append(request.headers.get("Authorization"))
        if Tokens.seen[-1] not in Tokens.good:
            unauthorized = {"kind": "Status", "code": 401, "reason": "Unauthorized", "message": "Unauthorized"}
            return web.json_response(unauthorized, status=401)
        return None

    Tokens.seen = []
    api.faults.append(check)
    return Tokens


@pytest.fixture
def plugin(tmp_path):
    """A credential plugin that counts how often it ran: its `exec` entry, and the file of its next answer."""
    answer, runs = tmp_path / "answer.json", tmp_path / "runs"
    runs.write_text("")
    script = tmp_path / "plugin.py"
    script.write_text(
        "import pathlib, sys\n"
        f"with open({str(runs)!r}, 'a') as runs: runs.write('x')\n"
        f"text = pathlib.Path({str(answer)!r}).read_text()\n"
        "sys.stdout.write(text) if text else sys.exit('log in first')\n"
    )

    class Plugin:
        entry = {  # noqa: RUF012 - read only
            "exec": {
                "apiVersion": "client.authentication.k8s.io/v1",
                "command": sys.executable,
                "args": [str(script)],
                "env": None,
                "interactiveMode": "Never",
            }
        }

        @staticmethod
        def says(**status):
            document = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
            answer.write_text(json.dumps(document))

        @staticmethod
        def fails():
            answer.write_text("")

        @staticmethod
        def runs():
            return len(runs.read_text())

    return Plugin


async def test_token_that_was_rotated_is_read_again(api, tokens, connecting, kubeconfig_of, tmp_path):
    (tmp_path / "token").write_text("one")
    async with connecting(kubeconfig_of(api.url, user={"tokenFile": str(tmp_path / "token")})) as client:
        await client.get("/api/v1/nodes")
        (tmp_path / "token").write_text("two")
        tokens.good = {"Bearer two"}
        await client.get("/api/v1/nodes")
    assert tokens.seen == ["Bearer one", "Bearer one", "Bearer two"]


async def test_watch_too_is_begun_with_a_token_read_again(api, tokens, connecting, kubeconfig_of, tmp_path):
    (tmp_path / "token").write_text("old")
    async with connecting(kubeconfig_of(api.url, user={"tokenFile": str(tmp_path / "token")})) as client:
        (tmp_path / "token").write_text("one")
        assert [
            event async for event in client.watch("/api/v1/nodes", {"resourceVersion": "10000"}, read_timeout=5)
        ] == []
    assert tokens.seen == ["Bearer old", "Bearer one"]


async def test_pods_token_is_read_again_as_it_rotates(api, tokens, service_account):
    tokens.good = {"Bearer of-the-pod", "Bearer one"}
    of_pod = await find_credentials(environ=POD, service_account=service_account)

    async def read():
        reading = await of_pod.read()
        return replace(reading, access=replace(reading.access, url=api.url, ca=None))

    credentials = Credentials(read)
    await credentials.load()
    client = APIClient(credentials)
    await client.get("/api/v1/nodes")
    (service_account / "token").write_text("one")
    await client.get("/api/v1/nodes")
    await client.close()
    assert tokens.seen == ["Bearer of-the-pod", "Bearer one"]


async def test_pods_authority_is_read_again_with_its_credentials(service_account):
    credentials = await find_credentials(environ=POD, service_account=service_account)
    (service_account / "ca.crt").write_text("another")
    assert await credentials.renew(credentials.reading)
    assert credentials.access.ca == b"another"


async def test_token_that_stays_refused_is_not_read_for_every_request(api, tokens, connecting, kubeconfig_of, plugin):
    plugin.says(token="refused")
    async with connecting(kubeconfig_of(api.url, user=plugin.entry)) as client:
        for _ in range(5):
            with pytest.raises(APIError, match=r"^Unauthorized$"):
                await client.get("/api/v1/nodes")
    assert plugin.runs() == 2


async def test_plugin_runs_once_for_a_token_without_an_end(api, tokens, connecting, kubeconfig_of, plugin):
    plugin.says(token="one")
    async with connecting(kubeconfig_of(api.url, user=plugin.entry)) as client:
        for _ in range(3):
            await client.get("/api/v1/nodes")
    assert (plugin.runs(), tokens.seen) == (1, ["Bearer one"] * 3)


async def test_plugin_runs_again_before_its_token_expires(write, kubeconfig_of, plugin):
    now = datetime(2026, 1, 1, tzinfo=UTC)
    moments, seconds = [now], [0.0]
    plugin.says(token="one", expirationTimestamp=(now + timedelta(minutes=10)).isoformat())
    found = await find_credentials(write(kubeconfig_of("http://here", user=plugin.entry)), environ={})
    credentials = Credentials(found.read, clock=lambda: seconds[0], now=lambda: moments[0])
    await credentials.load()
    moments[0] += timedelta(minutes=8)
    assert await credentials.authorization() == "Bearer one"
    plugin.says(token="two", expirationTimestamp=(now + timedelta(minutes=20)).isoformat())
    moments[0] += timedelta(minutes=1, seconds=1)
    assert await credentials.authorization() == "Bearer two"


async def test_plugin_that_fails_says_what_it_printed(write, kubeconfig_of, plugin):
    plugin.fails()
    file = write(kubeconfig_of("http://here", user=plugin.entry))
    with pytest.raises(NoCluster) as caught:
        await find_credentials(file, environ={})
    assert str(caught.value) == f"cannot use the kubeconfig {file}: exec: process returned 1. log in first."


async def test_plugin_that_fails_later_leaves_the_credentials_as_they_were(
    api, tokens, connecting, kubeconfig_of, plugin, caplog
):
    plugin.says(token="old")
    async with connecting(kubeconfig_of(api.url, user=plugin.entry)) as client:
        plugin.fails()
        with pytest.raises(APIError):
            await client.get("/api/v1/nodes")
    assert any(message.startswith("cannot read the credentials again") for message in caplog.messages)


async def test_kubeconfig_that_changed_its_server_is_followed(
    api, tokens, api_serving, connecting, kubeconfig_of, tmp_path
):
    async with api_serving() as moved, connecting(kubeconfig_of(api.url, user={"token": "old"})) as client:
        (tmp_path / "kubeconfig").write_text(yaml.safe_dump(kubeconfig_of(moved.url)))
        await client.get("/api/v1/nodes")
        assert client.url == moved.url
        assert len(moved.requests) == 1


async def test_pods_token_that_cannot_be_read_for_a_moment_is_kept(service_account, caplog):
    credentials = await find_credentials(environ=POD, service_account=service_account)
    assert await credentials.authorization() == "Bearer of-the-pod"

    (service_account / "token").unlink()
    assert await credentials.authorization() == "Bearer of-the-pod"
    assert caplog.record_tuples[-1][1] == logging.WARNING


async def test_invalid_certificate_in_a_kubeconfig_is_refused(connecting, kubeconfig_of, tmp_path):
    ca = tmp_path / "ca.crt"
    ca.write_text("no certificate")
    with pytest.raises(NoCluster, match=r"^cannot use the certificates for https://here: "):
        async with connecting(kubeconfig_of("https://here", {"certificate-authority": str(ca)})):
            pass


async def test_error_about_credentials_does_not_say_unreachable():
    assert not issubclass(NoCluster, Unreachable)
