"""The cluster of the demo: a sandbox, and a replica of the service."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from policies.kubernetes.objects import name_of, namespace_of
from policies.kubernetes.paths import lookup
from webhook.cluster.client import APIClient
from webhook.cluster.resources import RESOURCES
from webhook.replica.config import NAMESPACE, SERVICE, ReplicaConfig
from webhook.replica.replica import Replica

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    import aiohttp

    from policies.kubernetes.objects import Object
    from webhook.sandbox.server import Sandbox

__all__ = ["kubeconfig", "made_claims", "webhook_beside", "without_webhooks"]

_POD = RESOURCES["Pod"]
_CLAIMS_SECONDS = 10.0


@asynccontextmanager
async def webhook_beside(sandbox: Sandbox) -> AsyncIterator[None]:
    """Run one replica of the service, connected to the sandbox as a pod is to its cluster."""
    replica = Replica(await _client(sandbox), ReplicaConfig(port=0, probe_port=0))
    try:
        ready = await replica.start()
        sandbox.services[NAMESPACE, SERVICE] = (ready.host, ready.port)
        yield
    finally:
        await replica.close()


async def _client(sandbox: Sandbox) -> APIClient:
    """A client with the ServiceAccount of the service."""
    with kubeconfig(sandbox.kubeconfig(f"system:serviceaccount:{NAMESPACE}:{SERVICE}")) as file:
        return await APIClient.connect(file)


@contextmanager
def kubeconfig(text: str) -> Iterator[str]:
    """A temporary file with a kubeconfig."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "kubeconfig"
        file.write_text(text)
        yield str(file)


async def without_webhooks(session: aiohttp.ClientSession, pod: Object) -> Object:
    """The pod as it would be stored without webhooks, or as it is if the API server refuses it."""
    path = _POD.path(namespace_of(pod))
    async with session.post(path, json=pod, params={"dryRun": "All"}) as answer:
        stored: Object = await answer.json()
        return stored if answer.ok else pod


async def made_claims(session: aiohttp.ClientSession, pod: Object) -> Sequence[Object]:
    """The claims in the status of a new pod, once it has any."""
    query = {
        "watch": "true",
        "fieldSelector": f"metadata.name={name_of(pod)}",
        "resourceVersion": pod["metadata"]["resourceVersion"],
    }
    path = _POD.path(namespace_of(pod))
    async with asyncio.timeout(_CLAIMS_SECONDS), session.get(path, params=query, raise_for_status=True) as events:
        async for event in events.content:
            statuses: Sequence[Object] | None = lookup(json.loads(event), ("object", "status", "resourceClaimStatuses"))
            if statuses:
                return statuses
    return ()
