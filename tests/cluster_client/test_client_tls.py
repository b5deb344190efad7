"""TLS to the API server: trusted authorities, client certificates, and certificates that change."""

import base64
import ssl
from datetime import UTC, datetime, timedelta

import pytest
import yaml
from aiohttp import web

from certs import issue_serving, make_authority
from testbed.client_certificates import issue_client
from webhook.cluster.answers import NoCluster, Unreachable, Untrusted

NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def authority():
    return make_authority("cluster", now=NOW)


def context_for(pair, folder, client_ca=None):
    certificate, key = folder / "serving.crt", folder / "serving.key"
    certificate.write_bytes(pair.certificate_pem)
    key.write_bytes(pair.key_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    if client_ca is not None:
        context.load_verify_locations(cadata=client_ca.certificate_pem.decode())
        context.verify_mode = ssl.CERT_REQUIRED
    return context


@pytest.fixture
def secured(serving, tmp_path):
    """Serve over TLS; answers with the common name of the client's certificate."""

    async def answer(request):
        shown = request.transport.get_extra_info("peercert") or {}
        names = [value for part in shown.get("subject", ()) for name, value in part if name == "commonName"]
        return web.json_response({"client": names})

    return lambda authority, *names, client_ca=None: serving(
        answer, context_for(issue_serving(authority, names or ("127.0.0.1",), now=NOW), tmp_path, client_ca)
    )


def data(pem):
    return base64.b64encode(pem).decode()


def trusting(authority, **more):
    return {"certificate-authority-data": data(authority.certificate_pem), **more}


async def test_authority_of_the_kubeconfig_is_trusted(secured, authority, connecting, kubeconfig_of):
    async with secured(authority) as url, connecting(kubeconfig_of(url, trusting(authority))) as client:
        assert await client.get("/version") == {"client": []}


async def test_client_certificate_says_who_we_are(secured, authority, connecting, kubeconfig_of):
    me = issue_client(authority, "me", now=NOW)
    user = {"client-certificate-data": data(me.certificate_pem), "client-key-data": data(me.key_pem)}
    async with (
        secured(authority, client_ca=authority) as url,
        connecting(kubeconfig_of(url, trusting(authority), user)) as client,
    ):
        assert await client.get("/version") == {"client": ["me"]}


async def test_other_authority_is_not_trusted(secured, authority, connecting, kubeconfig_of):
    other = make_authority("other", now=NOW)
    async with secured(authority) as url, connecting(kubeconfig_of(url, trusting(other))) as client:
        with pytest.raises(Untrusted) as caught:
            await client.get("/version")
    text = str(caught.value)
    assert text.startswith(f"GET /version at {url}: the server's certificate is not trusted: ")
    assert "CERTIFICATE_VERIFY_FAILED" in text


async def test_name_that_the_certificate_lacks_is_not_trusted(secured, authority, connecting, kubeconfig_of):
    async with secured(authority, "kubernetes") as url, connecting(kubeconfig_of(url, trusting(authority))) as client:
        with pytest.raises(Untrusted, match=r"not valid for '127\.0\.0\.1'"):
            await client.get("/version")


async def test_tls_server_name_is_what_the_certificate_must_have(secured, authority, connecting, kubeconfig_of):
    cluster = trusting(authority, **{"tls-server-name": "kubernetes"})
    async with secured(authority, "kubernetes") as url, connecting(kubeconfig_of(url, cluster)) as client:
        assert await client.get("/version") == {"client": []}


async def test_verification_can_be_skipped(secured, authority, connecting, kubeconfig_of):
    async with (
        secured(authority, "kubernetes") as url,
        connecting(kubeconfig_of(url, {"insecure-skip-tls-verify": True})) as client,
    ):
        assert await client.get("/version") == {"client": []}


async def test_rotated_authority_is_read_again(secured, authority, connecting, kubeconfig_of, tmp_path):
    ca = tmp_path / "ca.crt"
    ca.write_bytes(make_authority("before", now=NOW - timedelta(days=1)).certificate_pem)
    async with secured(authority) as url, connecting(kubeconfig_of(url, {"certificate-authority": str(ca)})) as client:
        ca.write_bytes(authority.certificate_pem)
        assert await client.get("/version") == {"client": []}


async def test_client_certificate_that_changed_is_used_after_401(
    serving, authority, connecting, kubeconfig_of, tmp_path
):
    async def only_new(request):
        subject = request.transport.get_extra_info("peercert")["subject"]
        if ("commonName", "new") in [pair for part in subject for pair in part]:
            return web.json_response({"welcome": True})
        status = {"kind": "Status", "code": 401, "reason": "Unauthorized", "message": "Unauthorized"}
        return web.json_response(status, status=401)

    def write(name):
        pair = issue_client(authority, name, now=NOW)
        user = {"client-certificate-data": data(pair.certificate_pem), "client-key-data": data(pair.key_pem)}
        return kubeconfig_of(url, trusting(authority), user)

    context = context_for(issue_serving(authority, ("127.0.0.1",), now=NOW), tmp_path, authority)
    async with serving(only_new, context) as url, connecting(write("old")) as client:
        (tmp_path / "kubeconfig").write_text(yaml.safe_dump(write("new")))
        assert await client.get("/version") == {"welcome": True}


async def test_plain_http_where_tls_is_spoken_breaks_off(secured, authority, connecting, kubeconfig_of):
    async with secured(authority) as url, connecting(kubeconfig_of(url.replace("https", "http"))) as client:
        with pytest.raises(Unreachable):
            await client.get("/version")


async def test_error_says_that_the_server_speaks_plain_http(api, connecting, kubeconfig_of):
    async with connecting(kubeconfig_of(api.url.replace("http", "https"))) as client:
        with pytest.raises(Unreachable, match=r"at https://127\.0\.0\.1:\d+: no connection: "):
            await client.get("/version")


async def test_key_of_another_certificate_is_refused(authority, connecting, kubeconfig_of):
    one, other = issue_client(authority, "one", now=NOW), issue_client(authority, "other", now=NOW)
    user = {"client-certificate-data": data(one.certificate_pem), "client-key-data": data(other.key_pem)}
    with pytest.raises(NoCluster, match=r"^cannot use the certificates for https://here: .*KEY_VALUES_MISMATCH"):
        async with connecting(kubeconfig_of("https://here", user=user)):
            pass
