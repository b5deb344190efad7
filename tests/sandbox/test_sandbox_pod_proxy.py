"""The proxy subresource of pods: GET requests are sent to the address of the pod."""

import pytest
from aiohttp import web

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
async def server():
    """A server that answers with the path and the query that it gets; returns its port."""

    async def answer(request):
        assert "Authorization" not in request.headers
        return web.json_response({"path": request.path_qs}, status=503)

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield runner.addresses[0][1]
    await runner.cleanup()


def pod(sandbox, *, address="127.0.0.1", ports=()):
    container = {"name": "main", "image": "serve:1", "ports": [{"containerPort": port} for port in ports]}
    sandbox.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"containers": [container]},
            "status": {"podIP": address} if address else {},
        }
    )


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("web:{port}/proxy", "/"),
        ("http:web:{port}/proxy/readyz?verbose=1", "/readyz?verbose=1"),
        ("web/proxy/a/b", "/a/b"),
    ],
)
async def test_pod_gets_the_rest_of_the_path(sandbox, api, server, path, sent):
    pod(sandbox, ports=[server])
    answer = await api("GET", f"{PODS}/{path.format(port=server)}", headers={"Authorization": "Bearer alice"})
    assert (answer.code, answer.body) == (503, {"path": sent})


async def test_pod_that_does_not_listen_is_unavailable(sandbox, api):
    pod(sandbox)
    answer = await api.get(f"{PODS}/web:1/proxy/readyz")
    assert (answer.code, answer.message) == (
        503,
        "error trying to reach service: dial tcp 127.0.0.1:1: connect: connection refused",
    )


async def test_pod_without_an_address_is_refused(sandbox, api):
    pod(sandbox, address="")
    answer = await api.get(f"{PODS}/web:8080/proxy/readyz")
    assert (answer.code, answer.message) == (400, "address not allowed")


async def test_missing_pod_is_not_found(api):
    answer = await api.get(f"{PODS}/web:8080/proxy/readyz")
    assert (answer.code, answer.message) == (404, 'pods "web" not found')


async def test_only_reads_are_forwarded(sandbox, api, server):
    pod(sandbox, ports=[server])
    assert (await api.post(f"{PODS}/web/proxy/readyz", {})).code == 405
