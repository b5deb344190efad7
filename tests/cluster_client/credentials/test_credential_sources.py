"""Credentials of a pod and of kubeconfigs, and the errors of unusable ones."""

import base64

import pytest
import yaml

from tests.cluster_client.credentials.accounts import CERTIFICATE, POD
from webhook.cluster.answers import NoCluster
from webhook.cluster.credentials import find_credentials


async def test_pod_is_recognised_by_its_environment(service_account):
    credentials = await find_credentials(environ=POD, service_account=service_account)
    assert credentials.access.url == "https://[fd00::1]:443"
    assert credentials.access.ca == CERTIFICATE.strip().encode()
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


@pytest.mark.parametrize("missing", ["token", "ca.crt"])
async def test_pod_without_a_service_account_says_where_to_look(service_account, missing):
    (service_account / missing).unlink()
    with pytest.raises(NoCluster) as caught:
        await find_credentials(environ=POD, service_account=service_account)
    assert str(caught.value) == (
        "check automountServiceAccountToken of the pod and of its ServiceAccount: "
        f"cannot read {service_account / missing}: No such file or directory"
    )


@pytest.mark.parametrize("empty", ["token", "ca.crt"])
async def test_empty_file_of_a_service_account_is_named(service_account, empty):
    (service_account / empty).write_text("\n")
    with pytest.raises(NoCluster, match=rf"ServiceAccount: {service_account / empty} is empty$"):
        await find_credentials(environ=POD, service_account=service_account)


@pytest.mark.parametrize(
    ("environ", "url"),
    [
        ({"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}, "https://10.96.0.1:443"),
        ({"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}, "https://[fd00::1]:6443"),
        ({"KUBERNETES_SERVICE_HOST": "api.example.com", "KUBERNETES_SERVICE_PORT": "8443"}, "https://api.example.com:8443"),
    ],
)  # fmt: skip
async def test_environment_of_a_pod_is_the_address(service_account, environ, url):
    assert (await find_credentials(environ=environ, service_account=service_account)).access.url == url


@pytest.mark.parametrize(
    ("port", "why"),
    [
        ("", "set KUBERNETES_SERVICE_PORT: KUBERNETES_SERVICE_HOST is set, as in a pod, but no port"),
        ("https", "the server 'https://[fd00::1]:https' must be a URL that begins with https:// or http://"),
    ],
)
async def test_environment_of_a_pod_without_a_port_is_refused(service_account, port, why):
    with pytest.raises(NoCluster) as caught:
        await find_credentials(environ={**POD, "KUBERNETES_SERVICE_PORT": port}, service_account=service_account)
    assert str(caught.value) == why


async def test_proxy_of_the_environment_is_used_in_a_pod(service_account):
    environ = {**POD, "HTTPS_PROXY": "http://p:1"}
    assert (await find_credentials(environ=environ, service_account=service_account)).access.proxy == "http://p:1"


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
