"""`gpu-admission serve`: the webhook over HTTPS."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from webhook.cli.completions import complete_paths
from webhook.cli.lazy_modules import lazy_module
from webhook.cli.options import files_option
from webhook.server.open_connections import FEWEST, ConnectionLimits

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType
    from typing import NoReturn

__all__ = ["ServeOptions", "command"]

_PORT_RANGE = click.IntRange(0, 65535)
_LIMIT = click.IntRange(FEWEST)
_DEFAULTS = ConnectionLimits()
_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command("serve")
@files_option("a cluster, as for review, instead of a running cluster.")
@click.option(
    "--settings",
    metavar="FILE",
    shell_complete=complete_paths,
    help="With --cluster: a GPUAdmissionPolicy; default: the built-in defaults.",
)
@click.option(
    "--kubeconfig",
    metavar="FILE",
    shell_complete=complete_paths,
    help="How to reach the cluster; default: KUBECONFIG, the pod's ServiceAccount, or ~/.kube/config.",
)
@click.option("--context", metavar="NAME", help="The context of the kubeconfig; default: its current one.")
@click.option(
    "--namespace",
    envvar="POD_NAMESPACE",
    metavar="NAME",
    help="The namespace of the service's Lease and Secret; default: POD_NAMESPACE, or gpu-admission.",
)
@click.option(
    "--url",
    metavar="https://HOST:PORT",
    help="Where the API server can reach this process, if it runs outside the cluster. The URL and the authority of the "
    "certificate are written into the webhook configurations named gpu-admission.",
)
@click.option(
    "--tls-cert",
    type=_FILE,
    help="The serving certificate with its chain, PEM. Read again when it changes. Default: certificates are created "
    "and rotated in a Secret of the running cluster; with --cluster, one is created at start.",
)
@click.option("--tls-key", type=_FILE, help="The key of --tls-cert, PEM.")
@click.option(
    "--ca-out",
    type=_FILE,
    help="With --cluster: where to write the authority of the certificate that is created at start.",
)
@click.option(
    "--client-ca",
    type=_FILE,
    help="Authorities of client certificates, PEM. Without it, every client may call.",
)
@click.option(
    "--client-name",
    multiple=True,
    metavar="NAME",
    help="The common name of a client that may call; needs --client-ca. Can be repeated.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on; empty for all.")
@click.option("--port", type=_PORT_RANGE, help="The port of the webhook; default: the port of --url, else 8443.")
@click.option(
    "--probe-port", type=_PORT_RANGE, default=8080, show_default=True, help="The port of probes and metrics, HTTP."
)
@click.option(
    "--peer-port",
    type=_PORT_RANGE,
    default=8444,
    show_default=True,
    help="The port for charges of other replicas, TLS; of a running cluster only.",
)
@click.option(
    "--explain-port", type=_PORT_RANGE, default=8445, show_default=True, help="The port of explanations, TLS."
)
@click.option(
    "--ui-port",
    type=_PORT_RANGE,
    help="The port of a page for browsers at /ui, TLS: the report, live, and why a pod is Pending. Default: no page.",
)
@click.option(
    "--peer-host",
    envvar="POD_IP",
    metavar="ADDRESS",
    help="The address at which other replicas reach this one; default: POD_IP, else --host. If --host is every address, "
    "replicas send no charges to each other.",
)
@click.option(
    "--max-connections",
    type=_LIMIT,
    default=_DEFAULTS.total,
    show_default=True,
    metavar="NUMBER",
    help="Open connections of each port. Those with a known client certificate do not count.",
)
@click.option(
    "--max-connections-per-address",
    type=_LIMIT,
    default=_DEFAULTS.per_address,
    show_default=True,
    metavar="NUMBER",
    help="The same for one address: an IPv4 address, or a /64 network of IPv6.",
)
@click.option(
    "--drain-delay",
    type=click.FloatRange(min=0),
    default=15.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to keep serving after SIGTERM, until the cluster calls other replicas.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="debug also logs the objects under review, without the values of their environment.",
)
def command(**given: Any) -> None:
    """Serve the webhook over HTTPS, until SIGTERM or Ctrl-C.

    Watches the cluster that it runs in, or the one of a kubeconfig; with --cluster, it reads a cluster from files.

    Answers AdmissionReviews at one path for each entry, such as /convert-pods, /check-pods and /claims. Probes
    (/livez, /readyz) and /metrics are on a second port. Replicas send charges to each other on a third one. The log has
    one line of JSON for each decision. A port of its own answers where a pod or claim fits: to users that RBAC allows;
    with --cluster, to the clients of --client-name. --ui-port shows the same users a page.

    \b
    Try it out:
      gpu-admission serve --cluster examples/cluster --ca-out ca.pem
      curl --cacert ca.pem -H 'Content-Type: application/json' \\
        -d @review.json https://localhost:8443/convert-pods

    \b
    Beside a cluster, such as that of gpu-admission sandbox:
      kubectl apply -k deploy/overlays/dev-by-url
      gpu-admission serve --url https://localhost:8443
    With a certificate of your own, for clients that present one:
      gpu-admission serve --tls-cert tls.crt --tls-key tls.key --client-ca clients.pem --client-name kube-apiserver
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    options = ServeOptions(**given)
    options.check()
    # Until the server runs: the first process of a container ignores signals without a handler.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _exit)
    lazy_module("start of the server").serve(options)


def _exit(_number: int, _frame: FrameType | None) -> NoReturn:
    """End the process; nothing needs to be closed yet.

    An exception might be raised inside a callback of asyncio, which would report it as lost.
    """
    os._exit(0)


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
        yield from self._misplaced_options()
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

    def _misplaced_options(self) -> Iterator[str]:
        """Options for running clusters beside --cluster, and options for files without it."""
        if self.cluster:
            # Not --namespace, which can come from the environment by accident.
            of_running = {"--kubeconfig": self.kubeconfig, "--context": self.context, "--url": self.url}
            for option in (option for option, value in of_running.items() if value is not None):
                yield f"{option} is for a running cluster, and --cluster is for files; leave one of them out"
        else:
            of_files = {"--settings": self.settings, "--ca-out": self.ca_out}
            for option in (option for option, value in of_files.items() if value is not None):
                yield f"{option} goes with --cluster; {_INSTEAD[option]}"


_INSTEAD = {
    "--settings": "a running cluster has its settings in its GPUAdmissionPolicy",
    "--ca-out": "in a running cluster, the authority is written into the webhook configurations",
}


def _url_problem(url: str) -> str:
    """Why API servers cannot call a URL, or paths cannot be appended to it; empty if it is valid.

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
