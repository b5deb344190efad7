"""Webhook servers over TLS with answers of a test, and a sandbox that calls them."""

import base64
import contextlib
import json
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest
from aiohttp import web

from certs import issue_serving, make_authority
from webhook.cluster.resources import RESOURCES
from webhook.sandbox.admission.reviewer import Warnings
from webhook.sandbox.admission.webhooks import Webhooks
from webhook.sandbox.defaults import with_defaults
from webhook.sandbox.statuses import Attempt, Refused, User
from webhook.server.tls import server_context


@pytest.fixture(scope="session")
def authority():
    return make_authority("test authority", now=datetime.now(UTC))


@pytest.fixture(scope="session")
def stranger():
    """An authority that nobody was told of."""
    return make_authority("another authority", now=datetime.now(UTC))


def bundle(pair):
    return base64.b64encode(pair.certificate_pem).decode()


class Objects:
    """What is stored: a list of documents."""

    def __init__(self):
        self.stored = []

    def add(self, *documents):
        self.stored += documents

    def objects(self, kind, namespace=""):
        found = [document for document in self.stored if document["kind"] == kind]
        return [each for each in found if namespace in ("", each["metadata"].get("namespace"))]

    def get(self, kind, name, namespace=""):
        found = self.objects(kind, namespace)
        return next((document for document in found if document["metadata"]["name"] == name), None)


@dataclass
class Call:
    """One question that a webhook got."""

    path: str
    query: dict
    review: dict
    connection: int
    headers: dict

    @property
    def request(self):
        return self.review["request"]


@dataclass
class Hooks:
    """A server of webhooks: each path answers what the test set for it."""

    port: int
    authority: object
    calls: list = field(default_factory=list)
    answers: dict = field(default_factory=dict)

    def on(self, path, answer):
        """Answer with parts of a response, or with a web.Response, or what a function of the request makes; or `cut`."""
        self.answers[path] = answer

    def paths(self):
        return [call.path for call in self.calls]

    async def serve(self, request):
        review = json.loads(await request.text())
        call = Call(
            request.path,
            dict(request.query),
            review,
            id(request.transport),
            {k.lower(): v for k, v in request.headers.items()},
        )
        self.calls.append(call)
        answer = self.answers.get(request.path, {})
        if callable(answer):
            answer = answer(call.request)
        if hasattr(answer, "__await__"):
            answer = await answer
        if answer == "cut":
            request.transport.abort()
            return web.Response()
        if isinstance(answer, web.StreamResponse):
            return answer
        response = {"uid": call.request["uid"], "allowed": True, **answer}
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})


def patch(*operations):
    """The parts of a response with a JSON Patch."""
    return {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(operations).encode()).decode()}


@pytest.fixture
def patching():
    return patch


@pytest.fixture
async def start_hooks(authority):
    """Serve webhooks on a free port."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(names=("localhost", "127.0.0.1"), issuer=authority, tls=True):
            hooks = Hooks(0, issuer)
            app = web.Application()
            app.router.add_route("*", "/{path:.*}", hooks.serve)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            pair = issue_serving(issuer, names, now=datetime.now(UTC))
            site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=server_context(pair, None) if tls else None)
            await site.start()
            hooks.port = site.port
            return hooks

        yield start


@pytest.fixture
async def server(start_hooks):
    return await start_hooks()


@pytest.fixture
def objects():
    stored = Objects()
    for name, labels in (("team-a", {"team": "a"}), ("team-b", {})):
        metadata = {"name": name, "labels": {"kubernetes.io/metadata.name": name, **labels}}
        stored.add({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    return stored


@pytest.fixture
def annotations():
    """The values of audit annotations by key."""
    return defaultdict(list)


@pytest.fixture
async def make_admission(objects, annotations):
    async with contextlib.AsyncExitStack() as stack:

        def make(**arguments):
            admission = Webhooks(objects, note=lambda _, key, value: annotations[key].append(value), **arguments)
            stack.push_async_callback(admission.close)
            return admission

        yield make


@pytest.fixture
def admission(make_admission):
    return make_admission()


_PODS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}


@pytest.fixture
def register(objects, server):
    """Store a configuration with one webhook for pods at `server`; everything about it can be said otherwise."""

    def store(kind, name, *, configuration=None, at=None, rules=None, to=server, **webhook):
        written = {
            "name": name,
            "clientConfig": {"url": f"https://localhost:{to.port}{at or '/' + name}", "caBundle": bundle(to.authority)},
            "rules": rules or [_PODS],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **webhook,
        }
        document = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": configuration or name},
            "webhooks": [written],
        }
        objects.add(with_defaults(RESOURCES[kind], document))

    return store


@pytest.fixture
def mutating(register):
    return lambda name, **webhook: register("MutatingWebhookConfiguration", name, **webhook)


@pytest.fixture
def validating(register):
    return lambda name, **webhook: register("ValidatingWebhookConfiguration", name, **webhook)


@pytest.fixture
def pod():
    """A pod; `gpus` for its one container, None for none."""

    def make(name="p", namespace="team-a", gpus=None, labels=None, **spec):
        resources = {"limits": {"nvidia.com/gpu": gpus}} if gpus is not None else {}
        metadata = {"name": name, "namespace": namespace, **({"labels": labels} if labels else {})}
        container = {"name": "main", "image": "train:1", "resources": resources}
        document = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {"containers": [container], **spec},
        }
        return with_defaults(RESOURCES["Pod"], document)

    return make


ALICE = User("alice", ("system:authenticated",), "u-1")


@pytest.fixture
def attempt():
    """An attempt to write an object; of a DELETE it is the old one."""

    def make(document=None, operation="CREATE", old=None, subresource="", resource=None, **changed):
        about = document or old
        metadata = about["metadata"]
        resource = resource or RESOURCES[about["kind"]]
        namespace = metadata.get("namespace", "")
        parts = {
            "operation": operation,
            "resource": resource,
            "subresource": subresource,
            "namespace": metadata["name"] if about["kind"] == "Namespace" else namespace,
            "name": metadata.get("name", ""),
            "object": document,
            "old_object": old,
            "user": ALICE,
            "dry_run": False,
            "options": {"kind": f"{operation.title()}Options", "apiVersion": "meta.k8s.io/v1"},
            **changed,
        }
        return Attempt(**parts)

    return make


@pytest.fixture
def warnings():
    return Warnings()


@pytest.fixture
def mutate(admission, warnings):
    return lambda attempt: admission.mutate(attempt, warnings.add)


@pytest.fixture
def validate(admission, warnings):
    return lambda attempt: admission.validate(attempt, warnings.add)


@pytest.fixture
def refusal():
    """The Status of a refusal."""

    async def of(coroutine):
        with pytest.raises(Refused) as caught:
            await coroutine
        return caught.value.status

    return of
