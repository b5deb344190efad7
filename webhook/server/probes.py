"""Probes and metrics for the kubelet and Prometheus, over plain HTTP on a port of their own.

Plain HTTP, so that an invalid certificate shows as a reason in readiness and not as a failed handshake that restarts the
pod.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Literal

import orjson
from aiohttp import hdrs, web

from webhook.server.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


_logger = logging.getLogger("gpu_admission.service")


class Readiness:
    """The readiness of a server, with the reasons if it is not ready."""

    def __init__(self, checks: Sequence[Callable[[], str]], notes: Sequence[Callable[[], Iterable[str]]] = ()) -> None:
        """Begin in the phase `starting`, which is not ready.

        Args:
            checks: Called at every probe; each returns a reason for not being ready, or an empty string.
            notes: Called at every probe; each returns notes for the administrator, which do not affect readiness.
        """
        self._checks = checks
        self._notes = notes
        self.phase: Literal["starting", "serving", "stopping"] = "starting"
        self._logged: list[str] | None = None

    def reasons(self) -> list[str]:
        """The reason why the server is not ready; empty if it is ready."""
        reasons = [] if self.phase == "serving" else [f"the server is {self.phase}"]
        return reasons + [reason for check in self._checks if (reason := check())]

    def log(self, reasons: list[str]) -> None:
        """Log the reasons if they have changed, because the kubelet does not report them."""
        if reasons != self._logged:
            self._logged = reasons
            _logger.info("not ready: %s" if reasons else "ready%s", "; ".join(reasons))

    def notes(self) -> list[str]:
        """Notes for the administrator."""
        return [note for notes in self._notes for note in notes()]


READINESS = web.AppKey("readiness", Readiness)
METRICS = web.AppKey("metrics", Metrics)


def create_probes(readiness: Readiness, metrics: Metrics) -> web.Application:
    """The application that answers `/livez`, `/readyz` and `/metrics`."""
    app = web.Application()
    app[READINESS] = readiness
    app[METRICS] = metrics
    app.router.add_get("/livez", _livez)
    app.router.add_get("/readyz", _readyz)
    app.router.add_get("/metrics", _metrics)
    return app


async def _livez(request: web.Request) -> web.Response:
    """Always ok: only a blocked event loop, which cannot answer, needs a restart."""
    return web.Response(text="ok\n")


async def _readyz(request: web.Request) -> web.Response:
    readiness = request.app[READINESS]
    reasons = readiness.reasons()
    readiness.log(reasons)
    answer = {"ready": not reasons, "reasons": reasons, "notes": readiness.notes()}
    body = orjson.dumps(answer, option=orjson.OPT_APPEND_NEWLINE)
    return web.Response(status=503 if reasons else 200, body=body, content_type="application/json")


async def _metrics(request: web.Request) -> web.Response:
    """The metrics in the format that the scraper accepts."""
    exposition = request.app[METRICS].exposition(", ".join(request.headers.getall(hdrs.ACCEPT, ())))
    # The devices of a large cluster are tens of thousands of lines.
    body = await asyncio.to_thread(exposition.text)
    return web.Response(body=body, headers={hdrs.CONTENT_TYPE: exposition.content_type})
