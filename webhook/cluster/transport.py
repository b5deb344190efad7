"""Connections to the API server: TLS, proxy, keep-alive, limits, and messages for failures."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import aiohttp
from yarl import URL

from webhook.cluster.answers import NoCluster, Silent, Unreachable, Untrusted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from webhook.cluster.credentials import Access


_CONNECT_SECONDS = 10.0
_MOST_CONNECTIONS = 32
"""For requests. Each watch has its own connection, so that neither waits for the other."""
_READ_BUFFER = 2**20

# Detects a lost peer after about a minute without packets, independent of time-outs, like client-go's HTTP/2 pings.
_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 60_000}


class Transport:
    """Two pools of connections to one API server.

    kubernetes-asyncio reads certificates only once, cannot enable TCP keep-alive, and has one pool for everything.

    Args:
        access: How to connect.

    Raises:
        NoCluster: The certificates cannot be used.
    """

    def __init__(self, access: Access) -> None:
        self.access = access
        tls = _tls(access)
        self._requests = _session(tls, _MOST_CONNECTIONS)
        self._watches = _session(tls, 0)

    @contextlib.asynccontextmanager
    async def answer(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes | None = None,
        *,
        total: float | None = None,
        read: float | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Sends a request; the answer can be read inside the context.

        Args:
            method: The HTTP method.
            path: The quoted path.
            query: Parameters, not quoted.
            headers: Further headers.
            body: The body.
            total: Seconds until the last byte is read; None for a watch.
            read: Seconds without a byte.

        Raises:
            Untrusted: The server's certificate does not verify.
            Unreachable: No answer arrived, or it broke off.
        """
        access = self.access
        session = self._watches if total is None else self._requests
        timeout = aiohttp.ClientTimeout(total=total, sock_connect=_CONNECT_SECONDS, sock_read=read)
        what, is_open = f"{method} {path} at {access.url}", False
        try:
            async with session.request(
                method,
                URL(access.url + path, encoded=True).with_query(dict(query)),
                data=body,
                headers=headers,
                timeout=timeout,
                proxy=access.proxy,
                server_hostname=access.server_name,
                allow_redirects=False,
            ) as response:
                is_open = True
                yield response
        except TimeoutError as error:
            if is_open and total is None:
                raise Silent(f"{what}: nothing came for {read:g} seconds") from error
            limit = read if total is None else total
            raise Unreachable(f"{what}: {_timed_out(error, limit)}") from error
        except aiohttp.ClientConnectorCertificateError as error:
            raise Untrusted(f"{what}: the server's certificate is not trusted: {error.certificate_error}") from error
        except (aiohttp.ClientError, OSError, ValueError, asyncio.IncompleteReadError) as error:
            raise Unreachable(f"{what}: {_cause(error)}") from error

    async def close(self) -> None:
        """Close every connection."""
        await self._requests.close()
        await self._watches.close()


def _session(tls: ssl.SSLContext | bool, limit: int) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=tls, limit=limit, socket_factory=_socket),
        headers={"Accept": "application/json", "User-Agent": f"gpu-admission/{version('gpu-admission')}"},
        read_bufsize=_READ_BUFFER,
        cookie_jar=aiohttp.DummyCookieJar(),
    )


def _socket(address: tuple[Any, ...]) -> socket.socket:
    family, kind, protocol, *_ = address
    created = socket.socket(family, kind, protocol)
    created.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE.items():
        if hasattr(socket, option):  # not every system has all of them
            created.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return created


def _tls(access: Access) -> ssl.SSLContext | bool:
    if access.url.startswith("http://"):
        return True
    try:
        context = ssl.create_default_context(cadata=access.ca.decode() if access.ca else None)
        # Python 3.13 is strict by default, and the CAs of many clusters lack an Authority Key Identifier.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if access.certificate:
            context.load_cert_chain(*access.certificate, password=_no_password)
    except (ssl.SSLError, OSError, ValueError) as error:
        raise NoCluster(f"cannot use the certificates for {access.url}: {error}") from error
    if not access.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _no_password() -> str:
    """Raises instead of prompting at the terminal."""
    raise ValueError("the key is encrypted; a key without a password is required")


def _timed_out(error: TimeoutError, limit: float | None) -> str:
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return f"no connection within {_CONNECT_SECONDS:g} seconds; a firewall or a NetworkPolicy may drop it"
    if limit is None:
        return "no answer in time"
    return f"no answer within {limit:g} seconds"


def _cause(error: Exception) -> str:
    match error:
        case aiohttp.ClientHttpProxyError():
            return f"the proxy refused with {error.status} {error.message}"
        case aiohttp.ClientProxyConnectionError():
            return f"cannot reach the proxy: {_words(error)}"
        case aiohttp.ClientConnectorDNSError():
            return f"cannot resolve the name {error.host}"
        case aiohttp.ClientConnectorError():
            return f"no connection: {_words(error)}"
        case aiohttp.ServerDisconnectedError() | ConnectionError() | aiohttp.ClientPayloadError():
            return "the connection broke off"
        case _:
            return _words(error)


def _words(error: Exception) -> str:
    number = error.errno if isinstance(error, OSError) else None
    text = (
        os.strerror(number) if number and number > 0 and not isinstance(error, aiohttp.ClientSSLError) else str(error)
    )
    return " ".join((text or type(error).__name__).split())[:300]
