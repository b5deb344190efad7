"""Probes: what the kubelet and Prometheus ask, over plain HTTP on a port of its own.

Plain HTTP, so that a certificate that went wrong shows as a reason for not being ready and not as a failed handshake
that restarts the pod.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Literal

import orjson
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from webhook.server.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = ["METRICS", "READINESS", "Readiness", "create_probes"]

_logger = logging.getLogger("gpu_admission.service")


class Readiness:
    """Whether callers should be sent here, with the reasons why not."""

    def __init__(self, checks: Sequence[Callable[[], str]], notes: Sequence[Callable[[], Iterable[str]]] = ()) -> None:
        """Begin as not ready, since nothing listens yet.

        Args:
            checks: Asked at every probe; each gives a reason for not being ready, or an empty text.
            notes: Asked at every probe; what an administrator should know, and what keeps nobody from being ready.
        """
        self._checks = checks
        self._notes = notes
        self.phase: Literal["starting", "serving", "stopping"] = "starting"
        self._logged: list[str] | None = None

    def reasons(self) -> list[str]:
        """Why callers should not be sent here; empty when they should."""
        reasons = [] if self.phase == "serving" else [f"the server is {self.phase}"]
        return reasons + [reason for check in self._checks if (reason := check())]

    def log(self, reasons: list[str]) -> None:
        """Log the reasons where they are others than before: a probe that fails tells nobody else why."""
        if reasons != self._logged:
            self._logged = reasons
            _logger.info("not ready: %s" if reasons else "ready%s", "; ".join(reasons))

    def notes(self) -> list[str]:
        """What an administrator should know."""
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
    """The event loop turns, or this would not be answered; nothing else would be mended by a restart."""
    return web.Response(text="ok\n")


async def _readyz(request: web.Request) -> web.Response:
    readiness = request.app[READINESS]
    reasons = readiness.reasons()
    readiness.log(reasons)
    answer = {"ready": not reasons, "reasons": reasons, "notes": readiness.notes()}
    body = orjson.dumps(answer, option=orjson.OPT_APPEND_NEWLINE)
    return web.Response(status=503 if reasons else 200, body=body, content_type="application/json")


async def _metrics(request: web.Request) -> web.Response:
    return web.Response(body=request.app[METRICS].text(), headers={"Content-Type": CONTENT_TYPE_LATEST})
