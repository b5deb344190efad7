"""The options of `gpu-admission serve`, and which of them exclude each other."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """The options of the command line."""

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
    peer_port: int
    explain_port: int
    ui_port: int | None
    peer_host: str | None
    max_connections: int
    max_connections_per_address: int
    drain_delay: float
    log_level: str

    def check(self) -> None:
        """Refuse options that exclude each other, and invalid values.

        Raises:
            click.UsageError: With the first problem.
        """
        for problem in self._problems():
            raise click.UsageError(problem)

    def _problems(self) -> Iterator[str]:
        if self.cluster:
            # Not --namespace, which can come from the environment by accident.
            of_running = {"--kubeconfig": self.kubeconfig, "--context": self.context, "--url": self.url}
            for option in (option for option, value in of_running.items() if value is not None):
                yield f"{option} is for a running cluster, and --cluster is for files; leave one of them out"
        else:
            of_files = {"--settings": self.settings, "--ca-out": self.ca_out}
            for option in (option for option, value in of_files.items() if value is not None):
                yield f"{option} goes with --cluster; {_INSTEAD[option]}"
        if (self.tls_cert is None) != (self.tls_key is None):
            yield "--tls-cert and --tls-key go together"
        if self.ca_out is not None and self.tls_cert is not None:
            yield "--ca-out is for the certificate that is created without --tls-cert"
        if self.url is not None and self.tls_cert is not None:
            yield "--url creates its own certificate; leave --tls-cert and --tls-key out"
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


_INSTEAD = {
    "--settings": "a running cluster has its settings in its GPUAdmissionPolicy",
    "--ca-out": "in a running cluster, the authority is written into the webhook configurations",
}


def _url_problem(url: str) -> str:
    """The reason why API servers cannot call a URL, or append paths to it; empty if it is valid.

    Source: k8s.io/apiserver pkg/util/webhook/validation.go, ValidateWebhookURL.
    """
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises if it is not a number
    except ValueError as error:
        return f"is not a URL: {error}"
    if parts.scheme != "https" or not parts.hostname:
        return "must begin with https:// and a host"
    if parts.username is not None or parts.password is not None:
        return "must not name a user"
    if parts.path.strip("/") or parts.query or parts.fragment:
        return "must end with the host or its port; the paths of the webhooks are appended"
    return ""
