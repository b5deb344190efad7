"""Clusters in stores, as a sync fills them, and an API server over real sockets."""

from __future__ import annotations

import asyncio
import json

import pytest
from aiohttp import web

from policies.rules.settings import DEFAULTS
from webhook.cluster.client import APIClient
from webhook.cluster.clockwork import Clockwork, Pace
from webhook.cluster.live import LiveView
from webhook.cluster.manifests import ManifestsView
from webhook.cluster.resources import RESOURCES
from webhook.cluster.store import Listing
from webhook.cluster.sync import Sync
from webhook.cluster.trimmed import store_of
from webhook.cluster.watched_kinds import watched_kinds

OPERATOR_NAMESPACES = DEFAULTS.configuration.operator_namespaces


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


class Cluster:
    """The stores of everything that is watched, empty and waiting at first, and the view of them."""

    def __init__(self, clock):
        self.stores = {each: store_of(each, clock) for each in watched_kinds(OPERATOR_NAMESPACES)}
        self.view = LiveView(self.stores.items())

    def store(self, kind, namespace=""):
        return next(
            store for each, store in self.stores.items() if each.kind == kind and each.namespace in ("", namespace)
        )

    def fill(self, kind, *objects):
        """A list of a kind arrived, in every place where it is watched."""
        for each, store in self.stores.items():
            if each.kind == kind:
                shown = [item for item in objects if each.covers(name(item), namespace(item))]
                listed(store, shown)

    def put(self, kind, item):
        self.store(kind, namespace(item)).apply({"type": "MODIFIED", "object": item})


def listed(store, objects):
    """A list arrived that has these objects and no others."""
    listing = Listing(store)
    listing.add(objects)
    listing.finish("1")


@pytest.fixture(scope="session")
def take_list():
    return listed


def name(item):
    return item["metadata"]["name"]


def namespace(item):
    return item["metadata"].get("namespace", "")


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def cluster(clock):
    return Cluster(clock)


class API:
    """Lists of what a test puts there, and watches that stay open; what is forbidden, and what is not served."""

    def __init__(self):
        self.objects = {}
        self.forbidden = set()
        self.absent = set()
        self.broken = set()
        self.minor = "36+"
        self.metrics = ""
        self.asked = []
        """The paths that were requested, in order."""
        self.url = ""
        self._ended = asyncio.Event()

    async def start(self):
        app = web.Application()
        app.router.add_get("/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{site.port}"

    async def stop(self):
        self._ended.set()
        await self._runner.cleanup()

    async def _answer(self, request):
        self.asked.append(request.path)
        if request.path == "/version":
            return web.json_response({"major": "1", "minor": self.minor})
        plural = request.path.rpartition("/")[2]
        for paths, code, reason in ((self.forbidden, 403, "Forbidden"), (self.absent, 404, "NotFound")):
            if request.path in paths:
                status = {"kind": "Status", "code": code, "reason": reason, "message": f"{plural} is {reason}"}
                return web.json_response({"apiVersion": "v1", "status": "Failure", **status}, status=code)
        if request.path in self.broken:
            return web.Response(status=500, text="no")
        if request.path == "/metrics":
            return web.Response(text=self.metrics)
        if "watch" in request.query:
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            await response.prepare(request)
            await self._ended.wait()
            return response
        items = self.objects.get(request.path, [])
        return web.json_response({"metadata": {"resourceVersion": "7"}, "items": items})


@pytest.fixture
async def api():
    server = API()
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def client(api, tmp_path):
    """A client of the API server."""
    kubeconfig = tmp_path / "config"
    context = {"name": "test", "context": {"cluster": "test", "user": "nobody"}}
    kubeconfig.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "test",
                "clusters": [{"name": "test", "cluster": {"server": api.url}}],
                "contexts": [context],
                "users": [{"name": "nobody", "user": {}}],
            }
        )
    )
    client = await APIClient.connect(str(kubeconfig))
    yield client
    await client.close()


@pytest.fixture
async def sync(client, clock):
    """A sync with the API server, not started."""
    pauses = dict.fromkeys(("missing_pause", "first_pause", "longest_pause"), 3600.0)
    made = Sync(client, pace=Pace(**pauses, clockwork=Clockwork(clock=clock)))
    yield made
    await made.close()


def served(item):
    """The object as the API server stores it: namespaced kinds have a namespace, and every object has much more."""
    metadata = {"managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}], "resourceVersion": "1"}
    resource = RESOURCES.get(item["kind"])
    if resource is not None and resource.namespaced:
        metadata["namespace"] = "default"
    return {**item, "metadata": {**metadata, **(item.get("metadata") or {})}}


@pytest.fixture
def both(clock):
    """`both(objects)`: the view of a cluster's manifests, and the live one of the same cluster, trimmed."""

    def make(objects):
        empty = [item for item in objects if item.get("kind", "").endswith("List")]
        whole = [served(item) for item in objects if "kind" in item and item not in empty]
        whole.sort(key=lambda item: (item["kind"], namespace(item), name(item)))
        live = Cluster(clock)
        for kind in {item["kind"].removesuffix("List") for item in (*whole, *empty)}:
            live.fill(kind, *(item for item in whole if item["kind"] == kind))
        reported = [item for item in objects if "serverVersion" in item]
        manifests = ManifestsView([*whole, *empty, *reported])
        live.view.set_server_version(manifests.server_version())
        return manifests, live.view

    return make
