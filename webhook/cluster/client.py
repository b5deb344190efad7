"""A client of the API server: raw JSON in, raw JSON out, with a time-out on every request."""

from __future__ import annotations

import contextlib
import os
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import orjson

from webhook.cluster.answers import (
    Answer,
    APIError,
    BadAnswer,
    ClusterError,
    Lines,
    LineTooLong,
    NoCluster,
    ServiceAnswer,
    Unreachable,
    Untrusted,
    error_of,
    read_json,
    retry_after_of,
)
from webhook.cluster.credentials import SERVICE_ACCOUNT, Credentials, find_credentials
from webhook.cluster.resources import ServedVersions
from webhook.cluster.transport import Transport

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
    from pathlib import Path

    import aiohttp

    from webhook.cluster.credentials import Access


JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"

_JSON = "application/json"
_FIRST_BAD_STATUS = 300
_LONGEST_ANSWER = 2**20
"""Bytes of an answer through a proxy, which anything in a pod may write."""


class NoTokenError(ClusterError):
    """The credentials are no bearer token: a client certificate, or nothing."""


class APIClient:
    """Requests to one API server.

    If the server answers 401, or its certificate does not verify, the credentials and the CA are read again and the
    request is sent once more. Nothing else is retried: callers know their deadline.
    """

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._transport = Transport(credentials.access)
        self._retired: Transport | None = None
        self.served_versions = ServedVersions()
        """The versions of resources that the server has answered with."""

    @classmethod
    async def connect(
        cls,
        kubeconfig: str | None = None,
        context: str | None = None,
        *,
        environ: Mapping[str, str] = os.environ,
        service_account: Path = SERVICE_ACCOUNT,
    ) -> APIClient:
        """A client for the cluster of a kubeconfig or of our own pod; sends no request yet.

        Args:
            kubeconfig: A file; by default KUBECONFIG, then the pod's ServiceAccount, then ~/.kube/config.
            context: A context of the kubeconfig; by default its current one.
            environ: The environment.
            service_account: The folder of the pod's token and CA.

        Raises:
            NoCluster: No cluster is configured, or the configuration cannot be used.
        """
        return cls(await find_credentials(kubeconfig, context, environ=environ, service_account=service_account))

    @property
    def url(self) -> str:
        """The URL of the API server."""
        return self._transport.access.url

    async def get(self, path: str, query: Mapping[str, str] | None = None, *, timeout: float = 10.0) -> Any:
        """Read an object or a list.

        Args:
            path: A path as `Resource.path` returns it.
            query: Parameters, not quoted.
            timeout: Seconds for the whole request.

        Raises:
            APIError: The API server refused.
            Unreachable: The API server did not answer.
        """
        return (await self.answer("GET", path, query, timeout=timeout)).document

    async def answer(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        *,
        content_type: str = _JSON,
        timeout: float = 10.0,
    ) -> Answer:
        """Send any request whose headers matter, such as warnings; raises as `get` does."""
        headers = {} if body is None else {"Content-Type": content_type}
        data = None if body is None else orjson.dumps(body)
        async with self._answer(method, path, query or {}, data, headers, total=timeout) as response:
            document = read_json(f"{method} {path} at {self.url}", await response.read(), response.content_type)
            return Answer(document, response.headers)

    async def text_lines(self, path: str, *, timeout: float = 60.0) -> AsyncGenerator[str]:
        """The lines of a text, such as `/metrics`, as they arrive; raises as `get` does."""
        lines = Lines()
        async with self._answer("GET", path, {}, None, {"Accept": "text/plain"}, total=timeout) as response:
            async for chunk in response.content.iter_any():
                try:
                    complete = lines.feed(chunk)
                except LineTooLong as error:
                    raise BadAnswer(f"GET {path} at {self.url}: {error}") from error
                for line in complete:
                    yield line.decode(errors="replace")

    async def read_through_proxy(self, path: str, *, timeout: float) -> ServiceAnswer:
        """The answer to a GET of a pod through the API server, whatever its status; that of either.

        Args:
            path: The path of the proxy, with the path at the pod.
            timeout: Seconds for the whole request.

        Raises:
            Unreachable: Nothing answered, or with more than 1 MiB.
        """
        authorization = await self._credentials.authorization()
        await self._use(self._credentials.access)
        headers = {"Authorization": authorization} if authorization else {}
        async with self._transport.answer("GET", path, {}, headers, None, total=timeout) as response:
            body = bytearray()
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > _LONGEST_ANSWER:
                    raise BadAnswer(f"GET {path} at {self.url}: the answer is longer than {_LONGEST_ANSWER} bytes")
            return ServiceAnswer(response.status, bytes(body), retry_after_of(response.headers))

    async def post(self, path: str, body: Any, query: Mapping[str, str] | None = None, *, timeout: float = 10.0) -> Any:
        """Create an object; raises as `get` does. After Unreachable, the object may exist."""
        return (await self.answer("POST", path, query, body, timeout=timeout)).document

    async def ask_service(
        self, path: str, body: Any, query: Mapping[str, str], header: str, *, timeout: float
    ) -> ServiceAnswer:
        """Post to a Service through the API server; returns the answer of either, whatever its status.

        The API server removes `Authorization`, so the Service gets the bearer token in a header of its own.

        Args:
            path: The path of the Service's proxy, with the path of the Service.
            body: JSON.
            query: Parameters, not quoted.
            header: The header for the bearer token.
            timeout: Seconds for the whole request.

        Raises:
            NoTokenError: The credentials are no bearer token.
            Unreachable: Nothing answered.
        """
        authorization = await self._credentials.authorization()
        if not authorization.lower().startswith("bearer "):
            raise NoTokenError
        await self._use(self._credentials.access)
        headers = {"Content-Type": _JSON, "Authorization": authorization, header: authorization}
        async with self._transport.answer("POST", path, query, headers, orjson.dumps(body), total=timeout) as response:
            return ServiceAnswer(response.status, await response.read(), retry_after_of(response.headers))

    async def put(self, path: str, body: Any, query: Mapping[str, str] | None = None, *, timeout: float = 10.0) -> Any:
        """Replace the object at the resourceVersion in `body`; raises as `get` does."""
        return (await self.answer("PUT", path, query, body, timeout=timeout)).document

    async def patch(
        self,
        path: str,
        body: Any,
        query: Mapping[str, str] | None = None,
        *,
        content_type: str = MERGE_PATCH,
        timeout: float = 10.0,
    ) -> Any:
        """Change an object by a merge patch, or by a patch of `content_type`; raises as `get` does."""
        return (await self.answer("PATCH", path, query, body, content_type=content_type, timeout=timeout)).document

    async def delete(
        self, path: str, body: Any = None, query: Mapping[str, str] | None = None, *, timeout: float = 10.0
    ) -> Any:
        """Delete an object; `body` is the DeleteOptions. Raises as `get` does."""
        return (await self.answer("DELETE", path, query, body, timeout=timeout)).document

    async def watch(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        read_timeout: float,
        on_open: Callable[[], None] | None = None,
    ) -> AsyncGenerator[dict[str, Any]]:
        """The events of one watch until the server ends it; ignores an incomplete last line.

        Args:
            path: The path of the collection.
            query: `resourceVersion`, `timeoutSeconds` and the like; `watch` is added.
            read_timeout: Seconds without any event or bookmark after which the connection counts as lost.
            on_open: Called when the server has accepted the watch, before any event.

        Raises:
            APIError: The API server refused the watch. An event of type ERROR is yielded like any other.
            BadAnswer: An event is not a JSON object.
            Silent: Nothing came for `read_timeout` seconds.
            Unreachable: The connection could not be made, or broke off.
        """
        what = f"GET {path} at {self.url}, watching"
        async with self._answer("GET", path, {**(query or {}), "watch": "true"}, None, read=read_timeout) as response:
            if response.content_type != _JSON:
                raise BadAnswer(f"{what}: expected JSON, got {response.content_type[:50]}")
            if on_open is not None:
                on_open()
            lines = Lines()
            async for chunk in response.content.iter_any():
                try:
                    complete_lines = lines.feed(chunk)
                except LineTooLong as error:
                    raise BadAnswer(f"{what}: {error}") from error
                for line in complete_lines:
                    event = read_json(what, line, _JSON)
                    if not isinstance(event, dict):
                        raise BadAnswer(f"{what}: an event must be a JSON object, not {line[:100]!r}")
                    yield event

    async def close(self) -> None:
        """Close every connection; pending requests fail."""
        await self._transport.close()
        if self._retired is not None:
            await self._retired.close()

    @contextlib.asynccontextmanager
    async def _answer(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: bytes | None,
        headers: Mapping[str, str] | None = None,
        *,
        total: float | None = None,
        read: float | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer if it is a success; any other answer raises."""
        what = f"{method} {path} at {self.url}"
        for is_last in (False, True):
            seen = self._credentials.reading
            authorization = await self._credentials.authorization()
            await self._use(self._credentials.access)
            sent = {**(headers or {}), **({"Authorization": authorization} if authorization else {})}
            error: ClusterError
            try:
                async with self._transport.answer(method, path, query, sent, body, total=total, read=read) as response:
                    if response.status < _FIRST_BAD_STATUS:
                        yield response
                        return
                    error = error_of(what, response.status, response.headers, await response.read())
            except Untrusted as untrusted:
                error = untrusted
            # Other credentials, or another CA, may help.
            is_refused = isinstance(error, APIError) and error.code == HTTPStatus.UNAUTHORIZED
            may_be_outdated = isinstance(error, Untrusted) or is_refused
            if is_last or not may_be_outdated or not await self._credentials.renew(seen):
                raise error

    async def _use(self, access: Access) -> None:
        """Reconnect if certificates or the address changed; pending requests keep their connections."""
        if access == self._transport.access:
            return
        try:
            fresh = Transport(access)
        except NoCluster as error:
            raise Unreachable(str(error)) from error
        outdated, self._retired, self._transport = self._retired, self._transport, fresh
        if outdated is not None:
            await outdated.close()
