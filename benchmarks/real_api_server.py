"""A real API server with the objects of a large cluster, which are written to etcd directly.

Posting 130,000 objects takes minutes, and controllers would delete most of them, because their owners do not exist. So
only etcd and kube-apiserver run.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import yaml

from testbed.control_plane import ControlPlane
from webhook.cluster.answers import ClusterError
from webhook.cluster.resources import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import aiohttp

    from webhook.cluster.client import APIClient


_PROGRAMS = ("etcd", "kube-apiserver")
_FOLDERS = {"Node": "minions", "GPUQuota": "gpu-admission.io/gpuquotas"}
"""The folder of a kind in etcd, where it is not its plural. Source: kubernetes pkg/registry/core/node."""
_INSTALL = Path(__file__).parent.parent / "deploy" / "install.yaml"
_BATCH = 100
"""Keys in a transaction; etcd allows 128."""


class EtcdObjects:
    """Objects as they are stored in etcd."""

    def __init__(self, etcd: str, session: aiohttp.ClientSession) -> None:
        self._etcd = etcd
        self._session = session

    async def fill(self, made: Mapping[str, tuple[Callable[[int], dict[str, Any]], int]]) -> None:
        """Write all objects."""
        for kind, (make, count) in made.items():
            for first in range(0, count, _BATCH):
                await self.write(kind, (make(number) for number in range(first, min(first + _BATCH, count))))

    async def write(self, kind: str, objects: Iterator[dict[str, Any]]) -> None:
        """Write at most 100 objects in their new state."""
        puts = [{"requestPut": {"key": _key(kind, each), "value": _value(kind, each)}} for each in objects]
        await self._commit(puts)

    async def delete(self, kind: str, document: dict[str, Any]) -> None:
        """Delete an object."""
        await self._commit([{"requestDeleteRange": {"key": _key(kind, document)}}])

    async def _commit(self, operations: list[dict[str, Any]]) -> None:
        body = orjson.dumps({"success": operations})
        async with self._session.post(f"{self._etcd}/v3/kv/txn", data=body) as response:
            response.raise_for_status()
            await response.read()


@contextlib.contextmanager
def real_api_server(assets: Path) -> Iterator[tuple[str, str]]:
    """Start etcd and an API server of a folder of programs; yields a kubeconfig and the URL of etcd."""
    with tempfile.TemporaryDirectory() as folder:
        for name in _PROGRAMS:
            Path(folder, name).symlink_to((assets / name).resolve())
        plane = ControlPlane(Path(folder))
        try:
            kubeconfig = Path(folder, "kubeconfig")
            kubeconfig.write_text(plane.start())
            yield str(kubeconfig), plane.etcd_url
        finally:
            plane.stop()


async def define_quotas(client: APIClient) -> None:
    """Create the CRD of GPUQuotas, and wait until they are served.

    Raises:
        AssertionError: They were not served within a minute.
    """
    documents = yaml.safe_load_all(_INSTALL.read_text())
    name = "gpuquotas.gpu-admission.io"
    definition = next(
        each for each in documents if each["kind"] == "CustomResourceDefinition" and each["metadata"]["name"] == name
    )
    await client.post(RESOURCES["CustomResourceDefinition"].path(), definition)
    for _ in range(120):
        with contextlib.suppress(ClusterError):
            await client.get(RESOURCES["GPUQuota"].path())
            return
        await asyncio.sleep(0.5)
    raise AssertionError("GPUQuotas are not served")


def _key(kind: str, document: dict[str, Any]) -> str:
    resource, metadata = RESOURCES[kind], document["metadata"]
    place = [_FOLDERS.get(kind, resource.plural), *([metadata["namespace"]] if resource.namespaced else [])]
    return base64.b64encode("/".join(["/registry", *place, metadata["name"]]).encode()).decode()


def _value(kind: str, document: dict[str, Any]) -> str:
    head = {"apiVersion": RESOURCES[kind].api_version, "kind": kind}
    metadata = {key: value for key, value in document["metadata"].items() if key != "resourceVersion"}
    return base64.b64encode(orjson.dumps({**head, **document, "metadata": metadata})).decode()
