"""Another webhook, which refuses pods that all others admitted."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from aiohttp import web

from certs import issue_serving, make_authority
from tests.storm.harness.orders import REFUSED
from webhook.server.tls import server_context

if TYPE_CHECKING:
    from tests.storm.harness.orders import Document

__all__ = ["Refuser"]

_NAME = "refuser.storm.example"


class Refuser:
    """Listens over TLS on an address of this machine."""

    def __init__(self) -> None:
        app = web.Application()
        app.router.add_post("/", _refuse)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)

    async def listen(self, host: str) -> Document:
        """Begin; gives the configuration that makes API servers call it."""
        now = datetime.now(UTC)
        authority = make_authority("another webhook", now=now)
        await self._runner.setup()
        context = server_context(issue_serving(authority, [host], now=now))
        site = web.TCPSite(self._runner, host, 0, ssl_context=context)
        await site.start()
        port = self._runner.addresses[0][1]
        bundle = base64.b64encode(authority.certificate_pem).decode()
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": _NAME},
            "webhooks": [
                {
                    "name": _NAME,
                    "clientConfig": {"url": f"https://{host}:{port}/", "caBundle": bundle},
                    "rules": [
                        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
                    ],
                    "objectSelector": {"matchExpressions": [{"key": REFUSED, "operator": "Exists"}]},
                    "sideEffects": "None",
                    "admissionReviewVersions": ["v1"],
                }
            ],
        }

    async def close(self) -> None:
        """Stop."""
        await self._runner.cleanup()


async def _refuse(request: web.Request) -> web.Response:
    review = await request.json()
    said = {"uid": review["request"]["uid"], "allowed": False, "status": {"code": 403, "message": "storm: refused"}}
    return web.json_response({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": said})
