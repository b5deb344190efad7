"""The start of the server: its configuration, made of the options of `gpu-admission serve`."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from certs import KeyPairFiles
from webhook.cli.manifest_reader import ManifestReader
from webhook.cli.settings import read_settings
from webhook.cluster.answers import NoCluster
from webhook.cluster.client import APIClient
from webhook.cluster.manifests import ManifestsView
from webhook.controllers.replica import Replica
from webhook.controllers.replica_config import NAMESPACE, ReplicaConfig
from webhook.server import logs
from webhook.server.config import CannotServe, ClientCertificates, ConnectionLimits, SelfSigned, ServerConfig
from webhook.server.listeners import run
from webhook.server.service import Service

if TYPE_CHECKING:
    from typing import NoReturn

    from policies.kubernetes.objects import Object
    from policies.rules.settings import GPUAdmissionPolicy
    from webhook.cli.serve.serve_options import ServeOptions
    from webhook.server.listeners import Server


_PORT = 8443
_EVERY_ADDRESS = ("", "0.0.0.0", "::")  # noqa: S104 - compared only


def serve(options: ServeOptions) -> None:
    """Serve until SIGTERM or Ctrl-C.

    Raises:
        UnreadableInputError: Files of --cluster or --settings have problems.
        click.ClickException: The server cannot start.
    """
    files = _read_files(options) if options.cluster else None
    logs.configure(logging.getLevelNamesMapping()[options.log_level.upper()])
    try:
        asyncio.run(_serve_running(options) if files is None else _serve_files(options, *files))
    except (CannotServe, NoCluster) as error:
        raise click.ClickException(str(error)) from error


def replica_config(options: ServeOptions) -> ReplicaConfig:
    """The configuration of a replica that serves a running cluster."""
    return ReplicaConfig(
        namespace=options.namespace or NAMESPACE,
        url=(options.url or "").rstrip("/"),
        certificate=_key_pair(options),
        peer_host=options.peer_host or ("" if options.host in _EVERY_ADDRESS else options.host),
        **_common_config(options),
    )


def _read_files(options: ServeOptions) -> tuple[list[Object], GPUAdmissionPolicy]:
    reader = ManifestReader()
    policy = read_settings(options.settings, reader)
    facts = reader.cluster(options.cluster)
    reader.check()
    return facts, policy


async def _serve_files(options: ServeOptions, facts: list[Object], policy: GPUAdmissionPolicy) -> None:
    certificate = _key_pair(options) or SelfSigned(ca_file=options.ca_out)
    config = ServerConfig(certificate=certificate, **_common_config(options))
    await _run(Service(config, ManifestsView(facts), policy))


async def _serve_running(options: ServeOptions) -> None:
    client = await APIClient.connect(options.kubeconfig, options.context)
    try:
        replica = Replica(client, replica_config(options))
    except CannotServe:
        await client.close()
        raise
    await _run(replica)


async def _run(server: Server) -> NoReturn:
    """Run a server until a signal stops it, then end the process.

    The event loop and the interpreter would wait for all threads first. One that resolves a name cannot be stopped, and
    may take longer than the grace period of the pod.
    """
    await run(server)
    logging.shutdown()
    os._exit(0)


def _common_config(options: ServeOptions) -> dict[str, Any]:
    authority = options.client_ca
    # If a proxy listens at --url, the user gives both ports.
    port = (urlsplit(options.url).port if options.url else None) or _PORT
    return {
        "clients": ClientCertificates(authority, frozenset(options.client_name)) if authority else None,
        "host": options.host,
        "port": port if options.port is None else options.port,
        "probe_port": options.probe_port,
        "peer_port": options.peer_port,
        "explain_port": options.explain_port,
        "ui_port": options.ui_port,
        "connections": ConnectionLimits(options.max_connections, options.max_connections_per_address),
        "drain_delay": options.drain_delay,
    }


def _key_pair(options: ServeOptions) -> KeyPairFiles | None:
    return KeyPairFiles(options.tls_cert, options.tls_key) if options.tls_cert and options.tls_key else None
