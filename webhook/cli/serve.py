"""`gpu-admission serve`: the webhook over HTTPS."""

from __future__ import annotations

import logging
import signal
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from webhook.cli.documents import Reader
from webhook.cli.serve_options import ServeOptions
from webhook.cli.settings import read_settings
from webhook.cluster.manifests import ManifestsView
from webhook.server.connection_limits import FEWEST, ConnectionLimits

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import FrameType
    from typing import NoReturn

    from webhook.server.lifecycle import Server

__all__ = ["command"]

_PORT = click.IntRange(0, 65535)
_LIMIT = click.IntRange(FEWEST)
_DEFAULTS = ConnectionLimits()
_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command("serve")
@click.option(
    "--cluster",
    multiple=True,
    metavar="PATH",
    help="Files or folders that tell of a cluster that does not run, as for review. Can be repeated.",
)
@click.option("--settings", metavar="FILE", help="With --cluster: a GPUAdmissionPolicy; its defaults where absent.")
@click.option(
    "--kubeconfig",
    metavar="FILE",
    help="How to reach the running cluster; else KUBECONFIG, the pod's ServiceAccount, or ~/.kube/config.",
)
@click.option("--context", metavar="NAME", help="Which context of the kubeconfig; its current one where not given.")
@click.option(
    "--namespace",
    envvar="POD_NAMESPACE",
    metavar="NAME",
    help="Where the Lease and the Secret of the service are; else POD_NAMESPACE, or gpu-admission.",
)
@click.option(
    "--url",
    metavar="https://HOST:PORT",
    help="Where the API server can reach this process, if it runs outside of the cluster. It is written into the "
    "webhook configurations named gpu-admission, with the authority of the certificate.",
)
@click.option(
    "--tls-cert",
    type=_FILE,
    help="The serving certificate with its chain, PEM. Read again when it changes. Without it, certificates are made "
    "and rotated in a Secret of the running cluster; with --cluster, one is made at start.",
)
@click.option("--tls-key", type=_FILE, help="The key of --tls-cert, PEM.")
@click.option(
    "--ca-out",
    type=_FILE,
    help="With --cluster: where to write the authority of the certificate that is made at start.",
)
@click.option(
    "--client-ca",
    type=_FILE,
    help="Authorities of client certificates, PEM. Without it, everybody who reaches the port may call.",
)
@click.option(
    "--client-name",
    multiple=True,
    metavar="NAME",
    help="The common name of a client that may call; needs --client-ca. Can be repeated.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on; empty for all.")
@click.option(
    "--port", type=_PORT, help="The port of the webhook; without it, that of --url if it names one, else 8443."
)
@click.option("--probe-port", type=_PORT, default=8080, show_default=True, help="The port of probes and metrics, HTTP.")
@click.option(
    "--max-connections",
    type=_LIMIT,
    default=_DEFAULTS.total,
    show_default=True,
    metavar="NUMBER",
    help="How many connections each port may have open. Those of known client certificates do not count.",
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
    help="How long to serve on after SIGTERM, while the cluster learns to call elsewhere.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="debug logs the objects under review too, without the values of their environment.",
)
def command(**given: Any) -> None:
    """Serve the webhook over HTTPS, until SIGTERM or Ctrl-C.

    Watches the cluster that it runs in, or that a kubeconfig names; with --cluster, it answers about one in files.

    Answers AdmissionReviews at one path for each entry, such as /conversion, /placement and /configuration. Probes
    (/livez, /readyz) and /metrics are on a second port. The log is one line of JSON for each decision. At /v1/explain,
    users whom RBAC allows it are told where something fits, and why not elsewhere; with --cluster, clients that
    --client-name names.

    \b
    Try it out, and ask it something:
      gpu-admission serve --cluster examples/cluster --ca-out ca.pem
      curl --cacert ca.pem -H 'Content-Type: application/json' \\
        -d @review.json https://localhost:8443/conversion

    \b
    Beside a cluster, such as that of gpu-admission sandbox:
      kubectl apply -k deploy/overlays/dev-by-url
      gpu-admission serve --url https://localhost:8443
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    options = ServeOptions(**given)
    options.check()
    # Until the loop takes it over: the first process of a container is sent no signal that it does not handle.
    signal.signal(signal.SIGTERM, _stop_at_once)
    make = _of_files(options) if options.cluster else partial(_of_running, options)
    # Here, so that help and mistakes do not wait for a server's libraries.
    import asyncio  # noqa: PLC0415

    from webhook.cluster.errors import NoCluster  # noqa: PLC0415
    from webhook.server import logs  # noqa: PLC0415
    from webhook.server.config import CannotServe  # noqa: PLC0415

    logs.configure(logging.getLevelNamesMapping()[options.log_level.upper()])
    try:
        asyncio.run(_run(make))
    except (CannotServe, NoCluster) as error:
        raise click.ClickException(str(error)) from error


def _stop_at_once(_number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(0)


async def _run(make: Callable[[], Awaitable[Server]]) -> None:
    from webhook.server.lifecycle import run  # noqa: PLC0415

    await run(await make())


def _of_files(options: ServeOptions) -> Callable[[], Awaitable[Server]]:
    """Makes the server for a cluster in files, which are read at once."""
    reader = Reader()
    policy = read_settings(options.settings, reader)
    facts = reader.cluster(options.cluster)
    if reader.problems:
        reader.fail()

    async def make() -> Server:
        from webhook.server.service import Service  # noqa: PLC0415

        return Service(options.server_config(), ManifestsView(facts), policy)

    return make


async def _of_running(options: ServeOptions) -> Server:
    """The server for a cluster that runs."""
    from webhook.cluster.client import APIClient  # noqa: PLC0415
    from webhook.replica.replica import Replica  # noqa: PLC0415
    from webhook.server.config import CannotServe  # noqa: PLC0415

    client = await APIClient.connect(options.kubeconfig, options.context)
    try:
        return Replica(client, options.replica_config())
    except CannotServe:
        await client.close()
        raise
