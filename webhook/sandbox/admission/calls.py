"""Counts of webhook calls, in the metrics that an API server has for them.

Source: k8s.io/apiserver pkg/admission/metrics/metrics.go; names, labels and buckets were seen on Kubernetes 1.36.2. Labels of a
call say `validating`, and those of matchConditions `validate`, as there.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
import socket
import ssl
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal

import aiohttp
import orjson
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from webhook.sandbox.statuses import Refused

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from webhook.sandbox.admission.matching import ClientConfig, Hook
    from webhook.sandbox.statuses import Attempt


Resolver = Callable[[str, str, int], tuple[str, int] | None]
"""Namespace, name and port of a service to an address and a port; None if the service does not exist."""

_MOST_CLIENTS = 200
_KEEP_ALIVE = 90.0
"""Seconds that an idle connection is kept."""
_MOST_RETRIES = 10
_MOST_TEXT = 2048
"""Characters of an answer's body in a message."""
_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, */*",
    "User-Agent": "kube-apiserver-admission",
}
_ADDRESS = re.compile(r"\('([^']+)', (\d+)")


class CallFailed(Exception):  # noqa: N818 - the case for failurePolicy
    """A call failed, or its answer could not be used; the text says why."""

    def __init__(self, message: str, code: int = HTTPStatus.SERVICE_UNAVAILABLE) -> None:
        super().__init__(message)
        self.code = int(code)
        """The code by which the API server counts the call: that of the answer, or 503 without one."""


@dataclass(eq=False)
class Caller:
    """Calls webhooks, with a pool of connections per client configuration, as the API server does."""

    resolve: Resolver
    _sessions: OrderedDict[ClientConfig, aiohttp.ClientSession] = field(default_factory=OrderedDict, init=False)

    async def close(self) -> None:
        """Close all connections."""
        for session in self._sessions.values():
            await session.close()
        self._sessions.clear()

    async def ask(self, hook: Hook, body: bytes) -> Any:
        """A webhook's JSON answer to a review.

        Raises:
            CallFailed: The answer is not JSON, not a success, or too late.
        """
        session = await self._session(hook.client)
        url = f"{hook.client.address}?timeout={hook.timeout}s"
        try:
            async with asyncio.timeout(hook.timeout):
                return await _post(session, url, body)
        except TimeoutError:
            raise CallFailed(f'failed to call webhook: Post "{url}": context deadline exceeded') from None

    async def _session(self, client: ClientConfig) -> aiohttp.ClientSession:
        if client not in self._sessions:
            context = _context(client)
            connector = aiohttp.TCPConnector(
                ssl=context,
                limit=0,
                keepalive_timeout=_KEEP_ALIVE,
                use_dns_cache=False,
                resolver=None if client.service is None else _ServiceResolver(client, self.resolve),
            )
            self._sessions[client] = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        self._sessions.move_to_end(client)
        session = self._sessions[client]
        if len(self._sessions) > _MOST_CLIENTS:
            _, oldest = self._sessions.popitem(last=False)
            await oldest.close()
        return session


class _NoSuchServiceError(OSError):
    """A service that a client configuration names does not exist."""


class _ServiceResolver(AbstractResolver):
    """Finds the address and the port behind the name of a service."""

    def __init__(self, client: ClientConfig, resolve: Resolver) -> None:
        self._client = client
        self._resolve = resolve

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The one address of the service; a name as address is looked up by the system."""
        service = self._client.service
        found = service and self._resolve(service.namespace, service.name, service.port)
        if not found:
            raise _NoSuchServiceError(f'service "{service.name if service else host}" not found')
        address, port = found
        loop = asyncio.get_running_loop()
        known = await loop.getaddrinfo(address, port, type=socket.SOCK_STREAM)
        return [
            ResolveResult(hostname=host, host=str(place[0]), port=port, family=kind, proto=proto, flags=0)
            for kind, _, proto, _, place in known
        ]

    async def close(self) -> None:
        """Nothing is held."""


def _context(client: ClientConfig) -> ssl.SSLContext:
    """The TLS context for a webhook; an invalid bundle fails each call, not the configuration."""
    if not client.ca_bundle:
        return ssl.create_default_context()
    try:
        bundle = base64.b64decode(client.ca_bundle, validate=True).decode("ascii")
        context = ssl.create_default_context(cadata=bundle)
    except (binascii.Error, ValueError, ssl.SSLError):
        why = "unable to load root certificates: unable to parse bytes as PEM block"
        raise CallFailed(f"could not get REST client: {why}") from None
    return context


async def _post(session: aiohttp.ClientSession, url: str, body: bytes) -> Any:
    """Posts a review; retries 429 and 5xx with Retry-After until the time-out."""
    for retries_left in range(_MOST_RETRIES, -1, -1):
        status, headers, answer = await _exchange(session, url, body)
        wait = headers.get("Retry-After", "")
        is_busy = status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR
        if not (is_busy and wait.isdecimal() and retries_left):
            break
        await asyncio.sleep(int(wait))
    if not HTTPStatus.OK <= status <= HTTPStatus.PARTIAL_CONTENT:
        raise CallFailed(f"failed to call webhook: {_failure_message(status, headers, answer)}", status)
    if not answer:
        kind = headers.get("Content-Type", "application/json")
        why = f"0-length response with status code: {status} and content type: {kind}"
        raise CallFailed(f"failed to call webhook: {why}")
    try:
        return orjson.loads(answer)
    except orjson.JSONDecodeError as error:
        why = f"couldn't get version/kind; json parse error: {_go_syntax_error(answer, error)}"
        raise CallFailed(f"failed to call webhook: {why}") from None


async def _exchange(session: aiohttp.ClientSession, url: str, body: bytes) -> tuple[int, Any, bytes]:
    try:
        async with session.post(
            URL(url, encoded=True),
            data=body,
            headers=_HEADERS,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=None),
        ) as response:
            try:
                return response.status, response.headers, await response.read()
            except aiohttp.ClientError:
                why = "unexpected error when reading response body. Please retry. Original error: unexpected EOF"
                raise CallFailed(f"failed to call webhook: {why}") from None
    except aiohttp.InvalidURL:
        raise CallFailed(f'failed to call webhook: Post "{url}": unsupported protocol scheme') from None
    except (aiohttp.ClientError, OSError) as error:
        raise CallFailed(f'failed to call webhook: Post "{url}": {_go_words(error)}') from None


def _go_words(error: BaseException) -> str:
    """Go's message for a transport failure, as far as Python has the details."""
    cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"tls: failed to verify certificate: x509: {_certificate_words(cause)}"
    if isinstance(cause, ssl.SSLError):
        if cause.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST"):
            return "http: server gave HTTP response to HTTPS client"
        return f"remote error: tls: {(cause.reason or 'handshake failure').lower().replace('_', ' ')}"
    if isinstance(cause, _NoSuchServiceError):
        return str(cause)
    if isinstance(cause, socket.gaierror):
        return "dial tcp: lookup failed: no such host"
    if isinstance(cause, ConnectionRefusedError):
        place = _ADDRESS.search(str(cause))
        return (
            f"dial tcp {place[1]}:{place[2]}: connect: connection refused" if place else "connect: connection refused"
        )
    if isinstance(cause, ConnectionResetError):
        return "read: connection reset by peer"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    return str(error)


def _certificate_words(error: ssl.SSLCertVerificationError) -> str:
    message = error.verify_message
    if "mismatch" in message:
        wanted = re.search(r"not valid for '([^']+)'", message)
        return f"certificate is not valid for any names, but wanted to match {wanted[1] if wanted else 'another'}"
    if "expired" in message or "not yet valid" in message:
        return "certificate has expired or is not yet valid"
    return "certificate signed by unknown authority"


_MESSAGES = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}
"""The message of client-go for a status code, independent of the body."""
_KEEPING_THE_TEXT = frozenset({403, 415})


def _failure_message(status: int, headers: Any, body: bytes) -> str:
    """The message for an unsuccessful answer: that of a Status, else one for the code."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        document = None
    if isinstance(document, dict) and document.get("kind") == "Status" and document.get("status") == "Failure":
        return str(document.get("message") or "unknown")
    kind = headers.get("Content-Type", "")
    text = body.decode("utf-8", "replace")[:_MOST_TEXT].strip() if not kind or kind.startswith("text/") else "unknown"
    if status in _KEEPING_THE_TEXT:
        return text
    if status in _MESSAGES:
        return _MESSAGES[status]
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        quoted = orjson.dumps(text).decode()
        return f"an error on the server ({quoted}) has prevented the request from succeeding"
    return f"the server responded with the status code {status} but did not return more information"


def _go_syntax_error(body: bytes, error: orjson.JSONDecodeError) -> str:
    text = body.decode("utf-8", "replace")
    start = text.lstrip()
    if start and start[0] not in '{["-0123456789tfn':
        return f"invalid character '{start[0]}' looking for beginning of value"
    if error.pos >= len(text):
        return "unexpected end of JSON input"
    return f"invalid character '{text[error.pos]}'"


Phase = Literal["admit", "validating"]
"""Mutation or validation."""
ConditionEvent = Literal["exclusions", "evaluation_errors"]
_Sample = tuple[str, tuple[tuple[str, str], ...]]

_WEBHOOK, _CONDITION = "apiserver_admission_webhook_", "apiserver_admission_match_condition_"
_DURATION = f"{_WEBHOOK}admission_duration_seconds"
_TYPES = {
    _DURATION: "histogram",
    f"{_WEBHOOK}fail_open_count": "counter",
    f"{_WEBHOOK}rejection_count": "counter",
    f"{_WEBHOOK}request_total": "counter",
    f"{_CONDITION}exclusions_total": "counter",
    f"{_CONDITION}evaluation_errors_total": "counter",
}
_BOUNDS = (0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 25)
"""Of the buckets, in seconds."""
_LARGEST_CODE = 600
_CONDITION_TYPES: dict[Phase, str] = {"admit": "admit", "validating": "validate"}


class Denied(Refused):
    """A webhook refuses the write, with a status of its own."""


class CallCounts:
    """Counts since the start of the server, by name of the webhook."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns seconds."""
        self._clock = clock
        self._counts: defaultdict[_Sample, float] = defaultdict(float)

    @contextmanager
    def count_call(self, hook: Hook, attempt: Attempt, phase: Phase) -> Iterator[None]:
        """Count a call and its outcome; exceptions pass through."""
        began = self._clock()
        try:
            yield
        except CallFailed as error:
            if hook.ignores_failures:
                self._add(f"{_WEBHOOK}fail_open_count", hook, phase, {})
            else:
                self._reject(hook, attempt, phase, "calling_webhook_error", error.code)
            self._finish(hook, attempt, phase, began, code=error.code, rejected=not hook.ignores_failures)
            raise
        except Refused as refused:
            is_own = isinstance(refused, Denied)
            code = int(refused.status["code"]) if is_own else 0
            self._reject(hook, attempt, phase, "no_error" if is_own else "apiserver_internal_error", code)
            self._finish(hook, attempt, phase, began, code=code, rejected=True)
            raise
        self._finish(hook, attempt, phase, began, code=200, rejected=False)

    def count_condition(self, event: ConditionEvent, hook: Hook, attempt: Attempt, phase: Phase) -> None:
        """Count a write that matchConditions exclude, or a condition that could not be evaluated."""
        labels = {"kind": "webhook", "name": hook.name, "operation": attempt.operation, "type": _CONDITION_TYPES[phase]}
        self._counts[f"{_CONDITION}{event}_total", tuple(labels.items())] += 1

    def text(self) -> str:
        """All counts in the text format of Prometheus."""
        lines = []
        for metric, kind in _TYPES.items():
            lines.append(f"# TYPE {metric} {kind}")
            lines += sorted(
                _line(name, labels, count) for (name, labels), count in self._counts.items() if name.startswith(metric)
            )
        return "".join(f"{line}\n" for line in lines)

    def _reject(self, hook: Hook, attempt: Attempt, phase: Phase, kind: str, code: int) -> None:
        labels = {"error_type": kind, "operation": attempt.operation, "rejection_code": _code_label(code)}
        self._add(f"{_WEBHOOK}rejection_count", hook, phase, labels)

    def _finish(self, hook: Hook, attempt: Attempt, phase: Phase, began: float, *, code: int, rejected: bool) -> None:
        took = self._clock() - began
        labels = {"operation": attempt.operation, "rejected": str(rejected).lower()}
        self._add(f"{_WEBHOOK}request_total", hook, phase, {"code": _code_label(code), **labels})
        for bound in _BOUNDS:
            self._add(f"{_DURATION}_bucket", hook, phase, {**labels, "le": f"{bound:g}"}, float(took <= bound))
        self._add(f"{_DURATION}_bucket", hook, phase, {**labels, "le": "+Inf"})
        self._add(f"{_DURATION}_sum", hook, phase, labels, took)
        self._add(f"{_DURATION}_count", hook, phase, labels)

    def _add(self, metric: str, hook: Hook, phase: Phase, labels: Mapping[str, str], by: float = 1.0) -> None:
        everything = {"name": hook.name, "type": phase, **labels}
        self._counts[metric, tuple(sorted(everything.items()))] += by


def _code_label(code: int) -> str:
    return str(min(code, _LARGEST_CODE))


def _line(name: str, labels: tuple[tuple[str, str], ...], count: float) -> str:
    written = ",".join(f'{label}="{value}"' for label, value in labels)
    return f"{name}{{{written}}} {count:.15g}"
