"""Answers of the replicas, which doctor reaches through the pod proxy of the API server."""

from __future__ import annotations

import contextlib
import re
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import orjson

from policies.health import ReadinessAnswer, ReplicaAnswers, ReplicaMetrics, Unread
from policies.kubernetes.objects import name_of, namespace_of
from policies.kubernetes.paths import lookup, mappings_at
from webhook.cli.doctor.reads import readable
from webhook.cluster.answers import status_error
from webhook.cluster.errors import BadAnswer
from webhook.cluster.resources import RESOURCES

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object
    from webhook.cluster.client import APIClient

__all__ = ["read_replica"]

_PORT = "probes"
_DEFAULT_PORT = 8080
_SECONDS = 10.0
_VERSION, _EXPIRY, _DRIFT = (
    f"gpu_admission_{name}" for name in ("build_info", "certificate_expiry_timestamp_seconds", "quota_drift_total")
)
_LINE = re.compile(r'(\w+)(?:\{version="([^"]*)"\})? (\S+)')


async def read_replica(client: APIClient, pod: Object) -> ReplicaAnswers:
    """What the replica in a pod answers to `/readyz` and `/metrics`."""
    name = f"{name_of(pod)}:{_probe_port(pod)}"
    path = RESOURCES["Pod"].path(namespace_of(pod), name, "proxy")
    right = f"get pods/proxy -n {namespace_of(pod)}"
    readiness = await readable(right, _read_readiness(client, f"{path}/readyz"))
    if isinstance(readiness, Unread):
        return ReplicaAnswers(readiness, readiness)
    return ReplicaAnswers(readiness, await readable(right, _read_metrics(client, f"{path}/metrics")))


def _probe_port(pod: Object) -> int:
    for container in mappings_at(pod, ("spec", "containers")):
        for port in mappings_at(container, ("ports",)):
            if port.get("name") == _PORT and isinstance(port.get("containerPort"), int):
                return int(port["containerPort"])
    return _DEFAULT_PORT


async def _read_readiness(client: APIClient, path: str) -> ReadinessAnswer:
    """The answer of `/readyz`, which has status 503 while a replica is not ready.

    Raises:
        APIError: The API server refused, or did not reach the pod.
        Unreachable: The answer is not that of a replica.
    """
    answer = await client.read_through_proxy(path, timeout=_SECONDS)
    try:
        document = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        document = None
    if lookup(document, ("kind",)) == "Status":
        raise status_error(document, answer.status)
    if not isinstance(lookup(document, ("ready",)), bool):
        text = " ".join(answer.body[:200].decode(errors="replace").split())
        raise BadAnswer(f"GET {path}: {answer.status} {HTTPStatus(answer.status).phrase}: {text}")
    return ReadinessAnswer(document["ready"], _texts(document, "reasons"), _texts(document, "notes"))


def _texts(document: Any, key: str) -> tuple[str, ...]:
    found = document.get(key)
    return tuple(each for each in found if isinstance(each, str)) if isinstance(found, list) else ()


async def _read_metrics(client: APIClient, path: str) -> ReplicaMetrics:
    version, expiry, drift = "", None, 0
    async with contextlib.aclosing(client.text_lines(path, timeout=_SECONDS)) as lines:
        async for line in lines:
            if not line.startswith((_VERSION, _EXPIRY, _DRIFT)) or not (match := _LINE.fullmatch(line)):
                continue
            if match[1] == _VERSION:
                version = match[2] or ""
            elif match[1] == _EXPIRY and float(match[3]) > 0:
                expiry = datetime.fromtimestamp(float(match[3]), UTC)
            elif match[1] == _DRIFT:
                drift = int(float(match[3]))
    return ReplicaMetrics(version, expiry, drift)
