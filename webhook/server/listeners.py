"""The listening addresses of a server, and its certificate."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import signal
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from certs import KeyPairFiles, issue_serving, make_authority
from webhook.cluster.garbage_collection import collect_rarely
from webhook.server.config import CannotServe
from webhook.server.guarded_connection import Endpoint, OpenConnections
from webhook.server.guarded_site import (
    GuardedSite,
    create_application_runner,
    create_reporting_runner,
    create_runner,
    protocol_factory,
)
from webhook.server.metrics import PORTS
from webhook.server.probes import create_probes
from webhook.server.tls import FileWatcher, ReloadingContext

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable
    from typing import NoReturn

    from aiohttp import web

    from webhook.server.app import Calls, Traffic
    from webhook.server.config import ListenConfig, SelfSigned
    from webhook.server.guarded_site import Handle
    from webhook.server.metrics import Metrics
    from webhook.server.probes import Readiness
    from webhook.server.questions import ExplainCalls
    from webhook.server.ui_calls import UICalls


_LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingCertificate:
    """The certificate that a server shows to its clients."""

    reloading: ReloadingContext
    ca_pem: bytes | None = None
    """The authority's certificate, if the certificate was issued at start."""
    watcher: FileWatcher | None = None
    """Reloads changed files, if the certificate is in files."""
    now: Callable[[], datetime]

    def expiry(self) -> float:
        """When the certificate being served, or one of its chain, expires, in seconds since 1970."""
        return self.reloading.pair.not_after.timestamp()

    def problem(self) -> str:
        """The reason why clients would refuse the certificate; empty if they accept it."""
        end = self.reloading.pair.not_after
        if self.now() <= end:
            return ""
        return f"the serving certificate expired at {end.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def certificate_of(
    source: KeyPairFiles | SelfSigned, client_ca: bytes | None, *, now: Callable[[], datetime]
) -> ServingCertificate:
    """Read or issue the serving certificate.

    Args:
        source: The files to read, or the names to issue it for.
        client_ca: The bundle that `client_ca_of` returns.
        now: Returns the current time with a time zone.

    Raises:
        BadKeyPair: the files contain no usable key pair.
        BadClientCA: the client CAs are invalid.
        CannotServe: the authority's certificate cannot be written.
    """
    if isinstance(source, KeyPairFiles):
        reloading = ReloadingContext(source.load(now()), client_ca, clock=now)
        return ServingCertificate(reloading=reloading, watcher=FileWatcher(source, reloading), now=now)
    began = now()
    authority = make_authority("gpu-admission self-signed", now=began)
    pair = issue_serving(authority, list(dict.fromkeys((*_LOCAL_NAMES, *source.names))), now=began)
    ca_pem, path = authority.certificate_pem, source.ca_file
    if path is not None:
        # Written atomically, so that no reader sees a part of it.
        unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            unfinished.write_bytes(ca_pem)
            unfinished.replace(path)
        except OSError as error:
            raise CannotServe(f"The CA certificate cannot be written to {path}: {error.strerror}.") from error
    return ServingCertificate(reloading=ReloadingContext(pair, client_ca, clock=now), ca_pem=ca_pem, now=now)


def client_ca_of(config: ListenConfig) -> bytes | None:
    """The authorities of client certificates as PEM; None if clients need no certificate.

    Raises:
        CannotServe: the file cannot be read.
    """
    if config.clients is None:
        return None
    path = config.clients.ca_file
    try:
        return path.read_bytes()
    except OSError as error:
        raise CannotServe(f"The client CAs in {path} cannot be read: {error.strerror}.") from error


_INTERVAL = 0.1


async def measure_loop_lag(
    observe: Callable[[float], None],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> NoReturn:
    """Report the lag of the event loop ten times a second, until cancelled.

    Args:
        observe: Called with seconds, at each probe.
        clock: Returns monotonic seconds.
        sleep: Waits for some seconds.
    """
    while True:
        due = clock() + _INTERVAL
        await sleep(_INTERVAL)
        observe(max(clock() - due, 0.0))


_logger = logging.getLogger("gpu_admission.service")


@dataclass(frozen=True, slots=True)
class Ready:
    """The addresses and the CA of a server that has started."""

    host: str
    port: int
    probe_port: int
    explain_port: int
    ui_port: int | None
    """None if no page is served."""
    ca_pem: bytes | None
    """The certificate to verify the server with, if the server issued its own."""


class Listeners:
    """The webhook, explanations and the page over TLS, and probes over plain HTTP."""

    def __init__(self, config: ListenConfig, readiness: Readiness, metrics: Metrics) -> None:
        """Prepare; nothing listens yet."""
        self._config = config
        self._readiness = readiness
        metrics.watch_readiness(lambda: not readiness.reasons())
        self._metrics = metrics
        self._open = {port: OpenConnections(config.connections, metrics.closed_by(port)) for port in PORTS}
        metrics.watch_connections({port: connections.__len__ for port, connections in self._open.items()})
        self._probes = create_application_runner(create_probes(readiness, metrics))
        self._probe_port = 0
        self._runners: list[web.ServerRunner] = []
        """Of the webhook, explanations and the page, which are drained."""
        self._peers: web.ServerRunner | None = None
        self._traffics: list[Traffic] = []
        self._watching: asyncio.Task[None] | None = None
        self._measuring: asyncio.Task[None] | None = None

    async def answer_probes(self) -> None:
        """Listen for probes, which show why the server is not ready yet.

        Raises:
            CannotServe: the port is taken or not allowed.
        """
        self._probe_port = await self._listen("probes", self._probes, self._config.probe_port)
        self._measuring = asyncio.create_task(measure_loop_lag(self._metrics.observe_loop_lag))

    async def answer_calls(
        self, calls: Calls, explain_calls: ExplainCalls, ui_calls: UICalls | None, certificate: ServingCertificate
    ) -> Ready:
        """Listen for reviews and questions too, and for the page's calls unless they are None.

        Reviews and questions count their calls in the same traffic.

        Raises:
            CannotServe: The port is taken or not allowed.
        """
        config = self._config
        self._traffics = [calls.traffic]
        self._runners = [create_runner(calls.handle), create_runner(explain_calls.handle)]
        context = certificate.reloading.context
        port = await self._listen("webhook", self._runners[0], config.port, context)
        explain_port = await self._listen("explain", self._runners[1], config.explain_port, context)
        ui_port = None
        if ui_calls is not None:
            self._traffics.append(ui_calls.traffic)
            self._runners.append(create_runner(ui_calls.handle))
            ui_port = await self._listen("ui", self._runners[2], config.ui_port or 0, context)
            _logger.info("the page is at /ui on port %d", ui_port)
        if certificate.watcher is not None:
            self._watching = asyncio.create_task(certificate.watcher.watch(config.reload_seconds))
            self._watching.add_done_callback(_log_end)
        self._readiness.phase = "serving"
        _logger.info(
            "serving on port %d, explanations on port %d, probes and metrics on port %d",
            port,
            explain_port,
            self._probe_port,
        )
        return Ready(config.host, port, self._probe_port, explain_port, ui_port, certificate.ca_pem)

    async def answer_peers(self, handle: Handle, context: ssl.SSLContext) -> int:
        """Listen for other replicas; returns the port.

        Args:
            handle: Answers a connection until it ends.
            context: How to serve TLS.

        Raises:
            CannotServe: The port is taken or not allowed.
        """
        self._peers = create_reporting_runner(handle)
        return await self._listen("peers", self._peers, self._config.peer_port, context)

    async def drain(self, hurry: asyncio.Event) -> None:
        """Close connections after their answers, and return when the last call is answered.

        Readiness fails at once, but endpoints take seconds to learn of it, and connections that are open stay open
        until an answer says `Connection: close`. So calls are answered as ever for `drain_delay`.

        Args:
            hurry: Ends that delay when it is set.
        """
        self._readiness.phase = "stopping"
        if not self._traffics:
            return
        for traffic in self._traffics:
            traffic.drain()
        _logger.info("stopping: serving on for %g seconds", self._config.drain_delay)
        try:
            async with asyncio.timeout(self._config.drain_delay):
                await hurry.wait()
        except TimeoutError:
            pass
        for runner in self._runners:
            for site in runner.sites:
                await site.stop()
        idle = [traffic.wait_until_idle(self._config.drain_timeout) for traffic in self._traffics]
        if not all(await asyncio.gather(*idle)):
            _logger.warning("calls are still under way after %g seconds and are cut off", self._config.drain_timeout)

    async def close(self) -> None:
        """Close everything now."""
        for task in (self._watching, self._measuring):
            if task is not None:
                task.cancel()
        for runner in (*self._runners, *([] if self._peers is None else [self._peers])):
            await runner.cleanup()
        await self._probes.cleanup()
        for connections in self._open.values():
            connections.abort_all()
        await asyncio.sleep(0)  # asyncio closes sockets in the next turn of the loop

    async def _listen(self, name: str, runner: web.BaseRunner, port: int, context: ssl.SSLContext | None = None) -> int:
        await runner.setup()
        config = self._config
        known_names = config.clients.names if config.clients else frozenset()
        endpoint = Endpoint(protocol_factory(runner), self._open[name], context, known_names)
        site = GuardedSite(runner, config.host, port, endpoint)
        try:
            await site.start()
        except (OSError, UnicodeError) as error:
            # asyncio wraps the reason into words that change with its version; a name that is none at all is a
            # UnicodeError.
            number = error.errno if isinstance(error, OSError) else None
            reason = os.strerror(number) if number and number > 0 else str(error)
            where = f"port {port} of {config.host or 'this machine'}"
            raise CannotServe(f"The server cannot listen on {where}: {reason}; choose another one.") from error
        return site.port


def _log_end(watching: asyncio.Task[None]) -> None:
    if not watching.cancelled():
        _logger.critical("the certificate files are no longer watched", exc_info=watching.exception())


_SWITCH_SECONDS = 0.0005
"""The switch interval of threads. With Python's default of 5 ms, reviews take tens of milliseconds longer while something
is explained, and probes while the warm-up runs."""


class Server(Protocol):
    """A server that `run` starts, drains and closes."""

    async def start(self) -> Ready:
        """Return when the server accepts calls; after cancellation, `close` cleans up."""
        ...

    async def drain(self, hurry: asyncio.Event) -> None:
        """Answer the remaining calls, then return; `hurry` ends the delay."""
        ...

    async def close(self) -> None:
        """Close everything now; may be called more than once."""
        ...


async def run(server: Server, on_ready: Callable[[Ready], None] = lambda _: None) -> None:
    """Run a server until SIGTERM or SIGINT, then drain and close it.

    A second signal ends the delay of draining. A signal before the server has started closes it at once.

    Args:
        server: The server to run.
        on_ready: Called once, when the server accepts calls.

    Raises:
        CannotServe: the certificate is missing, a file cannot be read or written, or a port is taken.
    """
    # The soft limit of open files is often 1,024, and every connection is a file.
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    set_up_interpreter()
    stop, hurry = asyncio.Event(), asyncio.Event()

    def stop_or_hurry() -> None:
        (hurry if stop.is_set() else stop).set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop_or_hurry)
    try:
        ready = await _start(server, stop)
        if ready is None:
            return
        # These objects are permanent. Without them, garbage collection takes milliseconds less from the slowest calls.
        gc.collect()
        gc.freeze()
        on_ready(ready)
        await stop.wait()
        await server.drain(hurry)
    finally:
        await server.close()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


def set_up_interpreter() -> None:
    """Set how often threads switch, and how often garbage is collected."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    collect_rarely()


async def _start(server: Server, stop: asyncio.Event) -> Ready | None:
    """Start the server; None if a signal stopped it first."""
    starting, stopping = asyncio.create_task(server.start()), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return await starting if starting.done() else None
    finally:
        for task in (starting, stopping):
            task.cancel()
        await asyncio.wait({starting, stopping})
