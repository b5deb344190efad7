"""The service: starts the servers, and stops them without losing a call."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from aiohttp import web

from certs import BadKeyPair
from webhook.server.admission import Admission
from webhook.server.app import TRAFFIC, create_app
from webhook.server.callers import Callers
from webhook.server.certificates import ServingCertificate
from webhook.server.config import CannotServe
from webhook.server.connections import create_runner
from webhook.server.explainer import Explainer
from webhook.server.metrics import Metrics
from webhook.server.probes import Readiness, create_probes
from webhook.server.tls import BadClientCA

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView
    from webhook.server.config import ServerConfig

__all__ = ["Ready", "Service", "serve"]

_SWITCH_SECONDS = 0.0005
"""After how long a thread that computes lets the others have a turn. Python's own 5 ms, several times in each review,
are tens of milliseconds while something is explained."""

_logger = logging.getLogger("gpu_admission.service")


@dataclass(frozen=True, slots=True)
class Ready:
    """What callers need to know of a server that has started."""

    host: str
    port: int
    probe_port: int
    ca_pem: bytes | None
    """The certificate to verify the server with, where the server made its own."""


class Service:
    """The webhook over TLS, and its probes over plain HTTP."""

    def __init__(
        self,
        config: ServerConfig,
        view: ClusterView,
        settings: GPUAdmissionPolicy,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Prepare everything that can go wrong before anything listens.

        Raises:
            CannotServe: There is no certificate to serve with, or a file cannot be read or written.
        """
        self._config = config
        try:
            self._certificate = ServingCertificate(config, now=now)
        except (BadKeyPair, BadClientCA) as error:
            raise CannotServe(str(error)) from error
        callers = Callers(config.clients.names if config.clients else None)
        metrics = Metrics()
        metrics.watch_certificate(self._certificate.expiry)
        self._app = create_app(Admission(view, settings, metrics), callers, Explainer(view, settings))
        self._readiness = Readiness([self._certificate.problem], [callers.note])
        self._webhook = create_runner(self._app)
        self._probes = create_runner(create_probes(self._readiness, metrics))
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> Ready:
        """Listen; answer probes from the beginning, and reviews from the end.

        Raises:
            CannotServe: A port is taken or not allowed.
        """
        config = self._config
        try:
            probe_port = await _listen(self._probes, config.host, config.probe_port)
            port = await _listen(self._webhook, config.host, config.port, self._certificate.reloading.context)
        except CannotServe:
            await self.close()
            raise
        if self._certificate.watcher is not None:
            self._watching = asyncio.create_task(self._certificate.watcher.watch(config.reload_seconds))
            self._watching.add_done_callback(_log_end)
        self._readiness.phase = "serving"
        _logger.info("serving on port %d, probes and metrics on port %d", port, probe_port)
        return Ready(config.host, port, probe_port, self._certificate.ca_pem)

    async def drain(self, hurry: asyncio.Event) -> None:
        """Send callers elsewhere, and come back when the last call is answered.

        Readiness fails at once, but endpoints take seconds to learn of it, and connections that are open stay open
        until an answer says `Connection: close`. So calls are answered as ever for `drain_delay`.

        Args:
            hurry: Ends that delay when it is set.
        """
        self._readiness.phase = "stopping"
        traffic = self._app[TRAFFIC]
        traffic.draining = True
        _logger.info("stopping: serving on for %g seconds", self._config.drain_delay)
        try:
            async with asyncio.timeout(self._config.drain_delay):
                await hurry.wait()
        except TimeoutError:
            pass
        for site in self._webhook.sites:
            await site.stop()
        if not await traffic.quiet(self._config.drain_timeout):
            _logger.warning("calls are still under way after %g seconds and are cut off", self._config.drain_timeout)
        await self.close()
        _logger.info("stopped")

    async def close(self) -> None:
        """Close everything now."""
        if self._watching is not None:
            self._watching.cancel()
        await self._webhook.cleanup()
        await self._probes.cleanup()


async def serve(
    config: ServerConfig,
    view: ClusterView,
    settings: GPUAdmissionPolicy,
    on_ready: Callable[[Ready], None] = lambda _: None,
) -> None:
    """Serve until SIGTERM or SIGINT, then drain and come back; a second signal ends the delay of draining.

    Args:
        config: How to run.
        view: The cluster as the policies see it.
        settings: The administrator's choices.
        on_ready: Called once, when calls can come.

    Raises:
        CannotServe: There is no certificate to serve with, a file cannot be read or written, or a port is taken.
    """
    service = Service(config, view, settings)
    stop, hurry = asyncio.Event(), asyncio.Event()

    def stop_or_hurry() -> None:
        (hurry if stop.is_set() else stop).set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop_or_hurry)
    try:
        ready = await service.start()
        # What is there now stays; the collector need not look at it again, which spares the slowest calls milliseconds.
        gc.collect()
        gc.freeze()
        sys.setswitchinterval(_SWITCH_SECONDS)
        on_ready(ready)
        await stop.wait()
        await service.drain(hurry)
    finally:
        await service.close()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


async def _listen(runner: web.AppRunner, host: str, port: int, context: ssl.SSLContext | None = None) -> int:
    await runner.setup()
    site = web.TCPSite(runner, host or None, port, ssl_context=context)
    try:
        await site.start()
    except (OSError, UnicodeError) as error:
        # asyncio wraps the reason into words that change with its version; a name that is none at all is a UnicodeError.
        number = error.errno if isinstance(error, OSError) else None
        reason = os.strerror(number) if number and number > 0 else str(error)
        where = f"port {port} of {host or 'this machine'}"
        raise CannotServe(f"The server cannot listen on {where}: {reason}; choose another one.") from error
    return site.port


def _log_end(watching: asyncio.Task[None]) -> None:
    if not watching.cancelled():
        _logger.critical("certificate files are no longer watched", exc_info=watching.exception())
