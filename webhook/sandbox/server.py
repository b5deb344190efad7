"""The `proxy` subresource of pods: a request for a pod, sent to its address.

Source: k8s.io/kubernetes pkg/registry/core/pod/strategy.go, ResourceLocation; k8s.io/apimachinery pkg/util/proxy. Unlike an API
server, the sandbox reaches pods at loopback addresses too, because it has no pod network.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import random
import re
import time
from collections import deque
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import aiohttp
import orjson
from aiohttp import hdrs, web
from yarl import URL

from policies.kubernetes.objects import lookup, mappings_at
from webhook.cluster.resources import RESOURCES
from webhook.sandbox import statuses
from webhook.sandbox.admission.reviewer import Warnings
from webhook.sandbox.admission.webhooks import Webhooks
from webhook.sandbox.claim_controller import ClaimController
from webhook.sandbox.handlers import Handlers, ServedRequest
from webhook.sandbox.kinds import Kinds, describe, discover, parse_path, record_of, version_info
from webhook.sandbox.reading import Pages
from webhook.sandbox.request_bodies import JSON, LARGEST_BODY
from webhook.sandbox.statuses import Refused, internal_error, no_such_path
from webhook.sandbox.store import Cluster, Store
from webhook.sandbox.users import allow_everything, kubeconfig, token_of, user_of
from webhook.sandbox.writes import seed
from webhook.server.tls import server_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from aiohttp.typedefs import Middleware

    from certs import KeyPair
    from policies.kubernetes.objects import Object
    from webhook.cluster.resources import Resource
    from webhook.sandbox.kinds import Kind, Request
    from webhook.sandbox.statuses import Admission, Objects


_PATH = re.compile(r"/api/v1/namespaces/([^/]+)/pods/(?:(https?):)?([^/:]+)(?::([^/:]*))?/proxy(/.*)?")


class ProxyTarget:
    """A pod, and the part of the path that is sent to it."""

    def __init__(self, match: re.Match[str]) -> None:
        self.namespace, self.name, self.path = match[1], match[3], match[5] or "/"
        self.scheme, self.port = match[2] or "http", match[4] or ""


def parse_proxy_path(path: str) -> ProxyTarget | None:
    """The target of a path of the pod proxy; None for another path."""
    match = _PATH.fullmatch(path)
    return ProxyTarget(match) if match else None


async def forward(objects: Objects, target: ProxyTarget, request: web.Request) -> web.Response:
    """The answer of a pod to a GET.

    Raises:
        Refused: The pod does not exist, has no address, or does not answer.
    """
    if request.method != hdrs.METH_GET:
        raise statuses.method_not_allowed()
    pod = objects.get("Pod", target.name, target.namespace)
    if pod is None:
        raise statuses.not_found(RESOURCES["Pod"], target.name)
    host, port = _address_of(pod, target)
    url = URL.build(scheme=target.scheme, host=host, port=port, path=target.path, query=request.query)
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30.0)) as session,
            session.get(url, allow_redirects=False, ssl=False) as response,
        ):
            kind = {hdrs.CONTENT_TYPE: response.headers.get(hdrs.CONTENT_TYPE, "text/plain")}
            return web.Response(status=response.status, body=await response.read(), headers=kind)
    except (aiohttp.ClientError, OSError) as error:
        number = error.errno if isinstance(error, OSError) else None
        reason = os.strerror(number).lower() if number and number > 0 else str(error) or "no answer in time"
        why = f"error trying to reach service: dial tcp {host}:{port}: connect: {reason}"
        raise statuses.failure(503, "ServiceUnavailable", why, {}) from None


def _address_of(pod: Object, target: ProxyTarget) -> tuple[str, int]:
    """The address of a pod, and the port that was requested, else its first one."""
    address = str(lookup(pod, ("status", "podIP")) or "")
    try:
        ipaddress.ip_address(address)
    except ValueError:
        raise statuses.bad_request("address not allowed") from None
    if target.port:
        if not target.port.isdecimal():
            raise statuses.bad_request(f"invalid port {target.port!r}")
        return address, int(target.port)
    for container in mappings_at(pod, ("spec", "containers")):
        for port in mappings_at(container, ("ports",)):
            if isinstance(port.get("containerPort"), int):
                return address, port["containerPort"]
    return address, 443 if target.scheme == "https" else 80


_SHUTDOWN_SECONDS = 0.1
"""Seconds for which requests may continue when the server stops; watches would never end."""

_logger = logging.getLogger("gpu_admission.sandbox")


class Sandbox:
    """A Kubernetes API server in memory, without persistence.

    It serves a table of built-in kinds and the CustomResourceDefinitions that are created in it. It has no scheduler, no
    kubelet and no controllers, except for garbage collection and claims from templates. It authorizes every request, and
    accepts every bearer token: the token is the user.
    """

    def __init__(
        self,
        *,
        version: str = "1.36.0",
        feature_gates: Iterable[str] = (),
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        seed: int | None = None,
        history: int = 5000,
        second: float = 1.0,
        allows: Callable[[Object], bool] = allow_everything,
        admission: Admission | None = None,
        middlewares: Iterable[Middleware] = (),
    ) -> None:
        """Does not listen yet; objects can already be created.

        Args:
            version: The Kubernetes version of the server.
            feature_gates: The enabled ones of those in `webhook.sandbox.kinds`.
            clock: Returns the time, with a time zone.
            seed: For reproducible generated names and UIDs.
            history: The number of changes per kind from which watches can resume.
            second: The length of a second in time-outs of watches and between bookmarks, in seconds.
            allows: Returns whether the `spec` of a SubjectAccessReview is granted.
            admission: The admission of writes; by default the webhooks that are configured in the sandbox.
            middlewares: Run around every answer, the outermost first.
        """
        self.version = version
        self.services: dict[tuple[str, str], tuple[str, int]] = {}
        """Host and port of webhook Services by namespace and name, because there is no pod network."""
        self.requests: deque[Request] = deque(maxlen=100_000)
        """The last requests, oldest first."""
        self.url = ""
        gates = frozenset(feature_gates)
        numbers = random.Random(seed)  # noqa: S311 - names, no secrets
        self._cluster = Cluster(Kinds(gates, version), Store(history), clock, numbers, gates)
        self._webhooks = Webhooks(self._cluster, lambda namespace, name, _port: self.services.get((namespace, name)))
        self._cluster.admission = admission or self._webhooks
        self._started = time.time()
        self._middlewares = tuple(middlewares)
        self._pages = Pages()
        self._handlers = Handlers(self._cluster, self._pages, allows, second)
        self._authority: bytes | None = None
        self._runner: web.AppRunner | None = None
        self._controller: asyncio.Task[None] | None = None
        for name in ("default", "kube-node-lease", "kube-public", "kube-system"):
            self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    async def start(
        self, host: str = "127.0.0.1", port: int = 0, tls: KeyPair | None = None, authority: bytes | None = None
    ) -> str:
        """Listen.

        Args:
            host: An address of this machine.
            port: 0 for a free port.
            tls: The serving certificate; plain HTTP without it.
            authority: The PEM certificates that verify `tls`; by default its own.

        Returns:
            The URL, without a trailing slash.
        """
        app = web.Application(middlewares=self._middlewares, client_max_size=LARGEST_BODY)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port, ssl_context=None if tls is None else server_context(tls))
        await site.start()
        address, bound = self._runner.addresses[0][:2]
        shown = f"[{address}]" if ":" in address else address
        self.url = f"http{'' if tls is None else 's'}://{shown}:{bound}"
        self._authority = None if tls is None else authority or tls.certificate_pem
        self._controller = asyncio.create_task(ClaimController(self._cluster).run())
        self._controller.add_done_callback(_log_end)
        return self.url

    async def stop(self) -> None:
        """Close every connection; the stored objects stay for a next start."""
        if self._controller is not None:
            self._controller.cancel()
            await asyncio.wait([self._controller])
        if self._runner is not None:
            await self._runner.cleanup()
        await self._webhooks.close()
        self._controller = self._runner = None

    def kubeconfig(self, user: str = "", *groups: str) -> str:
        """The text of a kubeconfig for the started server, of the administrator or of another user."""
        return kubeconfig(self.url, self._authority, token_of(user, *groups) if user else "")

    def objects(self, kind: str, namespace: str = "") -> list[Object]:
        """The objects of a kind in one namespace or all, sorted by namespace and name."""
        return self._cluster.objects(kind, namespace)

    def get(self, kind: str, name: str, namespace: str = "") -> Object | None:
        """One object, if it exists."""
        return self._cluster.get(kind, name, namespace)

    def resource(self, document: Object) -> Resource:
        """The resource of a document with `apiVersion` and `kind`.

        Raises:
            LookupError: The kind is not served.
        """
        return self._kind(document).resource

    def create(self, document: Object) -> Object:
        """Store an object without admission; returns it as stored.

        It keeps its status and its UID. Without a namespace it is stored in `default`.

        Raises:
            Refused: It is not valid, or an object of this name exists.
            LookupError: The kind is not served.
        """
        return seed(self._cluster, self._kind(document), document)

    def replace(self, document: Object) -> Object:
        """Replace an object without admission and validation; returns it as stored.

        Raises:
            LookupError: The object does not exist, or its kind is not served.
        """
        kind = self._kind(document)
        metadata = document["metadata"]
        old = self.get(kind.resource.kind, metadata["name"], metadata.get("namespace", ""))
        if old is None:
            raise LookupError(f"{kind.resource.name} {metadata['name']!r} is not there to be replaced")
        kept = {"uid": old["metadata"]["uid"], "creationTimestamp": old["metadata"]["creationTimestamp"]}
        return self._cluster.commit(kind, {**document, "metadata": {**metadata, **kept}})

    def remove(self, kind: str, name: str, namespace: str = "") -> None:
        """Remove an object without admission and finalizers; the next write collects its dependents.

        Raises:
            LookupError: The object does not exist, or its kind is not served.
        """
        served = self._kind({"kind": kind})
        entry = self._cluster.store.get(served, namespace, name)
        if entry is None:
            raise LookupError(f"{served.resource.name} {name!r} is not there to be removed")
        self._cluster.remove(served, entry)

    def upgrade(self, version: str) -> None:
        """Become another version of Kubernetes: kinds behind feature gates may be served in other versions.

        Watches go on until they end; an API server that restarts ends them.
        """
        self.version = version
        self._cluster.kinds.upgrade(version)

    def forget(self) -> None:
        """Drop all changes and unfinished lists, so that older versions are answered with 410."""
        self._cluster.store.forget_history()
        self._pages.forget()

    def _kind(self, document: Object) -> Kind:
        kind = self._cluster.kinds.find(document["kind"], document.get("apiVersion"))
        if kind is None:
            raise LookupError(f"the sandbox serves no {document['kind']} of {document.get('apiVersion', 'any group')}")
        return kind

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        """The answer to any request: an object, or a Status."""
        warnings = Warnings()
        try:
            response = await self._serve(request, warnings)
        except Refused as refused:
            response = _refusal(refused)
        except ConnectionError:
            # The client has closed the connection.
            return web.Response()
        except Exception as error:
            _logger.exception("%s %s failed", request.method, request.path)
            response = _refusal(internal_error(f"{type(error).__name__}: {error}"))
        if not response.prepared:
            response.headers.extend([(hdrs.WARNING, header) for header in warnings.headers()])
        return response

    async def _serve(self, request: web.Request, warnings: Warnings) -> web.StreamResponse:
        user = user_of(request.headers.get(hdrs.AUTHORIZATION))
        if request.path in ("/healthz", "/livez", "/readyz"):
            return web.Response(text="ok")
        if request.path == "/version":
            return _document(version_info(self.version))
        if request.path == "/metrics":
            gates = "".join(
                f'kubernetes_feature_enabled{{name="{each}"}} 1\n' for each in sorted(self._cluster.feature_gates)
            )
            started = f"process_start_time_seconds {self._started:.2f}\n"
            return web.Response(text=f"{self._webhooks.metrics}{gates}{started}")
        if (proxied := parse_proxy_path(request.path)) is not None:
            return await forward(self._cluster, proxied, request)
        if request.method == hdrs.METH_GET:
            found = discover(self._cluster.kinds, request.path) or describe(self._cluster.kinds, request.path)
            if found is not None:
                return _document(found)
        target = parse_path(self._cluster.kinds, request.path)
        if target is None:
            raise no_such_path()
        record = record_of(user, request.method, target, request.query)
        self.requests.append(record)
        return await self._handlers.answer(ServedRequest(request, target, record.verb, user, warnings.add))


def _log_end(controller: asyncio.Task[None]) -> None:
    """Log the end of the claim controller, because pods would wait for their claims silently."""
    if not controller.cancelled():
        _logger.critical("the claim controller has ended because of a defect", exc_info=controller.exception())


def _document(document: Object) -> web.Response:
    return web.Response(body=orjson.dumps(document), content_type=JSON)


def _refusal(refused: Refused) -> web.Response:
    status = refused.status
    after = (status.get("details") or {}).get("retryAfterSeconds")
    headers = {hdrs.RETRY_AFTER: str(after)} if after else {}
    return web.Response(status=status["code"], body=orjson.dumps(status), content_type=JSON, headers=headers)
