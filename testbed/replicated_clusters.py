"""Clusters with three replicas: a sandbox in a separate process, or a real control plane."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import SplitResult, urlsplit

import yaml

from testbed import libyaml, manifests
from testbed.clusters import Cluster
from testbed.connection import connect
from testbed.control_plane import kubeconfig as kubeconfig_of
from testbed.deploy import USER
from testbed.real_cluster import RealCluster
from testbed.relay import Relay
from testbed.replicas import COUNT, Replicas
from testbed.waiting import until, until_right
from webhook.cluster.answers import ClusterError
from webhook.cluster.client import APIClient
from webhook.sandbox.users import token_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from testbed.api import API, Headers
    from testbed.background import Background
    from testbed.control_plane import ControlPlane
    from testbed.service import Service


_ROOT = Path(__file__).parents[1]
_HOST = "127.0.0.1"
_START_SECONDS = 60
_STOP_SECONDS = 60


class ReplicatedCluster(Cluster):
    """A cluster whose replicas and clients connect through relays; the administrator does not."""

    _background: Background
    _folder: Path
    replica_options: Mapping[str, Any] = MappingProxyType({})
    """Options of the replicas, besides those of the cluster; to be set before it begins."""

    async def open(self, random: Random) -> None:
        """Start the relays."""
        servers = [(parts.hostname or "", parts.port or 443) for parts in self._urls()]
        self._stack = AsyncExitStack()
        self.to_replicas = [Relay(random, servers[number % len(servers)]) for number in range(COUNT)]
        """Between each replica and its API server, for which replicas take turns."""
        self.to_clients = Relay(random, *servers)
        """Between the clients and the API servers."""
        self._undisturbed = Relay(random, *servers)
        for relay in (*self.to_replicas, self.to_clients, self._undisturbed):
            await relay.listen(_HOST)
            self._stack.push_async_callback(relay.close)

    def serve(self, kubeconfig: Path, host: str, log: Path, **options: object) -> None:
        """Start replicas behind one address."""
        random = Random(0)
        self._background.run(self.open(random))
        behind = [self._behind(kubeconfig, relay, f"replica-{n}") for n, relay in enumerate(self.to_replicas)]
        self.replicas = Replicas(behind, host, log, **{**options, **self.replica_options})
        self._background.run(self._balance(host, random))
        self._service = cast("Service", self.replicas)
        self.replicas.start()
        pod = manifests.pod(self.namespace(dra="enabled"))
        for api in self.apis:
            what = f"{api.access.url} calls webhooks"
            until(partial(_is_converted, api, pod), what)

    def _urls(self) -> Iterator[SplitResult]:
        return (urlsplit(api.access.url) for api in self.apis)

    async def _balance(self, host: str, random: Random) -> None:
        self.balancer = Relay(random, *(replica.address for replica in self.replicas))
        """Between the API server and the replicas."""
        _, port = await self.balancer.listen(host)
        self._stack.push_async_callback(self.balancer.close)
        self.replicas.share(f"https://{host}:{port}")

    async def client(self, *, relayed: bool = True) -> APIClient:
        """The administrator's client, closed with the cluster; undisturbed without `relayed`."""
        file = self.kubeconfig
        if relayed:
            file = self._behind(file, self.to_clients, "clients")
        elif len(self.apis) > 1:
            file = self._behind(file, self._undisturbed, "observers")
        client = await APIClient.connect(str(file), environ={})
        self._stack.push_async_callback(client.close)
        return client

    async def restart_api_server(self, number: int, seconds: float) -> None:
        """Take an API server down for a while; here, only the relays refuse."""
        await asyncio.gather(*(relay.refuse(seconds) for relay in (*self.to_replicas, self.to_clients)))

    def audit_events(self) -> list[dict[str, Any]] | None:
        """The requests of the replicas so far, as audit events; None where API servers log none."""
        return None

    def close(self) -> None:
        """Close everything."""
        try:
            super().close()
        finally:
            if hasattr(self, "_stack"):
                self._background.run(self._stack.aclose())

    def _behind(self, kubeconfig: Path, relay: Relay, name: str) -> Path:
        """A kubeconfig that reaches the API server through a relay."""
        document = libyaml.load(kubeconfig.read_text())
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
        code = self._process.wait(_STOP_SECONDS)
        assert code == 0, f"the sandbox ended with {code}:\n{self._log.read_text()[-4000:]}"

    def _headers_of(self, user: str, groups: tuple[str, ...]) -> Headers:
        return [("Authorization", f"Bearer {token_of(user, *groups)}")]


class RealReplicatedCluster(ReplicatedCluster, RealCluster):
    """A real control plane; API servers of our own are actually restarted."""

    _control_plane: ControlPlane | None

    def audit_events(self) -> list[dict[str, Any]] | None:
        """The requests of the replicas so far, as audit events; None where API servers log none."""
        return None if self._control_plane is None else self._control_plane.audit_events()

    async def restart_api_server(self, number: int, seconds: float) -> None:
        """Kill an API server, and start it again on what etcd holds."""
        if self._control_plane is None:
            await super().restart_api_server(number, seconds)
            return
        await asyncio.to_thread(self._control_plane.kill_api_server, number)
        await asyncio.sleep(seconds)
        self._control_plane.start_api_server(number)
        await until_right(partial(_why_unready, self.apis[number]), _START_SECONDS)
        self._control_plane.check()


def replicated_cluster(
    background: Background, folder: Path, *, is_real: bool, **options: object
) -> SandboxProcess | RealReplicatedCluster:
    """The sandbox, or the real control plane of the environment, without any installation.

    Args:
        background: Runs relays and connections.
        folder: For files.
        is_real: True for the real control plane.
        options: Options of `ControlPlane`.
    """
    if not is_real:
        return SandboxProcess(background, folder)
    return cast("RealReplicatedCluster", RealReplicatedCluster.of(background, os.environ, folder, **options))


def _is_converted(api: API, pod: dict[str, Any]) -> bool:
    return "resourceClaims" in api.create(pod, dry_run=True).object["spec"]


async def _why_unready(api: API) -> str:
    """The reason why an API server is not ready; empty if it is."""
    try:
        answer = await api.send("GET", "/readyz", {}, None, "application/json")
    except ClusterError as error:
        return str(error)
    return "" if answer.code == 200 else str(answer.body)
