"""The options of `gpu-admission serve`, and which of them go together."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from webhook.server.connection_limits import ConnectionLimits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from certs import KeyPairFiles
    from webhook.replica.config import ReplicaConfig
    from webhook.server.config import ClientCertificates, ServerConfig

__all__ = ["ServeOptions"]

_PORT = 8443


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """What was given on the command line."""

    cluster: tuple[str, ...]
    settings: str | None
    kubeconfig: str | None
    context: str | None
    namespace: str | None
    url: str | None
    tls_cert: Path | None
    tls_key: Path | None
    ca_out: Path | None
    client_ca: Path | None
    client_name: tuple[str, ...]
    host: str
    port: int | None
    probe_port: int
    max_connections: int
    max_connections_per_address: int
    drain_delay: float
    log_level: str

    def check(self) -> None:
        """Refuse what does not go together.

        Raises:
            click.UsageError: With the first thing that does not.
        """
        for problem in self._problems():
            raise click.UsageError(problem)

    def server_config(self) -> ServerConfig:
        """How to serve where the cluster is in files."""
        from webhook.server.config import SelfSigned, ServerConfig  # noqa: PLC0415 - as all of these imports: help and
        # mistakes do not wait for a server's libraries.

        certificate = self._files() or SelfSigned(ca_file=self.ca_out)
        return ServerConfig(
            certificate=certificate,
            clients=self._clients(),
            host=self.host,
            port=self._port(),
            probe_port=self.probe_port,
            connections=self._connections(),
            drain_delay=self.drain_delay,
        )

    def replica_config(self) -> ReplicaConfig:
        """How to serve where the cluster runs."""
        from webhook.replica.config import NAMESPACE, ReplicaConfig  # noqa: PLC0415

        return ReplicaConfig(
            namespace=self.namespace or NAMESPACE,
            url=(self.url or "").rstrip("/"),
            certificate=self._files(),
            clients=self._clients(),
            host=self.host,
            port=self._port(),
            probe_port=self.probe_port,
            connections=self._connections(),
            drain_delay=self.drain_delay,
        )

    def _port(self) -> int:
        """Where to listen: what comes in between, if anything does, is for who gives both."""
        if self.port is not None:
            return self.port
        return (urlsplit(self.url).port if self.url else None) or _PORT

    def _files(self) -> KeyPairFiles | None:
        from certs import KeyPairFiles  # noqa: PLC0415

        return KeyPairFiles(self.tls_cert, self.tls_key) if self.tls_cert and self.tls_key else None

    def _connections(self) -> ConnectionLimits:
        return ConnectionLimits(self.max_connections, self.max_connections_per_address)

    def _clients(self) -> ClientCertificates | None:
        from webhook.server.config import ClientCertificates  # noqa: PLC0415

        return ClientCertificates(self.client_ca, frozenset(self.client_name)) if self.client_ca else None

    def _problems(self) -> Iterator[str]:
        yield from self._misplaced()
        if (self.tls_cert is None) != (self.tls_key is None):
            yield "--tls-cert and --tls-key go together"
        if self.ca_out is not None and self.tls_cert is not None:
            yield "--ca-out is for the certificate that is made where --tls-cert is not given"
        if self.url is not None and self.tls_cert is not None:
            yield "--url comes with a certificate that is made for it; leave --tls-cert and --tls-key out"
        if self.url is not None and (problem := _url_problem(self.url)):
            yield f"--url {problem}; write https://HOST:PORT, where the API server can reach this process"
        if bool(self.client_name) != (self.client_ca is not None):
            yield "--client-ca and --client-name go together: an authority issues certificates to many"
        files = {
            "--tls-cert": self.tls_cert,
            "--tls-key": self.tls_key,
            "--ca-out": self.ca_out,
            "--client-ca": self.client_ca,
        }
        yield from (f"{option} is empty; name a file" for option, file in files.items() if file == Path())
        if not all(name.strip() for name in self.client_name):
            yield "--client-name is empty; give the common name in the client's certificate"
        if not isfinite(self.drain_delay):
            yield f"--drain-delay is {self.drain_delay}; give a number of seconds"

    def _misplaced(self) -> Iterator[str]:
        """Options for clusters that run where it is in files, and the other way round."""
        if self.cluster:
            # Not --namespace, which can come from the environment without anybody meaning it.
            of_running = {"--kubeconfig": self.kubeconfig, "--context": self.context, "--url": self.url}
            for option in (option for option, value in of_running.items() if value is not None):
                yield f"{option} is for a cluster that runs, and --cluster is for one in files; leave one of them out"
        else:
            of_files = {"--settings": self.settings, "--ca-out": self.ca_out}
            for option in (option for option, value in of_files.items() if value is not None):
                yield f"{option} goes with --cluster; {_INSTEAD[option]}"


_INSTEAD = {
    "--settings": "the settings of a cluster that runs are its GPUAdmissionPolicy",
    "--ca-out": "in a cluster that runs, the authority is written into the webhook configurations",
}


def _url_problem(url: str) -> str:
    """Why API servers would not call a URL, or why we could not write paths behind it; empty where all is well.

    Source: k8s.io/apiserver pkg/util/webhook/validation.go, ValidateWebhookURL.
    """
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises where it is no number
    except ValueError as error:
        return f"is no URL: {error}"
    if parts.scheme != "https" or not parts.hostname:
        return "must begin with https:// and a host"
    if parts.username is not None or parts.password is not None:
        return "must not name a user"
    if parts.path.strip("/") or parts.query or parts.fragment:
        return "must end with the host or its port; the paths of the webhooks come behind it"
    return ""
