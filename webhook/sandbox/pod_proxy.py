"""The `proxy` subresource of pods: a request for a pod, sent to its address.

Source: k8s.io/kubernetes pkg/registry/core/pod/strategy.go, ResourceLocation; k8s.io/apimachinery pkg/util/proxy. Unlike an API
server, the sandbox reaches pods at loopback addresses too, because it has no pod network.
"""

from __future__ import annotations

import ipaddress
import os
import re
from typing import TYPE_CHECKING

import aiohttp
from aiohttp import hdrs, web
from yarl import URL

from policies.kubernetes.paths import lookup, mappings_at
from webhook.cluster.resources import RESOURCES
from webhook.sandbox import statuses

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object
    from webhook.sandbox.attempt import Objects, Refused

__all__ = ["ProxyTarget", "forward", "parse_proxy_path"]

_PATH = re.compile(r"/api/v1/namespaces/([^/]+)/pods/(?:(https?):)?([^/:]+)(?::([^/:]*))?/proxy(/.*)?")
_SECONDS = 30.0
_DEFAULT_PORTS = {"http": 80, "https": 443}


class ProxyTarget:
    """A pod, and the part of the path that is sent to it."""

    def __init__(self, match: re.Match[str]) -> None:
        self.namespace, self.name, self.path = match[1], match[3], match[5] or "/"
        self.scheme, self.port = match[2] or "http", match[4] or ""


def parse_proxy_path(path: str) -> ProxyTarget | None:
    """The target of a path of the pod proxy; None for another path."""
    match = _PATH.fullmatch(path)
    return ProxyTarget(match) if match else None


async def forward(objects: Objects, target: ProxyTarget, request: web.Request) -> web.Response:
    """The answer of a pod to a GET.

    Raises:
        Refused: The pod does not exist, has no address, or does not answer.
    """
    if request.method != hdrs.METH_GET:
        raise statuses.method_not_allowed()
    pod = objects.get("Pod", target.name, target.namespace)
    if pod is None:
        raise statuses.not_found(RESOURCES["Pod"], target.name)
    host, port = _address_of(pod, target)
    url = URL.build(scheme=target.scheme, host=host, port=port, path=target.path, query=request.query)
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_SECONDS)) as session,
            session.get(url, allow_redirects=False, ssl=False) as response,
        ):
            kind = {hdrs.CONTENT_TYPE: response.headers.get(hdrs.CONTENT_TYPE, "text/plain")}
            return web.Response(status=response.status, body=await response.read(), headers=kind)
    except (aiohttp.ClientError, OSError) as error:
        raise _unreachable(f"dial tcp {host}:{port}: connect: {_reason(error)}") from None


def _address_of(pod: Object, target: ProxyTarget) -> tuple[str, int]:
    """The address of a pod, and the port that was requested, else its first one."""
    address = str(lookup(pod, ("status", "podIP")) or "")
    try:
        ipaddress.ip_address(address)
    except ValueError:
        raise statuses.bad_request("address not allowed") from None
    ports = [
        port["containerPort"]
        for container in mappings_at(pod, ("spec", "containers"))
        for port in mappings_at(container, ("ports",))
        if isinstance(port.get("containerPort"), int)
    ]
    if target.port:
        if not target.port.isdecimal():
            raise statuses.bad_request(f"invalid port {target.port!r}")
        return address, int(target.port)
    return address, ports[0] if ports else _DEFAULT_PORTS[target.scheme]


def _reason(error: Exception) -> str:
    number = error.errno if isinstance(error, OSError) else None
    return os.strerror(number).lower() if number and number > 0 else str(error) or "no answer in time"


def _unreachable(why: str) -> Refused:
    return statuses.failure(503, "ServiceUnavailable", f"error trying to reach service: {why}", {})
