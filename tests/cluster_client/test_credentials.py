"""Credentials: of a pod, of kubeconfigs of every kind, and what they say when they cannot be used."""

import base64
import json
import logging
import sys
from datetime import UTC, datetime, timedelta

import pytest
import yaml
from aiohttp import web

from webhook.cluster.client import APIClient
from webhook.cluster.credentials import Credentials, find_credentials
from webhook.cluster.errors import APIError, NoCluster, Unreachable
from webhook.cluster.kubernetes_config import kubernetes_config

CERTIFICATE = "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"
POD = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture
def service_account(tmp_path):
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    (folder / "token").write_text("of-the-pod\n")
    (folder / "ca.crt").write_text(CERTIFICATE)
    return folder


@pytest.fixture
def write(tmp_path):
    """Write a kubeconfig; its path."""

    def file(document, name="kubeconfig"):
        path = tmp_path / name
        path.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
        return str(path)

    return file


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


async def test_pod_is_recognised_by_its_environment(service_account):
    credentials = await find_credentials(environ=POD, service_account=service_account)
    assert credentials.access.url == "https://[fd00::1]:443"
    assert credentials.access.ca == CERTIFICATE.encode()
    assert await credentials.authorization() == "Bearer of-the-pod"


async def test_kubeconfig_goes_before_the_pod(service_account, write, kubeconfig_of):
    environ = {**POD, "KUBECONFIG": write(kubeconfig_of("http://chosen"))}
    credentials = await find_credentials(environ=environ, service_account=service_account)
    assert credentials.access.url == "http://chosen"


async def test_kubeconfig_that_is_named_goes_before_all(write, kubeconfig_of):
    environ = {"KUBECONFIG": write(kubeconfig_of("http://other"), "other")}
    credentials = await find_credentials(write(kubeconfig_of("http://named")), environ=environ)
    assert credentials.access.url == "http://named"


async def test_kubeconfig_at_home_is_the_last_resort(tmp_path, kubeconfig_of):
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text(yaml.safe_dump(kubeconfig_of("http://home")))
    credentials = await find_credentials(environ={"HOME": str(tmp_path)})
    assert credentials.access.url == "http://home"


async def test_nothing_at_all_says_what_to_set(tmp_path):
    with pytest.raises(NoCluster) as caught:
        await find_credentials(environ={"HOME": str(tmp_path)})
    assert str(caught.value) == (
        "no cluster configured: not in a pod (KUBERNETES_SERVICE_HOST is not set), KUBECONFIG is not set, and "
        f"{tmp_path}/.kube/config does not exist; set KUBECONFIG to a kubeconfig file"
    )


@pytest.mark.parametrize(
    ("missing", "why"),
    [("token", "Service token file does not exist."), ("ca.crt", "Service certification file does not exists.")],
)
async def test_pod_without_a_service_account_says_where_to_look(service_account, missing, why):
    (service_account / missing).unlink()
    with pytest.raises(NoCluster) as caught:
        await find_credentials(environ=POD, service_account=service_account)
    assert str(caught.value) == (
        f"cannot use the pod's ServiceAccount in {service_account}: {why} "
        "Check automountServiceAccountToken of the pod and of its ServiceAccount."
    )


async def test_context_can_be_chosen(write, kubeconfig_of):
    document = kubeconfig_of("http://here")
    document["contexts"].append({"name": "there", "context": {"cluster": "there", "user": "me"}})
    document["clusters"].append({"name": "there", "cluster": {"server": "http://there"}})
    credentials = await find_credentials(write(document), "there", environ={})
    assert credentials.access.url == "http://there"


async def test_kubeconfigs_are_merged(write, kubeconfig_of):
    first = write({"current-context": "here", "clusters": [], "users": [], "contexts": []}, "first")
    second = write(kubeconfig_of("http://second"), "second")
    credentials = await find_credentials(f"{first}:{second}:/nowhere", environ={})
    assert credentials.access.url == "http://second"


@pytest.mark.parametrize(
    ("user", "header"),
    [
        ({"token": "t"}, "Bearer t"),
        ({"username": "u", "password": "p"}, "Basic " + base64.b64encode(b"u:p").decode()),
        ({}, ""),
    ],
    ids=["token", "password", "nobody"],
)
async def test_user_becomes_a_header(write, kubeconfig_of, user, header):
    credentials = await find_credentials(write(kubeconfig_of("https://here", user=user)), environ={})
    assert await credentials.authorization() == header


async def test_token_file_is_read_beside_the_kubeconfig(write, kubeconfig_of, tmp_path):
    (tmp_path / "token").write_text("from-file\n")
    credentials = await find_credentials(write(kubeconfig_of("http://here", user={"tokenFile": "token"})), environ={})
    assert await credentials.authorization() == "Bearer from-file"


async def test_cluster_entry_says_how_to_connect(write, kubeconfig_of):
    cluster = {
        "proxy-url": "http://proxy:3128",
        "tls-server-name": "kubernetes",
        "insecure-skip-tls-verify": True,
        "certificate-authority-data": base64.b64encode(CERTIFICATE.encode()).decode(),
    }
    access = (await find_credentials(write(kubeconfig_of("https://here/", cluster)), environ={})).access
    assert (access.url, access.proxy, access.server_name) == ("https://here", "http://proxy:3128", "kubernetes")
    assert (access.verify, access.ca) == (False, CERTIFICATE.encode())


async def test_proxy_of_the_environment_is_used(write, kubeconfig_of):
    file = write(kubeconfig_of("https://here.example.com"))
    assert (await find_credentials(file, environ={"HTTPS_PROXY": "http://p:1"})).access.proxy == "http://p:1"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda d: d.pop("current-context"), "Invalid kube-config file. Expected key current-context in {file}."),
        (
            lambda d: d.update({"current-context": "gone"}),
            "Invalid kube-config file. Expected object with name gone in {file}/contexts list.",
        ),
        (
            lambda d: d["contexts"][0]["context"].update(cluster="gone"),
            "Invalid kube-config file. Expected object with name gone in {file}/clusters list.",
        ),
        (
            lambda d: d["contexts"][0]["context"].pop("user"),
            "context 'here' has no user; add an entry under users, and its name to the context",
        ),
        (
            lambda d: d["contexts"][0]["context"].update(user="gone"),
            "context 'here' has the user 'gone', which is not found under users",
        ),
        (lambda d: d["users"][0].update(user={"client-certificate": "/no/such.crt"}), "File does not exists: /no/such.crt."),
        (lambda d: d["users"][0].update(user={"tokenFile": "/no/such"}), "[Errno 2] No such file or directory: '/no/such'."),
        (lambda d: d["users"][0].update(user={"exec": {"command": "x"}}), "exec: malformed request. missing key 'apiVersion'."),
    ],
)  # fmt: skip
async def test_kubeconfig_that_cannot_be_used_says_why(write, kubeconfig_of, change, why):
    document = kubeconfig_of("https://here")
    change(document)
    file = write(document)
    with pytest.raises(NoCluster) as caught:
        await find_credentials(file, environ={})
    assert str(caught.value) == f"cannot use the kubeconfig {file}: {why.format(file=file)}"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda d: d["clusters"][0]["cluster"].pop("server"), "invalid kubeconfig (AssertionError)."),
        (lambda d: d["clusters"][0].update(cluster=5), "invalid kubeconfig (TypeError)."),
        (lambda d: d["users"][0].pop("user"), "Invalid kube-config file. Expected key user in {file}/{{...}}."),
    ],
)
async def test_kubeconfig_with_a_wrong_shape_is_not_quoted(write, kubeconfig_of, change, why):
    document = kubeconfig_of("https://here")
    document["users"][0]["token"] = "top-secret"
    change(document)
    file = write(document)
    with pytest.raises(NoCluster) as caught:
        await find_credentials(file, environ={})
    assert str(caught.value) == f"cannot use the kubeconfig {file}: {why.format(file=file)}"


@pytest.mark.parametrize(
    ("cluster", "why"),
    [
        ({"proxy-url": 5}, "the proxy-url of the cluster must be a URL that begins with https:// or http://"),
        (
            {"proxy-url": "socks5://p:1"},
            "the proxy-url of the cluster must be a URL that begins with https:// or http://",
        ),
        ({"tls-server-name": 5}, "the tls-server-name of the cluster must be a string"),
    ],
)
async def test_way_to_the_cluster_that_cannot_be_gone_is_refused(write, kubeconfig_of, cluster, why):
    with pytest.raises(NoCluster) as caught:
        await find_credentials(write(kubeconfig_of("https://here", cluster)), environ={})
    assert str(caught.value) == why


async def test_secrets_of_a_kubeconfig_are_not_logged(write, kubeconfig_of, caplog):
    user = {"password": "top-secret", "exec": {"apiVersion": "v1", "command": "x", "env": [{"name": "A"}]}}
    with pytest.raises(NoCluster) as caught:
        await find_credentials(write(kubeconfig_of("https://here", user=user)), environ={})
    assert "top-secret" not in str(caught.value) + caplog.text


async def test_server_without_a_scheme_is_no_url(write, kubeconfig_of):
    with pytest.raises(
        NoCluster, match=r"^the server '10\.0\.0\.1:6443' must be a URL that begins with https:// or http://$"
    ):
        await find_credentials(write(kubeconfig_of("10.0.0.1:6443")), environ={})


@pytest.mark.parametrize("text", ["", "[]", "a: [", "\0", "just text"], ids=repr)
async def test_file_that_is_no_kubeconfig_is_refused(write, text):
    with pytest.raises(NoCluster, match="cannot use"):
        await find_credentials(write(text), environ={})


async def test_file_that_does_not_exist_is_named():
    with pytest.raises(NoCluster, match=r"^kubeconfig file /no/such/file not found$"):
        await find_credentials("/no/such/file", environ={})


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


async def test_pods_token_is_read_again_when_refused(api, tokens, service_account):
    library = kubernetes_config()

    async def read():
        configuration = library.configuration()
        library.in_cluster_loader(
            str(service_account / "token"), str(service_account / "ca.crt"), environ=POD
        ).load_and_set(configuration)
        configuration.host, configuration.ssl_ca_cert = api.url, None
        return configuration, None

    credentials = Credentials(read, environ={})
    await credentials.load()
    client = APIClient(credentials)
    (service_account / "token").write_text("one")
    await client.get("/api/v1/nodes")
    await client.close()
    assert tokens.seen == ["Bearer of-the-pod", "Bearer one"]


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
    credentials = Credentials(found._read, environ={}, clock=lambda: seconds[0], now=lambda: moments[0])
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

    async def unreadable(identifier):
        raise OSError(2, "No such file or directory")

    credentials._reading.configuration.get_api_key_with_prefix = unreadable
    assert await credentials.authorization() == "Bearer of-the-pod"
    assert caplog.record_tuples[-1][1] == logging.WARNING


async def test_certificate_of_the_kubeconfig_that_is_none_is_refused(connecting, kubeconfig_of, tmp_path):
    ca = tmp_path / "ca.crt"
    ca.write_text("no certificate")
    with pytest.raises(NoCluster, match=r"^cannot use the certificates for https://here: "):
        async with connecting(kubeconfig_of("https://here", {"certificate-authority": str(ca)})):
            pass


async def test_unreachable_is_not_said_of_credentials():
    assert not issubclass(NoCluster, Unreachable)
