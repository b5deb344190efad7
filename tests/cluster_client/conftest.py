"""An API server over real sockets that misbehaves on demand, and clients of it."""

import asyncio
import contextlib
import json
from collections import deque

import pytest
import yaml
from aiohttp import web

from webhook.cluster.client import APIClient
from webhook.cluster.clockwork import Clockwork, Pace
from webhook.cluster.reflector import Reflector
from webhook.cluster.resources import RESOURCES
from webhook.cluster.store import Store

NODE = RESOURCES["Node"]


class API:
    """Nodes, their history, and a fault for each request that is to meet one; watches end when all is told."""

    def __init__(self):
        self.url = ""
        self.objects = {}
        self.history = []
        self.version = self._oldest = 10_000
        self.bookmarks = False
        self.faults = deque()
        self.not_served = set()
        self.requests = []
        self._pages = {}

    @property
    def queries(self):
        return [dict(request.query) for request in self.requests]

    def put(self, name, **labels):
        self.version += 1
        item = {"metadata": {"name": name, "resourceVersion": str(self.version), "labels": labels}}
        kind = "MODIFIED" if name in self.objects else "ADDED"
        self.objects[name] = item
        self._happened(kind, item)

    def remove(self, name):
        self.version += 1
        item = self.objects.pop(name)
        self._happened("DELETED", {"metadata": {**item["metadata"], "resourceVersion": str(self.version)}})

    def compact(self):
        """Forget the history, as etcd does after five minutes."""
        self.history = []

    def restore(self):
        """Begin again at a version before all that were ever seen, as after a restored backup."""
        self._oldest -= 100
        self.version = self._oldest
        self.history = []
        for item in self.objects.values():
            item["metadata"]["resourceVersion"] = str(self.version)

    def _happened(self, kind, item):
        full = {"apiVersion": "v1", "kind": "Node", **item}
        self.history.append((self.version, {"type": kind, "object": json.loads(json.dumps(full))}))

    async def handle(self, request):
        self.requests.append(request)
        fault = self.faults.popleft() if self.faults else None
        is_watch = "watch" in request.query
        if any(request.path.startswith(prefix) for prefix in self.not_served):
            return web.Response(status=404, text="404 page not found\n")
        if fault is not None and (answer := await fault(self, request, is_watch=is_watch)) is not None:
            return answer
        return await self.watch(request) if is_watch else self.list(request)

    def list(self, request):
        token = request.query.get("continue")
        version, names = self._pages[token] if token else (self.version, sorted(self.objects))
        limit = int(request.query.get("limit", "0")) or len(names) or 1
        metadata = {"resourceVersion": str(version)}
        if names[limit:]:
            metadata["continue"] = f"page-{len(self._pages)}"
            self._pages[metadata["continue"]] = version, names[limit:]
        items = [self.objects[name] for name in names[:limit] if name in self.objects]
        return web.json_response({"kind": "NodeList", "apiVersion": "v1", "metadata": metadata, "items": items})

    async def watch(self, request):
        since = int(request.query["resourceVersion"])
        oldest = self.history[0][0] if self.history else self.version + 1
        if since + 1 < oldest and since < self.version:
            return status(410, "Expired", f"too old resource version: {since} ({self.version})")
        due = [event for version, event in self.history if version > since]
        return await stream(request, *due, *([self.moment()] if self.bookmarks else []))

    def moment(self):
        """A bookmark; the real server sends one every minute, and one before it ends a watch."""
        return {"type": "BOOKMARK", "object": {"kind": "Node", "metadata": {"resourceVersion": str(self.version)}}}


def status(code, reason, message, headers=None, **details):
    document = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
    return web.json_response({**document, "message": message, "details": details}, status=code, headers=headers)


async def stream(request, *events, end=True):
    """Send events, as JSON, or as they are where they are bytes."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    for event in events:
        await response.write(event if isinstance(event, bytes) else json.dumps(event).encode() + b"\n")
    if end:
        await response.write_eof()
    return response


class Faults:
    """What an API server, or something before it, can do wrong. Each takes one request."""

    async def gone(self, api, request, *, is_watch):
        return status(410, "Expired", "The resourceVersion for the provided watch is too old.")

    async def gone_in_stream(self, api, request, *, is_watch):
        if not is_watch:
            return None
        error = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version: 1 (9)"}
        return await stream(request, {"type": "ERROR", "object": error})

    async def too_many(self, api, request, *, is_watch):
        text = "Too many requests, please try again later."
        return web.Response(status=429, text=text, headers={"Retry-After": "7"})

    async def internal(self, api, request, *, is_watch):
        return status(500, "InternalError", "etcdserver: leader changed")

    async def html(self, api, request, *, is_watch):
        return web.Response(status=502, text="<html>Bad Gateway</html>", content_type="text/html")

    async def login_page(self, api, request, *, is_watch):
        return web.Response(text="<html>Please log in</html>", content_type="text/html")

    async def garbage(self, api, request, *, is_watch):
        if not is_watch:
            return web.Response(text='{"items": [', content_type="application/json")
        return await stream(request, b'{"type": "ADDED", "object": nonsense}\n')

    async def reset(self, api, request, *, is_watch):
        if is_watch:
            since = int(request.query["resourceVersion"])
            due = [json.dumps(event).encode() + b"\n" for version, event in api.history if version > since]
            await stream(request, b"".join(due)[:-20] or b'{"type": "BOOK', end=False)
        request.transport.abort()
        return web.Response()

    async def bookmark(self, api, request, *, is_watch):
        if not is_watch:
            return None
        since = int(request.query["resourceVersion"])
        due = [event for version, event in api.history if version > since]
        return await stream(request, *due, api.moment())

    async def back_in_time(self, api, request, *, is_watch):
        return await stream(request, *(event for _, event in api.history)) if is_watch else None

    async def compacted(self, api, request, *, is_watch):
        api.compact()


@pytest.fixture(scope="session")
def faults():
    return Faults()


@pytest.fixture(scope="session")
def answers():
    """Ways to answer: `status(code, reason, message)` and `await stream(request, *events)`."""

    class Answers:
        pass

    Answers.status, Answers.stream = staticmethod(status), staticmethod(stream)
    return Answers


@contextlib.asynccontextmanager
async def served(handler, tls=None):
    """Serve a handler on a free port of loopback; its URL."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.fixture(scope="session")
def serving():
    return served


@contextlib.asynccontextmanager
async def api_server():
    api = API()
    async with served(api.handle) as api.url:
        yield api


@pytest.fixture(scope="session")
def api_serving():
    return api_server


@pytest.fixture
async def api():
    async with api_server() as running:
        yield running


def kubeconfig_for(url, cluster=None, user=None):
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        "clusters": [{"name": "here", "cluster": {"server": url, **(cluster or {})}}],
        "users": [{"name": "me", "user": {"token": "secret"} if user is None else user}],
    }


@pytest.fixture(scope="session")
def kubeconfig_of():
    """A kubeconfig as a document: for a URL, with more of its cluster, and another user than one with a token."""
    return kubeconfig_for


@contextlib.asynccontextmanager
async def connected(folder, document):
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(document))
    client = await APIClient.connect(str(file), environ={})
    try:
        yield client
    finally:
        await client.close()


@pytest.fixture
def connecting(tmp_path):
    """A client for a kubeconfig document."""
    return lambda document: connected(tmp_path, document)


@pytest.fixture(scope="session")
def connecting_in():
    return connected


@pytest.fixture
async def client(api, connecting):
    async with connecting(kubeconfig_for(api.url)) as connected_client:
        yield connected_client


class Clock:
    """Time that stands still unless told; who sleeps is noted."""

    def __init__(self):
        self.now = 1000.0
        self.slept = []

    def __call__(self):
        return self.now

    async def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)

    @property
    def pace(self):
        return Pace(clockwork=Clockwork(clock=self, sleep=self.sleep, random=lambda: 1.0), brief=0.0)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(scope="session")
def clocks():
    return Clock


@pytest.fixture
def store():
    return Store(NODE)


@pytest.fixture
def reflector(client, store, clock):
    return Reflector(client, NODE, store, pace=clock.pace)
