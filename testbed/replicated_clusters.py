"""Clusters with three replicas: a sandbox in a separate process, or a real control plane."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import yaml

from testbed.clusters import Cluster
from testbed.connection import connect
from testbed.control_plane import kubeconfig as kubeconfig_of
from testbed.deploy import USER
from testbed.real_cluster import RealCluster
from testbed.relay import Relay
from testbed.replicas import Replicas
from testbed.waiting import until, until_right
from webhook.cluster.client import APIClient
from webhook.cluster.errors import ClusterError
from webhook.sandbox.users import token_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from testbed.api import Headers
    from testbed.background import Background
    from testbed.control_plane import ControlPlane
    from testbed.service import Service

__all__ = ["RealReplicatedCluster", "ReplicatedCluster", "SandboxProcess", "replicated_cluster"]

_ROOT = Path(__file__).parents[1]
_HOST = "127.0.0.1"
_START_SECONDS = 60


class ReplicatedCluster(Cluster):
    """A cluster whose replicas and clients connect through relays; the administrator does not."""

    _background: Background
    _folder: Path
    replica_options: Mapping[str, Any] = MappingProxyType({})
    """Options of the replicas, besides those of the cluster; to be set before it begins."""

    async def open(self, random: Random) -> None:
        """Start the relays."""
        parts = urlsplit(self.api.access.url)
        server = (parts.hostname or "", parts.port or 443)
        self._stack = AsyncExitStack()
        self.to_replicas = Relay(random, server)
        """Between the replicas and the API server."""
        self.to_clients = Relay(random, server)
        """Between the clients and the API server."""
        for relay in (self.to_replicas, self.to_clients):
            await relay.listen(_HOST)
            self._stack.push_async_callback(relay.close)

    def serve(self, kubeconfig: Path, host: str, log: Path, **options: object) -> None:
        """Start replicas behind one address."""
        random = Random(0)
        self._background.run(self.open(random))
        behind = self._behind(kubeconfig, self.to_replicas, "replicas")
        self.replicas = Replicas(behind, host, log, **{**options, **self.replica_options})
        self._background.run(self._balance(host, random))
        self._service = cast("Service", self.replicas)
        self.replicas.start()

    async def _balance(self, host: str, random: Random) -> None:
        self.balancer = Relay(random, *(replica.address for replica in self.replicas))
        """Between the API server and the replicas."""
        _, port = await self.balancer.listen(host)
        self._stack.push_async_callback(self.balancer.close)
        self.replicas.share(f"https://{host}:{port}")

    async def client(self, *, relayed: bool = True) -> APIClient:
        """The administrator's client, closed with the cluster."""
        file = self._behind(self.kubeconfig, self.to_clients, "clients") if relayed else self.kubeconfig
        client = await APIClient.connect(str(file), environ={})
        self._stack.push_async_callback(client.close)
        return client

    async def restart_api_server(self, seconds: float) -> None:
        """Take the API server down for a while; here, only the relays refuse."""
        await asyncio.gather(self.to_replicas.refuse(seconds), self.to_clients.refuse(seconds))

    def close(self) -> None:
        """Close everything."""
        try:
            super().close()
        finally:
            if hasattr(self, "_stack"):
                self._background.run(self._stack.aclose())

    def _behind(self, kubeconfig: Path, relay: Relay, name: str) -> Path:
        """A kubeconfig that reaches the API server through a relay."""
        document = yaml.safe_load(kubeconfig.read_text())
        for entry in document["clusters"]:
            parts = urlsplit(entry["cluster"]["server"])
            entry["cluster"]["server"] = parts._replace(netloc=relay.netloc).geturl()
            if parts.scheme == "https":
                entry["cluster"].setdefault("tls-server-name", parts.hostname)
        file = self._folder / f"{kubeconfig.name}-of-{name}"
        file.write_text(yaml.safe_dump(document))
        return file


class SandboxProcess(ReplicatedCluster):
    """`gpu-admission sandbox` in its own process; never restarted, because it loses its objects."""

    def __init__(self, background: Background, folder: Path) -> None:
        admin = folder / "admin"
        self._log = folder / "sandbox"
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "webhook", "sandbox", "--port=0", f"--kubeconfig-out={admin}"],
                cwd=_ROOT,
                stdout=output,
                stderr=output,
            )
        try:
            until(lambda: admin.exists() and self._log.read_text(), "the sandbox serves", _START_SECONDS)
            super().__init__(connect(background, admin), admin, is_real=False)
        except BaseException:
            self._stop()
            raise
        self._background = background
        self._folder = folder

    def begin(self) -> None:
        """Install everything and start the replicas."""
        self.install()
        file = self._folder / "service"
        file.write_text(kubeconfig_of(self.api.access.url, None, USER))
        self.serve(file, _HOST, self._folder / "log")

    def close(self) -> None:
        """Stop the replicas and the sandbox."""
        try:
            super().close()
            self.api.close()
        finally:
            self._stop()

    def _stop(self) -> None:
        self._process.terminate()
        code = self._process.wait(20)
        assert code == 0, f"the sandbox ended with {code}:\n{self._log.read_text()[-4000:]}"

    def _headers_of(self, user: str, groups: tuple[str, ...]) -> Headers:
        return [("Authorization", f"Bearer {token_of(user, *groups)}")]


class RealReplicatedCluster(ReplicatedCluster, RealCluster):
    """A real control plane; our own is actually restarted."""

    _control_plane: ControlPlane | None

    async def restart_api_server(self, seconds: float) -> None:
        """Kill kube-apiserver, and start it again on what etcd holds."""
        if self._control_plane is None:
            await super().restart_api_server(seconds)
            return
        await asyncio.to_thread(_kill, self._control_plane, "kube-apiserver")
        await asyncio.sleep(seconds)
        self._control_plane._run("kube-apiserver", self._control_plane._api_server())
        await until_right(self._wrong, _START_SECONDS)

    async def _wrong(self) -> str:
        """Why the API server is not ready; empty if it is."""
        try:
            answer = await self.api.send("GET", "/readyz", {}, None, "application/json")
        except ClusterError as error:
            return str(error)
        return "" if answer.code == 200 else str(answer.body)


def replicated_cluster(
    background: Background, folder: Path, *, is_real: bool
) -> SandboxProcess | RealReplicatedCluster:
    """The sandbox, or the real control plane of the environment, without any installation."""
    if not is_real:
        return SandboxProcess(background, folder)
    return cast("RealReplicatedCluster", RealReplicatedCluster.of(background, os.environ, folder))


def _kill(control_plane: Any, name: str) -> None:
    (found,) = [process for process in control_plane._processes if process.name == name]
    control_plane._processes.remove(found)
    found.running.kill()
    found.running.wait()
