"""The commands that serve: `serve`, the webhook over HTTPS, and `sandbox`, an API of manifests."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from webhook.cli.options import complete_paths, files_option
from webhook.cli.serve.serve_options import ServeOptions
from webhook.server.config import FEWEST, ConnectionLimits

if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn


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
    "--client-ca", type=_FILE, help="Authorities of client certificates, PEM. Without it, every client may call."
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
def serve_command(**given: Any) -> None:
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
    from webhook.cli.serve.server_start import serve

    serve(options)


def _exit(_number: int, _frame: FrameType | None) -> NoReturn:
    """End the process; nothing needs to be closed yet.

    An exception might be raised inside a callback of asyncio, which would report it as lost.
    """
    os._exit(0)


@click.command("sandbox")
@click.argument("manifests", nargs=-1, shell_complete=complete_paths)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8001,
    show_default=True,
    help="The port to listen on; 0 for any free port.",
)
@click.option(
    "--kubeconfig-out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Where to write the kubeconfig of the sandbox. A file with any other content is not overwritten.",
)
def sandbox_command(manifests: tuple[str, ...], port: int, kubeconfig_out: Path | None) -> None:
    """Serve a Kubernetes API of manifests, for tests and for trying out, until SIGTERM or Ctrl-C.

    MANIFESTS are files and folders with the objects at the start, which are stored without admission. After that,
    webhooks are called as a real API server calls them, and ResourceClaims of pods are created from their templates.

    It is not a cluster: it has no scheduler and no kubelet, so no pod runs and no claim is allocated. Every client may do
    everything, so it listens on 127.0.0.1 only, with plain HTTP. All objects are lost when it ends.

    \b
    Try the webhook out:
      gpu-admission sandbox examples/cluster deploy/install.yaml --kubeconfig-out sandbox.yaml
    and then, in two other terminals:
      KUBECONFIG=sandbox.yaml gpu-admission serve --url https://localhost:8443
      KUBECONFIG=sandbox.yaml kubectl apply -f examples/single-gpu/pod.yaml
    Try commands for a running cluster, on a cluster as kubectl printed it:
      gpu-admission sandbox cluster/ --kubeconfig-out sandbox.yaml
    An empty API on any free port, for a test:
      gpu-admission sandbox --port 0 --kubeconfig-out sandbox.yaml
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    from webhook.cli.serve.sandbox_start import run_sandbox

    run_sandbox(manifests, port, kubeconfig_out)
