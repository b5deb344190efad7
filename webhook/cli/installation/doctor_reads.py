"""Reads of doctor: what RBAC forbids, or does not answer in time, is unread, and the rest goes on."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import re
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import orjson

from certs.authority import refusal
from certs.keypair import BadKeyPair, KeyPair
from policies.analyses.installation import (
    METRICS,
    Bundle,
    ReadinessAnswer,
    ReplicaAnswers,
    ReplicaMetrics,
    StoredCertificates,
    Unread,
    calls_in,
)
from policies.analyses.installation.rights import Right
from policies.kubernetes.objects import items_at, lookup, mapping_at, mappings_at, name_of, namespace_of
from webhook.cluster.answers import APIError, BadAnswer, ClusterError, status_error
from webhook.cluster.kind_reads import Unreadable, Why, read_list, read_object
from webhook.cluster.lists import PAGE, raw_pages
from webhook.cluster.resources import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator, Mapping, Sequence

    from policies.analyses.installation import APIServerCalls
    from policies.kubernetes.objects import Object
    from webhook.cli.running_clusters import Discovery
    from webhook.cluster.client import APIClient
    from webhook.cluster.resources import Resource
    from webhook.cluster.watched_kinds import Watched


Result = TypeVar("Result")

_SECONDS = 30.0
"""For one fact, with all pages of a list."""
_EXPECTED = (Why.NOT_SERVED,)
"""The reason that `readable` gets as a result; it catches the others as errors."""


async def readable(right: str, read: Awaitable[Result | Unreadable]) -> Result | Unread:
    """The result of a read, or why there is none.

    Args:
        right: What the read needs, in the words of `kubectl auth can-i`.
        read: The read.
    """
    try:
        async with asyncio.timeout(_SECONDS):
            found = await read
    except TimeoutError:
        return Unread(error=f"no complete answer within {_SECONDS:g} seconds")
    except APIError as error:
        return Unread(right=right) if error.is_forbidden else Unread(error=str(error))
    except ClusterError as error:
        return Unread(error=str(error))
    return Unread(error=str(found)) if isinstance(found, Unreadable) else found


def _right(verb: str, resource: Resource, namespace: str = "", name: str = "") -> str:
    return Right(verb, resource.group, resource.plural, namespace, name).text


async def read_named(client: APIClient, resource: Resource, name: str, namespace: str = "") -> Object | Unread | None:
    """One object; None if it does not exist."""
    read = read_object(client, resource, name, namespace, expected=_EXPECTED)
    return await readable(_right("get", resource, namespace, name), read)


async def read_manifest_object(client: APIClient, discovery: Discovery, wanted: Object) -> Object | Unread | None:
    """The stored object for one of the manifests; None if it does not exist, or its kind is not served.

    The right that is missing is that for all objects of the kind, so that it is named once.
    """
    resource = await readable(f"discover {wanted.get('apiVersion')}", discovery.resource(wanted))
    if resource is None or isinstance(resource, Unread):
        return resource
    found = await read_named(client, resource, name_of(wanted), namespace_of(wanted))
    if isinstance(found, Unread) and found.right:
        return Unread(right=_right("get", resource, namespace_of(wanted)))
    return found


async def list_objects(client: APIClient, wanted: Watched) -> Sequence[Object] | Unread:
    """The objects of a list; empty if its kind is not installed."""
    read = read_list(client, wanted, expected=_EXPECTED)
    return await readable(_right("list", wanted.resource, wanted.namespace), read)


async def count_nodes(client: APIClient, resource: Resource, most: int) -> int | Unread:
    """The number of nodes that are ready and accept all pods; stops to read beyond `most`."""

    async def read() -> int:
        count = 0
        async with contextlib.aclosing(raw_pages(client, resource, limit=PAGE)) as found:
            async for page in found:
                count += sum(map(_accepts_pods, page.items))
                if count >= most:
                    break
        return count

    return await readable(_right("list", resource), read())


def _accepts_pods(node: Object) -> bool:
    conditions = mappings_at(node, ("status", "conditions"))
    taints = items_at(node, ("spec", "taints"))
    return (
        not lookup(node, ("spec", "unschedulable"))
        and any((each.get("type"), each.get("status")) == ("Ready", "True") for each in conditions)
        and not any(lookup(each, ("effect",)) in ("NoSchedule", "NoExecute") for each in taints)
    )


async def read_calls(client: APIClient) -> APIServerCalls | Unread:
    """The calls of our webhooks that the API server counted; only these lines of its metrics are kept."""

    async def read() -> Any:
        async with contextlib.aclosing(client.text_lines("/metrics", timeout=_SECONDS)) as lines:
            return calls_in([line async for line in lines if line.startswith(METRICS)])

    return await readable("get /metrics", read())


def stored_certificates(secret: Object | Unread | None) -> StoredCertificates | Unread | None:
    """When the certificates in the Secret expire."""
    if secret is None or isinstance(secret, Unread):
        return secret
    try:
        leaf, authority = (KeyPair(_data(secret, key), b"").not_after for key in ("tls.crt", "ca.crt"))
    except BadKeyPair as error:
        return StoredCertificates(str(error))
    return StoredCertificates("", leaf, authority)


def bundles_of(
    configurations: Mapping[str, Object | Unread | None], secret: Object | Unread | None, now: datetime
) -> Iterator[Bundle]:
    """The caBundle of each webhook; compared with the Secret, if that was read."""
    certificate = b"" if secret is None or isinstance(secret, Unread) else _data(secret, "tls.crt")
    for kind, document in configurations.items():
        if document is None or isinstance(document, Unread):
            continue
        for webhook in mappings_at(document, ("webhooks",)):
            client = mapping_at(webhook, ("clientConfig",))
            bundle = _from_base64(client.get("caBundle"))
            service, url = mapping_at(client, ("service",)), client.get("url")
            host = urlsplit(url).hostname or "" if url else f"{service.get('name')}.{service.get('namespace')}.svc"
            why = refusal(bundle, KeyPair(certificate, b""), [host], now) if certificate and bundle else ""
            yield Bundle(f"{kind} {name_of(document)}", str(webhook.get("name")), bool(bundle), why)


def _data(secret: Object, key: str) -> bytes:
    return _from_base64(lookup(secret, ("data", key)))


def _from_base64(text: object) -> bytes:
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except (binascii.Error, ValueError):
        return b""


_PORT = "probes"
_DEFAULT_PORT = 8080
_REPLICA_SECONDS = 10.0
_VERSION, _EXPIRY, _DRIFT = (
    f"gpu_admission_{name}" for name in ("build_info", "certificate_expiry_timestamp_seconds", "quota_drift_total")
)
_LINE = re.compile(r'(\w+)(?:\{version="([^"]*)"\})? (\S+)')


async def read_replica(client: APIClient, pod: Object) -> ReplicaAnswers:
    """The answers of the replica in a pod to `/readyz` and `/metrics`."""
    ports = (port for each in mappings_at(pod, ("spec", "containers")) for port in mappings_at(each, ("ports",)))
    numbers = (port.get("containerPort") for port in ports if port.get("name") == _PORT)
    name = f"{name_of(pod)}:{next((each for each in numbers if isinstance(each, int)), _DEFAULT_PORT)}"
    path = RESOURCES["Pod"].path(namespace_of(pod), name, "proxy")
    right = f"get pods/proxy -n {namespace_of(pod)}"
    readiness = await readable(right, _read_readiness(client, f"{path}/readyz"))
    if isinstance(readiness, Unread):
        return ReplicaAnswers(readiness, readiness)
    return ReplicaAnswers(readiness, await readable(right, _read_metrics(client, f"{path}/metrics")))


async def _read_readiness(client: APIClient, path: str) -> ReadinessAnswer:
    """The answer of `/readyz`, which has status 503 while a replica is not ready.

    Raises:
        APIError: The API server refused, or did not reach the pod.
        Unreachable: The answer is not that of a replica.
    """
    answer = await client.read_through_proxy(path, timeout=_REPLICA_SECONDS)
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
    async with contextlib.aclosing(client.text_lines(path, timeout=_REPLICA_SECONDS)) as lines:
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
