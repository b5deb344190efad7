"""The sandbox: an API server in memory, for tests and for trying the product out."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import orjson
from aiohttp import hdrs, web

from webhook.sandbox.admission import Warnings, Webhooks
from webhook.sandbox.attempt import Refused
from webhook.sandbox.claims import ClaimController
from webhook.sandbox.cluster import Cluster
from webhook.sandbox.creation import seed
from webhook.sandbox.discovery import describe, discover, version_info
from webhook.sandbox.handlers import Asked, Handlers
from webhook.sandbox.kinds import Kinds
from webhook.sandbox.options import JSON, LARGEST_BODY
from webhook.sandbox.reading import Pages
from webhook.sandbox.routing import parse_path, record_of
from webhook.sandbox.statuses import internal_error, no_such_path
from webhook.sandbox.store import Store
from webhook.sandbox.users import allow_everything, kubeconfig, token_of, user_of
from webhook.server.tls import server_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from aiohttp.typedefs import Middleware

    from certs import KeyPair
    from policies.kubernetes.objects import Object
    from webhook.cluster.resources import Resource
    from webhook.sandbox.attempt import Admission
    from webhook.sandbox.kinds import Kind
    from webhook.sandbox.routing import Request

__all__ = ["Sandbox"]

_FIRST_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_HEALTH = ("/healthz", "/livez", "/readyz")
_RECORDED = 100_000
_SHUTDOWN_SECONDS = 0.1
"""How long requests may go on when the server stops; watches would for ever."""

_logger = logging.getLogger("gpu_admission.sandbox")


class Sandbox:
    """A Kubernetes API server that forgets everything when it ends. It is for tests and for trying things out.

    It serves the built-in kinds of a table and whatever CustomResourceDefinitions are created in it. It runs no
    scheduler, no kubelet and no controllers but the garbage collector and the maker of claims from templates. It
    authorizes everybody to do everything, and believes every bearer token: the token is the user.
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
        """Make a server that is not started yet; objects can be put into it already.

        Args:
            version: What it says it is.
            feature_gates: Those that are on, of the ones in `webhook.sandbox.kinds`.
            clock: Tells the time, with a time zone.
            seed: Of generated names and uids, where they shall be the same each time.
            history: How many changes of each kind watches can go back.
            second: How long a second of `timeoutSeconds` and of the time between bookmarks lasts, in seconds.
            allows: Whether the `spec` of a SubjectAccessReview is granted.
            admission: What writes pass; without it, the webhooks that are configured in the sandbox.
            middlewares: Run around every answer, the outermost first.
        """
        self.version = version
        self.services: dict[tuple[str, str], tuple[str, int]] = {}
        """Where services of webhooks listen, host and port by namespace and name: there is no network of pods."""
        self.requests: deque[Request] = deque(maxlen=_RECORDED)
        """What was asked, the latest last."""
        self.url = ""
        gates = frozenset(feature_gates)
        numbers = random.Random(seed)  # noqa: S311 - names, no secrets
        self._cluster = Cluster(Kinds(gates), Store(history), clock, numbers, gates)
        self._webhooks = Webhooks(self._cluster, lambda namespace, name, _port: self.services.get((namespace, name)))
        self._cluster.admission = admission or self._webhooks
        self._middlewares = tuple(middlewares)
        self._pages = Pages()
        self._handlers = Handlers(self._cluster, self._pages, allows, second)
        self._authority: bytes | None = None
        self._runner: web.AppRunner | None = None
        self._controller: asyncio.Task[None] | None = None
        for name in _FIRST_NAMESPACES:
            self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    async def start(
        self, host: str = "127.0.0.1", port: int = 0, tls: KeyPair | None = None, authority: bytes | None = None
    ) -> str:
        """Listen.

        Args:
            host: An address of this machine.
            port: 0 for one that is free.
            tls: What to serve over TLS; without it, plain HTTP is spoken.
            authority: The PEM certificates to verify `tls` with; its own where it is its own authority.

        Returns:
            The URL, without a slash at its end.
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
        """Close every connection. What is stored stays, and a server that is started again serves it."""
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
        """The objects of a kind, by namespace and name, of one namespace or of all."""
        return self._cluster.objects(kind, namespace)

    def get(self, kind: str, name: str, namespace: str = "") -> Object | None:
        """One object, if it exists."""
        return self._cluster.get(kind, name, namespace)

    def resource(self, document: Object) -> Resource:
        """The resource that a document with `apiVersion` and `kind` is one of.

        Raises:
            LookupError: its kind is not served.
        """
        return self._kind(document).resource

    def create(self, document: Object) -> Object:
        """Put an object in as it is, past admission; returns it as stored.

        Its status stays, and its uid if it has one. In no namespace, it comes into `default`.

        Raises:
            Refused: it is not valid, or there is one of this name already.
            LookupError: its kind is not served.
        """
        return seed(self._cluster, self._kind(document), document)

    def replace(self, document: Object) -> Object:
        """Put another version of an object in, past admission and validation; returns it as stored.

        Raises:
            LookupError: there is none, or its kind is not served.
        """
        kind = self._kind(document)
        metadata = document["metadata"]
        old = self.get(kind.resource.kind, metadata["name"], metadata.get("namespace", ""))
        if old is None:
            raise LookupError(f"{kind.resource.name} {metadata['name']!r} is not there to be replaced")
        kept = {"uid": old["metadata"]["uid"], "creationTimestamp": old["metadata"]["creationTimestamp"]}
        return self._cluster.commit(kind, {**document, "metadata": {**metadata, **kept}})

    def remove(self, kind: str, name: str, namespace: str = "") -> None:
        """Take an object away, past admission and finalizers; what it owns is collected with the next write.

        Raises:
            LookupError: it is not there, or its kind is not served.
        """
        served = self._kind({"kind": kind})
        entry = self._cluster.store.get(served, namespace, name)
        if entry is None:
            raise LookupError(f"{served.resource.name} {name!r} is not there to be removed")
        self._cluster.remove(served, entry)

    def forget(self) -> None:
        """Forget all changes and all begun lists, as with time: older versions are answered with 410 from here on."""
        self._cluster.store.forget_history()
        self._pages.forget()

    def _kind(self, document: Object) -> Kind:
        kind = self._cluster.kinds.find(document["kind"], document.get("apiVersion"))
        if kind is None:
            raise LookupError(f"the sandbox serves no {document['kind']} of {document.get('apiVersion', 'any group')}")
        return kind

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        """Every request gets an answer: an object, or a Status that says why not."""
        warnings = Warnings()
        try:
            response = await self._served(request, warnings)
        except Refused as refused:
            response = _refusal(refused)
        except ConnectionError:
            # The client went while it was told something; nobody reads an answer.
            return web.Response()
        except Exception as error:
            _logger.exception("%s %s failed", request.method, request.path)
            response = _refusal(internal_error(f"{type(error).__name__}: {error}"))
        if not response.prepared:
            response.headers.extend([(hdrs.WARNING, header) for header in warnings.headers()])
        return response

    async def _served(self, request: web.Request, warnings: Warnings) -> web.StreamResponse:
        user = user_of(request.headers.get(hdrs.AUTHORIZATION))
        if request.path in _HEALTH:
            return web.Response(text="ok")
        if request.path == "/version":
            return _document(version_info(self.version))
        if request.method == hdrs.METH_GET:
            found = discover(self._cluster.kinds, request.path) or describe(self._cluster.kinds, request.path)
            if found is not None:
                return _document(found)
        target = parse_path(self._cluster.kinds, request.path)
        if target is None:
            raise no_such_path()
        record = record_of(user, request.method, target, request.query)
        self.requests.append(record)
        return await self._handlers.answer(Asked(request, target, record.verb, user, warnings.add))


def _log_end(controller: asyncio.Task[None]) -> None:
    """From here on no claim is made, and pods wait for theirs silently; so it is said here."""
    if not controller.cancelled():
        _logger.critical("the maker of claims has ended, and makes no more", exc_info=controller.exception())


def _document(document: Object) -> web.Response:
    return web.Response(body=orjson.dumps(document), content_type=JSON)


def _refusal(refused: Refused) -> web.Response:
    status = refused.status
    after = (status.get("details") or {}).get("retryAfterSeconds")
    headers = {hdrs.RETRY_AFTER: str(after)} if after else {}
    return web.Response(status=status["code"], body=orjson.dumps(status), content_type=JSON, headers=headers)
