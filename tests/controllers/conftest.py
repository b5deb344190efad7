"""Virtual time, and an API server for leases and templates."""

import asyncio
import copy
import selectors
from datetime import UTC, datetime, timedelta

import pytest
from aiohttp import web

from policies.admission import review
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from webhook.cluster.answers import APIError
from webhook.cluster.client import APIClient
from webhook.cluster.clockwork import Clockwork
from webhook.cluster.manifests import ManifestsView


class _Selector(selectors.DefaultSelector):
    """Instead of waiting, moves the clock of its loop on."""

    loop = None

    def select(self, timeout=None):
        if timeout is None:
            raise AssertionError("everybody waits, and nothing will ever happen")
        self.loop.now += timeout
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose seconds take no time."""

    def __init__(self):
        selector = _Selector()
        super().__init__(selector)
        selector.loop = self
        self.now = 0.0

    def time(self):
        return self.now


MIDNIGHT = datetime(2027, 1, 1, tzinfo=UTC)


def clockwork(offset=0.0, rate=1.0, random=lambda: 0.0):
    """Clocks that run `rate` times as fast as those of the loop and show `offset` seconds more."""

    def clock():
        return offset + asyncio.get_running_loop().time() * rate

    async def sleep(seconds):
        await asyncio.sleep(seconds / rate)

    return Clockwork(clock, lambda: MIDNIGHT + timedelta(seconds=clock()), sleep, random)


@pytest.fixture(name="clockwork", scope="session")
def _clockwork():
    return clockwork


@pytest.fixture(scope="session")
def in_virtual_time():
    """Run a coroutine to its end in a loop of its own."""

    def run(coroutine):
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            return runner.run(coroutine)

    return run


class LeaseServer:
    """What an API server does with one Lease: versions, and writes that are refused when they come too late."""

    def __init__(self):
        self.stored = None
        self.version = 0
        self.made = 0
        self.writes = []

    def read(self):
        if self.stored is None:
            raise APIError(404, "NotFound", 'leases.coordination.k8s.io "leader" not found')
        return copy.deepcopy(self.stored)

    def create(self, lease):
        if self.stored is not None:
            raise APIError(409, "AlreadyExists", 'leases.coordination.k8s.io "leader" already exists')
        self.made += 1
        lease["metadata"]["uid"] = f"uid-{self.made}"
        return self._store(lease)

    def replace(self, lease):
        if self.stored is None:
            raise APIError(404, "NotFound", 'leases.coordination.k8s.io "leader" not found')
        mine, theirs = self.stored["metadata"], lease["metadata"]
        if (mine["uid"], mine["resourceVersion"]) != (theirs["uid"], theirs["resourceVersion"]):
            raise APIError(409, "Conflict", "the object has been modified")
        return self._store(lease)

    def delete(self):
        self.stored = None

    def _store(self, lease):
        self.version += 1
        lease["metadata"]["resourceVersion"] = str(self.version)
        self.stored = copy.deepcopy(lease)
        self.writes.append(lease["spec"])
        return copy.deepcopy(lease)


class LeaseClient:
    """A client of a LeaseServer; `weather(method)` comes before the server and may wait or raise, and so does `after`."""

    def __init__(self, server):
        self.server = server
        self.asked = []

    async def weather(self, method):
        pass

    async def after(self, method):
        pass

    async def get(self, path, query=None, *, timeout=10.0):  # noqa: ASYNC109 - as APIClient has it
        return await self._ask("GET", path, timeout, self.server.read)

    async def post(self, path, body, query=None, *, timeout=10.0):  # noqa: ASYNC109
        return await self._ask("POST", path, timeout, lambda: self.server.create(copy.deepcopy(body)))

    async def put(self, path, body, query=None, *, timeout=10.0):  # noqa: ASYNC109
        return await self._ask("PUT", path, timeout, lambda: self.server.replace(copy.deepcopy(body)))

    async def _ask(self, method, path, timeout, act):  # noqa: ASYNC109
        self.asked.append((method, path, timeout))
        await self.weather(method)
        answer = act()
        await self.after(method)
        return answer


@pytest.fixture
def lease_server():
    return LeaseServer()


@pytest.fixture(name="new_server", scope="session")
def _lease_server():
    return LeaseServer


@pytest.fixture(name="new_client", scope="session")
def _lease_client():
    return LeaseClient


class API:
    """A small API server over HTTP: objects by path, uids, versions, merge patches, preconditions, pages, and faults."""

    def __init__(self):
        self.objects = {}
        self.requests = []
        self.faults = []
        self.absent = set()
        self.gate = None
        self._version = 100

    def fail(self, method, status, reason="", message="", headers=None, times=1):
        """Answer the next requests of a method with a Status; 0 breaks the connection off."""
        self.faults += [(method, status, reason, message, headers or {})] * times

    def put(self, path, document):
        self._version += 1
        metadata = {**document["metadata"], "resourceVersion": str(self._version)}
        metadata.setdefault("uid", f"uid-{self._version}")
        self.objects[path] = {**copy.deepcopy(document), "metadata": metadata}
        return self.objects[path]

    def sent(self, method):
        return [path for asked, path, _ in self.requests if asked == method]

    async def handle(self, request):
        body = await request.json() if request.can_read_body else None
        self.requests.append((request.method, request.path, body))
        if self.gate is not None:
            await self.gate.wait()
        for index, (method, status, reason, message, headers) in enumerate(self.faults):
            if method == request.method:
                del self.faults[index]
                if not status:
                    request.transport.abort()
                return _status(status or 500, reason, message, headers)
        return getattr(self, f"_{request.method.lower()}")(request, body)

    def _get(self, request, body):
        if request.path in self.objects:
            return web.json_response(self.objects[request.path])
        if request.path.rpartition("/")[2].startswith("gpu-") or request.path in self.absent:
            return _status(404, "NotFound", f"{request.path} not found")
        items = [item for path, item in sorted(self.objects.items()) if path.rpartition("/")[0] == request.path]
        start, limit = int(request.query.get("continue", 0)), int(request.query["limit"])
        metadata = {"resourceVersion": "1"} | ({"continue": str(start + limit)} if start + limit < len(items) else {})
        return web.json_response({"metadata": metadata, "items": items[start : start + limit]})

    def _post(self, request, body):
        path = f"{request.path}/{body['metadata']['name']}"
        if path in self.objects:
            return _status(409, "AlreadyExists", f"{path} already exists")
        return web.json_response(self.put(path, body), status=201)

    def _patch(self, request, body):
        stored = self.objects.get(request.path)
        if stored is None:
            return _status(404, "NotFound", f"{request.path} not found")
        wanted = body["metadata"].get("resourceVersion", stored["metadata"]["resourceVersion"])
        if wanted != stored["metadata"]["resourceVersion"]:
            return _status(409, "Conflict", "the object has been modified")
        annotations = {**stored["metadata"].get("annotations", {}), **body["metadata"]["annotations"]}
        kept = {key: value for key, value in annotations.items() if value is not None}
        return web.json_response(
            self.put(request.path, {**stored, "metadata": {**stored["metadata"], "annotations": kept}})
        )

    def _delete(self, request, body):
        stored = self.objects.get(request.path)
        if stored is None:
            return _status(404, "NotFound", f"{request.path} not found")
        if any(stored["metadata"][key] != value for key, value in body["preconditions"].items()):
            return _status(409, "Conflict", "the precondition does not hold")
        del self.objects[request.path]
        return _status(200, "", "")


def _status(code, reason, message, headers=None):
    status = {"kind": "Status", "apiVersion": "v1", "code": code, "reason": reason, "message": message}
    return web.json_response(status, status=code, headers=headers)


@pytest.fixture
async def api(tmp_path):
    """A small API server, with a client of it in `api.client`."""
    api = API()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", api.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    api.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        f"{{apiVersion: v1, kind: Config, current-context: c, contexts: [{{name: c, context: {{cluster: c, user: u}}}}], "
        f"clusters: [{{name: c, cluster: {{server: '{api.url}'}}}}], users: [{{name: u, user: {{}}}}]}}"
    )
    api.client = await APIClient.connect(str(kubeconfig), environ={})
    yield api
    await api.client.close()
    if api.gate is not None:
        api.gate.set()
    await runner.cleanup()


@pytest.fixture
def gpu_pod():
    """A pod that asks for GPUs, as it arrives."""

    def make(gpus=1, name="train", namespace="team-a", **spec):
        limits = {"nvidia.com/gpu": str(gpus)}
        container = {"name": "main", "image": "train:1", "resources": {"limits": limits, "requests": dict(limits)}}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"containers": [container], **spec},
        }

    return make


@pytest.fixture
def view_of():
    """The view of a cluster with these objects, in which `team-a` converts and `team-b` does not."""

    def make(*objects, kinds=("Pod", "PodGroup", "ResourceClaimTemplate", "Namespace")):
        lists = [{"apiVersion": _API_VERSION.get(kind, "v1"), "kind": f"{kind}List", "items": []} for kind in kinds]
        namespaces = [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
            for name, labels in (("team-a", {"gpu-admission.io/dra": "enabled"}), ("team-b", {}))
        ]
        return ManifestsView([*lists, *namespaces, *objects])

    return make


_API_VERSION = {"PodGroup": "scheduling.k8s.io/v1alpha2", "ResourceClaimTemplate": "resource.k8s.io/v1"}


@pytest.fixture
def convert(view_of):
    """What conversion makes of a pod: the pod as it is stored, and its template."""

    def make(pod):
        namespace = pod["metadata"]["namespace"]
        decision = review(Request(object=pod, namespace=namespace, entry="convert-pods"), view_of(), DEFAULTS)
        return decision.object, decision.templates[0]

    return make


@pytest.fixture
def midnight():
    """The moment at which clocks in these tests begin."""
    return MIDNIGHT
