"""Which proxy the environment asks for."""

import pytest
from aiohttp import web

from webhook.cluster.answers import Unreachable
from webhook.cluster.credentials import proxy_for

BOTH = {"HTTPS_PROXY": "http://secure:1", "HTTP_PROXY": "http://plain:1"}


@pytest.mark.parametrize(
    ("url", "environ", "proxy"),
    [
        ("https://api.example.com:6443", {}, None),
        ("https://api.example.com:6443", BOTH, "http://secure:1"),
        ("http://api.example.com", BOTH, "http://plain:1"),
        ("https://api.example.com", {"https_proxy": "small:3128"}, "http://small:3128"),
        ("https://localhost:6443", BOTH, None),
        ("https://127.0.0.1:6443", BOTH, None),
        ("https://[::1]:6443", BOTH, None),
    ],
)
def test_proxy_is_that_of_the_scheme(url, environ, proxy):
    assert proxy_for(url, environ) == proxy


@pytest.mark.parametrize(
    ("exempt", "url", "direct"),
    [
        ("*", "https://api.example.com", True),
        ("api.example.com", "https://api.example.com", True),
        ("example.com", "https://api.example.com", True),
        (".example.com", "https://api.example.com", True),
        (".example.com", "https://example.com", False),
        ("*.example.com", "https://api.example.com", True),
        ("ample.com", "https://example.com", False),
        ("EXAMPLE.com", "https://example.com", True),
        ("example.com:6443", "https://example.com:6443", True),
        ("example.com:6443", "https://example.com", False),
        ("10.0.0.0/8", "https://10.96.0.1:443", True),
        ("10.0.0.0/8", "https://11.0.0.1", False),
        ("10.0.0.0/8", "https://api.example.com", False),
        ("10.96.0.1", "https://10.96.0.1", True),
        ("10.96.0.1:443", "https://10.96.0.1", True),
        ("fd00::/8", "https://[fd00::1]:443", True),
        ("[fd00::1]:443", "https://[fd00::1]:443", True),
        (" , ,svc , 10.0.0.0/8 ", "https://10.0.0.1", True),
        ("", "https://10.0.0.1", False),
    ],
)
def test_no_proxy_exempts(exempt, url, direct):
    assert (proxy_for(url, {**BOTH, "NO_PROXY": exempt}) is None) is direct


async def test_proxy_of_the_kubeconfig_is_used(serving, connecting, kubeconfig_of):
    async def proxy(request):
        return web.json_response({"asked": str(request.url)})

    async with serving(proxy) as url, connecting(kubeconfig_of("http://api.example.com", {"proxy-url": url})) as client:
        assert await client.get("/version") == {"asked": "http://api.example.com/version"}


async def test_proxy_that_refuses_is_named(api_serving, connecting, kubeconfig_of):
    # A server that is none refuses CONNECT.
    async with (
        api_serving() as refusing,
        connecting(kubeconfig_of("https://api.example.com", {"proxy-url": refusing.url})) as client,
    ):
        with pytest.raises(Unreachable, match=r"the proxy refused with 404 Not Found$"):
            await client.get("/version")


async def test_proxy_that_is_not_there_is_named(api_serving, connecting, kubeconfig_of):
    async with api_serving() as closed:
        url = closed.url
    async with connecting(kubeconfig_of("https://api.example.com", {"proxy-url": url})) as client:
        with pytest.raises(Unreachable, match=r"cannot reach the proxy: Connection refused$"):
            await client.get("/version")
