"""`gpu-admission serve`: the webhook over HTTPS."""

from __future__ import annotations

import logging
from math import isfinite
from pathlib import Path

import click

from webhook.cli.documents import Reader
from webhook.cli.settings import read_settings
from webhook.cluster.manifests import ManifestsView

__all__ = ["command"]

_PORT = click.IntRange(0, 65535)
_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command("serve")
@click.option(
    "--cluster",
    multiple=True,
    required=True,
    metavar="PATH",
    help="Files or folders that tell of the cluster, as for review. Can be repeated.",
)
@click.option("--settings", metavar="FILE", help="A GPUAdmissionPolicy; its defaults where absent.")
@click.option(
    "--tls-cert",
    type=_FILE,
    help="The serving certificate with its chain, PEM. Read again when it changes. Without it, a certificate is made "
    "at start, with an authority that exists in memory only.",
)
@click.option("--tls-key", type=_FILE, help="The key of --tls-cert, PEM.")
@click.option("--ca-out", type=_FILE, help="Where to write the authority of the certificate that is made at start.")
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
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on; 0.0.0.0 for all.")
@click.option("--port", type=_PORT, default=8443, show_default=True, help="The port of the webhook.")
@click.option("--probe-port", type=_PORT, default=8080, show_default=True, help="The port of probes and metrics, HTTP.")
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
def command(
    *,
    cluster: tuple[str, ...],
    settings: str | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    ca_out: Path | None,
    client_ca: Path | None,
    client_name: tuple[str, ...],
    host: str,
    port: int,
    probe_port: int,
    drain_delay: float,
    log_level: str,
) -> None:
    """Serve the webhook over HTTPS, until SIGTERM or Ctrl-C.

    Answers AdmissionReviews at one path for each entry, such as /conversion, /placement and /configuration. Probes
    (/livez, /readyz) and /metrics are on a second port. The log is one line of JSON for each decision. With --client-ca,
    known clients are told at /v1/explain where something fits, and why not elsewhere.

    \b
    Try it out, and ask it something:
      gpu-admission serve --cluster examples/cluster --ca-out ca.pem
      curl --cacert ca.pem -H 'Content-Type: application/json' \\
        -d @review.json https://localhost:8443/conversion
    """  # noqa: D301 - \b is click's mark for lines that are not to be wrapped
    if (tls_cert is None) != (tls_key is None):
        raise click.UsageError("--tls-cert and --tls-key go together")
    if ca_out is not None and tls_cert is not None:
        raise click.UsageError("--ca-out is for the certificate that is made where --tls-cert is not given")
    if bool(client_name) != (client_ca is not None):
        raise click.UsageError("--client-ca and --client-name go together: an authority issues certificates to many")
    files = {"--tls-cert": tls_cert, "--tls-key": tls_key, "--ca-out": ca_out, "--client-ca": client_ca}
    for option, file in files.items():
        if file == Path():
            raise click.UsageError(f"{option} is empty; name a file")
    if not all(name.strip() for name in client_name):
        raise click.UsageError("--client-name is empty; give the common name in the client's certificate")
    if not isfinite(drain_delay):
        raise click.UsageError(f"--drain-delay is {drain_delay}; give a number of seconds")
    reader = Reader()
    policy = read_settings(settings, reader)
    facts = reader.cluster(cluster)
    if reader.problems:
        reader.fail()
    # Here, so that help and mistakes do not wait for a server's libraries.
    import asyncio  # noqa: PLC0415

    from certs import KeyPairFiles  # noqa: PLC0415
    from webhook.server import logs  # noqa: PLC0415
    from webhook.server.config import CannotServe, ClientCertificates, SelfSigned, ServerConfig  # noqa: PLC0415
    from webhook.server.service import serve  # noqa: PLC0415

    config = ServerConfig(
        certificate=KeyPairFiles(tls_cert, tls_key) if tls_cert and tls_key else SelfSigned(ca_file=ca_out),
        host=host,
        port=port,
        probe_port=probe_port,
        clients=ClientCertificates(client_ca, frozenset(client_name)) if client_ca else None,
        drain_delay=drain_delay,
    )
    logs.configure(logging.getLevelNamesMapping()[log_level.upper()])
    try:
        asyncio.run(serve(config, ManifestsView(facts), policy))
    except CannotServe as error:
        raise click.ClickException(str(error)) from error
