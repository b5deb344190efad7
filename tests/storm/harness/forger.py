"""A forger that calls the replicas directly: repeats, alters and cancels calls for existing pods."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import aiohttp

from webhook.cluster.resources import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from testbed.replicas import Replicas
    from tests.storm.harness.orders import Document
    from webhook.cluster.client import APIClient

__all__ = ["Forger"]

_NEWEST = 4
"""Pods of a namespace of which one is chosen: most likely it is charged and not counted yet."""
_TIMEOUTS = ("260ms", "300ms", "400ms", "10s")
"""What the forger says that the API server waits. A replica keeps 250 ms of it for its answer, so it gives up the first
three before the write of the ledger is answered, or after."""
_SECONDS = 0.3
"""When the forger hangs up."""


def _same(pod: Document) -> None:
    """Nothing is altered."""


def _renamed(pod: Document) -> None:
    pod["metadata"]["name"] = "forged"


def _smaller(pod: Document) -> None:
    for container in pod["spec"]["containers"]:
        container.pop("resources", None)
    pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}


def _larger(pod: Document) -> None:
    pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "4"}}


class Forger:
    """One of them."""

    def __init__(self, client: APIClient, replicas: Replicas, namespaces: Sequence[str], random: Random) -> None:
        """Args: to see which pods there are; whom to call; where; what chooses."""
        self._client = client
        self._replicas = replicas
        self._namespaces = namespaces
        self._random = random

    async def forge(self) -> bool:
        """Make one call; whether there was a pod to forge one for.

        Raises:
            ClusterError: The API server did not say which pods there are.
        """
        namespace = self._random.choice(self._namespaces)
        pods = (await self._client.get(RESOURCES["Pod"].path(namespace)))["items"]
        charged = [pod for pod in pods if _asks(pod["spec"])]
        newest = sorted(charged, key=lambda pod: int(pod["metadata"]["resourceVersion"]))[-_NEWEST:]
        if not newest:
            return False
        alter: Callable[[Document], None] = self._random.choice([_same, _same, _renamed, _smaller, _larger])
        pod = {"apiVersion": "v1", "kind": "Pod", **self._random.choice(newest)}
        alter(pod)
        host, port = self._random.choice([*self._replicas]).address
        timeout = aiohttp.ClientTimeout(total=_SECONDS)
        url = f"https://{host}:{port}/enforce-quota?timeout={self._random.choice(_TIMEOUTS)}"
        async with aiohttp.ClientSession(timeout=timeout) as session:
            try:
                async with session.post(url, data=json.dumps(_review(pod)), headers=_HEADERS, ssl=False) as response:
                    await response.read()
            except (aiohttp.ClientError, TimeoutError):
                pass  # the replica was killed, or the forger has hung up
        return True


def _asks(spec: dict[str, Any]) -> bool:
    return bool(spec.get("resourceClaims")) or any(container.get("resources") for container in spec["containers"])


_HEADERS = {"Content-Type": "application/json"}


def _review(pod: Document) -> dict[str, Any]:
    metadata = pod["metadata"]
    request = {
        "uid": str(uuid.uuid4()),
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "operation": "CREATE",
        "userInfo": {"username": "mallory"},
        "object": pod,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
