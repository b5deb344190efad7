"""Connections to the API server: TLS, proxy, keep-alive and their limits; and failures in plain words."""

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

from webhook.cluster.errors import NoCluster, Unreachable, Untrusted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from webhook.cluster.credentials import Access

__all__ = ["Transport"]

_CONNECT_SECONDS = 10.0
_MOST_CONNECTIONS = 32
"""For requests. Watches have their own connections, one each for as long as they last, so that neither waits for the
other."""
_READ_BUFFER = 2**20

# A peer that vanished silently is noticed after about a minute of silence on the wire, whatever the application
# waits for; client-go's HTTP/2 pings do the same.
_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 60_000}


class Transport:
    """Two pools of connections to one API server.

    kubernetes-asyncio's own reads certificates once, cannot ask for TCP keep-alive, and has one pool for all.

    Args:
        access: Where to connect, and how.

    Raises:
        NoCluster: the certificates cannot be used.
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
        """Send a request; inside, its answer can be read.

        Args:
            method: The HTTP method.
            path: Quoted already.
            query: Not quoted yet.
            headers: What to send beside what every request has.
            body: What to send.
            total: Seconds for everything, up to the last byte that is read; None for a watch.
            read: Seconds without a byte.

        Raises:
            Untrusted: the server's certificate does not verify.
            Unreachable: no answer came, or it broke off.
        """
        access = self.access
        session = self._watches if total is None else self._requests
        timeout = aiohttp.ClientTimeout(total=total, sock_connect=_CONNECT_SECONDS, sock_read=read)
        what = f"{method} {path} at {access.url}"
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
                yield response
        except TimeoutError as error:
            limit = read if total is None else total
            raise Unreachable(f"{what}: {_timed_out(error, limit)}") from error
        except aiohttp.ClientConnectorCertificateError as error:
            raise Untrusted(f"{what}: its certificate is not to be trusted: {error.certificate_error}") from error
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
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE.items():
        if hasattr(socket, option):  # systems differ in what they let set
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return made


def _tls(access: Access) -> ssl.SSLContext | bool:
    if access.url.startswith("http://"):
        return True
    try:
        context = ssl.create_default_context(cadata=access.ca.decode() if access.ca else None)
        # From Python 3.13 on it is strict, and the authorities of many clusters lack an Authority Key Identifier.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if access.certificate:
            context.load_cert_chain(*access.certificate, password=_no_password)
    except (ssl.SSLError, OSError, ValueError) as error:
        raise NoCluster(f"the certificates for {access.url} cannot be used: {error}") from error
    if not access.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _no_password() -> str:
    """Instead of asking at the terminal."""
    raise ValueError("the key is encrypted, and there is nobody to ask for its password")


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
            return f"the proxy cannot be reached: {_words(error)}"
        case aiohttp.ClientConnectorDNSError():
            return f"the name {error.host} cannot be resolved"
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
