from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest

from webhook.sandbox.server import Sandbox

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


@dataclass
class Answer:
    code: int
    body: Any
    headers: Any

    @property
    def message(self):
        return self.body["message"]


class Client:
    """A client that is no Kubernetes client: paths in, JSON out."""

    def __init__(self, session):
        self.session = session

    async def __call__(self, method, path, body=None, *, content_type="application/json", data=None, **options):
        headers = {"Content-Type": content_type, **options.pop("headers", {})}
        sent = {"json": body} if data is None else {"data": data}
        async with self.session.request(method, path, headers=headers, **sent, **options) as response:
            return Answer(response.status, await response.json(content_type=None), response.headers)

    async def get(self, path, **query):
        return await self("GET", path, params=query)

    async def post(self, path, body, **query):
        return await self("POST", path, body, params=query)

    async def put(self, path, body, **query):
        return await self("PUT", path, body, params=query)

    async def delete(self, path, body=None, **query):
        return await self("DELETE", path, body, params=query)

    async def merge(self, path, patch, **query):
        return await self("PATCH", path, patch, content_type="application/merge-patch+json", params=query)

    async def patch(self, path, operations, **query):
        return await self("PATCH", path, operations, content_type="application/json-patch+json", params=query)


@pytest.fixture
async def sandbox():
    server = Sandbox(seed=1, clock=lambda: NOW, second=0.02)
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def api(sandbox):
    async with aiohttp.ClientSession(sandbox.url) as session:
        yield Client(session)


@pytest.fixture
def config_map():
    def build(name="settings", namespace="default", *, data=None, **metadata):
        document = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": namespace, **metadata},
        }
        return {**document, "data": data} if data else document

    return build


@pytest.fixture
def pod():
    def build(name="job", namespace="default", *, node="", **metadata):
        spec = {"containers": [{"name": "main", "image": "cuda"}]}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace, **metadata},
            "spec": {**spec, "nodeName": node} if node else spec,
        }

    return build
