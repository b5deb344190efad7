"""One replica of the service: watches, certificate, controllers, webhook and peers."""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING

from certs import make_self_signed
from certs.rotation import RotationPolicy
from policies.admission import CONFIGURATIONS, opened_webhooks, uncovered_settings
from policies.fleet.operands import unnamed_namespaces_remark
from policies.quota.limits.cluster_quota import CLUSTER_QUOTA
from webhook.cluster.caller_reviews import SubjectAccess, TokenAuthenticator
from webhook.cluster.live import LiveSettings
from webhook.cluster.sync import Sync
from webhook.controllers.ca_bundles import CABundles, ConfigurationWatch
from webhook.controllers.certificate_upkeep import (
    CertificateInFiles,
    CertificateInSecret,
    Certificates,
    CertificateSecret,
)
from webhook.controllers.elector import Elector, new_identity
from webhook.controllers.leading import Leading
from webhook.controllers.metrics import CertificateMetrics
from webhook.controllers.presence import Presence, Presences
from webhook.controllers.replica_config import LEASE, SECRET
from webhook.ledger import Directory, ForwardingWriter, Links, PeerCalls, peer_annotations, peer_server_context, trust
from webhook.server.admission import Admission
from webhook.server.app import Calls
from webhook.server.caller_limits import Callers, TemplateRates
from webhook.server.driver import LedgerRunner, warm_up
from webhook.server.explain_gate import DelegatedGate
from webhook.server.listeners import Listeners
from webhook.server.metrics import Metrics
from webhook.server.probes import Readiness
from webhook.server.questions import ExplainCalls, Explainer, Questions
from webhook.server.quota_keeper import HoldersSeen, QuotaKeeper
from webhook.server.template_keeper import TemplateKeeper

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from datetime import datetime
    from typing import Any, NoReturn

    from webhook.cluster.client import APIClient
    from webhook.cluster.clockwork import Clockwork
    from webhook.controllers.certificate_upkeep import CertificateSource
    from webhook.controllers.replica_config import ReplicaConfig
    from webhook.controllers.replica_page import Page
    from webhook.ledger import LedgerWriter, Peer
    from webhook.server.listeners import Ready, ServingCertificate


class Peers:
    """Connects this replica with the others, if it has an address at which they reach it."""

    def __init__(self, client: APIClient, config: ReplicaConfig, identity: str, now: datetime) -> None:
        """Make a certificate; sends no request and does not listen yet."""
        self._host = config.peer_host
        self._pair = make_self_signed(f"replica {secrets.token_hex(16)}", now=now)
        self._context = peer_server_context(self._pair)
        self._directory = Directory(client, config.namespace, identity, self._update_links)
        self._calls: PeerCalls | None = None
        self.links = Links(self._pair)
        """The connections to the other replicas."""
        self.annotations: dict[str, str] = {}
        """Of the Lease of this replica; empty before it listens."""

    @property
    def has_address(self) -> bool:
        """True if other replicas can reach this one."""
        return bool(self._host)

    async def listen(self, listeners: Listeners, writer: LedgerWriter) -> None:
        """Answer other replicas.

        Raises:
            CannotServe: The port is taken or not allowed.
        """
        self._calls = PeerCalls(writer, lambda: {peer.certificate for peer in self._directory.peers})
        port = await listeners.answer_peers(self._calls.handle, self._context)
        host = f"[{self._host}]" if ":" in self._host else self._host
        self.annotations.update(peer_annotations(f"{host}:{port}", self._pair))

    async def run(self) -> None:
        """Follow the Leases of the other replicas until cancelled."""
        await self._directory.run()

    def notes(self) -> list[str]:
        """The reason why replicas compete for the ledgers of quotas; empty if they do not."""
        if not self._host:
            return [
                (
                    "this replica has no address for other replicas, so they compete for the ledgers of quotas; set POD_IP or "
                    "--peer-host"
                )
            ]
        return self.links.notes(self._directory.is_present)

    async def close(self) -> None:
        """Close all connections."""
        await self.links.close()
        if self._calls is not None:
            await self._calls.close()

    def _update_links(self, peers: frozenset[Peer]) -> None:
        for peer in peers:
            # A Lease with something that is not a certificate belongs to no replica.
            with suppress(ssl.SSLError):
                trust(self._context, peer.certificate)
        self.links.update(peers)
        if self._calls is not None:
            self._calls.close_strangers()


_CATCH_UP_SECONDS = 5.0
_FOLLOW_SECONDS = 1.0
"""Seconds between two checks of the settings for changed namespaces of the GPU Operator."""

_logger = logging.getLogger("gpu_admission.replica")


class Replica:
    """One replica; all replicas share a Lease, a Secret and two webhook configurations."""

    def __init__(self, client: APIClient, config: ReplicaConfig, *, rotation: RotationPolicy | None = None) -> None:
        """Sends no request and does not listen yet.

        Args:
            client: Talks to the API server; closed with the replica.
            config: How to run.
            rotation: How our own certificates rotate; by default for the names of `config`.

        Raises:
            CannotServe: The certificate files cannot be used.
        """
        self._client = client
        self._metrics = metrics = Metrics()
        self._watch = watch = ConfigurationWatch(client, CONFIGURATIONS)
        self._bundles = bundles = CABundles(client, CONFIGURATIONS, config.url)
        policy = rotation or RotationPolicy(names=config.names)
        self._certificate = _certificate_source(client, config, bundles, policy, metrics, watch.clockwork)

        self._sync = sync = Sync(client)
        self._settings = LiveSettings(sync.view)
        keeper = TemplateKeeper(client, sync.view, rates=TemplateRates(), count=metrics.count_template)
        identity = new_identity(config.host_name)
        self._peers = peers = Peers(client, config, identity, watch.clockwork.now())
        self._writer = ForwardingWriter(
            client,
            identity,
            peers.links,
            lambda key: key.shown_object(sync.view),
            count=metrics.count_forwarded_charge,
            run=LedgerRunner(),
        )
        self._presence = presence = Presence(
            client,
            config.namespace,
            identity,
            lambda: {cache.watched.kind: cache.store for cache in sync.caches},
            annotations=lambda: peers.annotations,
            silent_kinds=sync.silent_kinds,
        )
        quotas = QuotaKeeper(
            client,
            sync.view,
            self._writer,
            HoldersSeen(sync.view),
            trusts_view=lambda: presence.is_trusted and sync.is_fresh("GPUQuota"),
            trusts_groups=lambda: (
                presence.is_trusted_with_groups and sync.is_fresh(CLUSTER_QUOTA) and sync.is_fresh("Namespace")
            ),
            count=metrics.count_quota_outcome,
        )
        self._callers = callers = Callers(config.clients.names if config.clients else None)
        admission = Admission(sync.view, self._settings, metrics, templates=keeper, quotas=quotas, client=client)
        self._calls = Calls(admission, callers)
        questions = Questions(
            Explainer(sync.view, self._settings),
            DelegatedGate(TokenAuthenticator(client), SubjectAccess(client)),
            metrics,
        )
        self._explain_calls = ExplainCalls(questions, self._calls.traffic)

        repairer = TemplateKeeper(client, sync.view, count=metrics.count_template)
        presences = Presences(client, config.namespace)
        leading = Leading(
            client,
            sync.view,
            self._settings,
            repairer,
            self._writer,
            presences,
            sync,
            metrics.registry,
            identity,
            lambda: self._elector.inherited,
        )
        self._page: Page | None = None
        if config.ui_port is not None:
            from webhook.controllers.replica_page import Page

            self._page = Page(client, sync, self._settings, leading.audit, questions)
        self._elector = Elector(
            client,
            (config.namespace, LEASE),
            identity,
            leading.run,
            better_leader=lambda: leading.better_leader,
            annotations=leading.annotations,
        )
        leading.metrics.watch_leader(lambda: self._elector.is_leading)
        metrics.watch_settings(lambda: not self._settings.state.problems)
        metrics.registry.register(sync.metrics)
        metrics.watch_peers(lambda: sum(link.is_open for link in peers.links))

        self._background = Background()
        self._election: asyncio.Task[None] | None = None
        self._serving: ServingCertificate | None = None
        checks = [sync.reason, self._certificate.problem, self._expiry_problem]
        notes = [
            callers.notes,
            sync.notes,
            peers.notes,
            bundles.notes,
            self._settings.notes,
            self._notes,
            leading.notes,
            self._background.notes,
        ]
        self._listeners = Listeners(config, Readiness(checks, notes), metrics)

    async def start(self) -> Ready:
        """Answer probes at once, and reviews as soon as the cluster was read.

        Raises:
            CannotServe: A port is in use or not allowed, or the certificate cannot be used.
        """
        await self._listeners.answer_probes()
        self._sync.start(self._operator_namespaces)
        certificate, _ = await asyncio.gather(self._certificate.obtain(), self._sync.wait_for_first())
        self._serving = certificate
        # The settings are known now, and may name other namespaces.
        self._sync.watch_operators(self._operator_namespaces)
        await self._sync.wait_for_answers(_CATCH_UP_SECONDS)
        await asyncio.to_thread(warm_up, self._sync.view, self._settings())
        self._metrics.watch_certificate(certificate.expiry)
        self._background.begin("the reading of settings", self._follow_settings())
        ui_calls = None if self._page is None else self._page.calls
        ready = await self._listeners.answer_calls(self._calls, self._explain_calls, ui_calls, certificate)
        for note in self._callers.notes():
            _logger.warning(note)
        # The URL is published only now that the server answers.
        await self._certificate.look()
        self._background.begin("the watch of the webhook configurations", self._watch.run())
        self._background.begin("the upkeep of certificates", self._certificate.run())
        if self._peers.has_address:
            await self._peers.listen(self._listeners, self._writer)
            self._background.begin("the watch of other replicas", self._peers.run())
        if self._page is not None:
            self._background.begin("the audits for the page", self._page.run())
        self._background.begin("the presence of this replica", self._presence.run())
        self._election = self._background.begin("the election", self._elector.run())
        return ready

    async def drain(self, hurry: asyncio.Event) -> None:
        """Release the lease, drain the listeners, and close everything after the last call was answered."""
        if self._election is not None:
            # Another replica can lead before this one has drained; this one still answers calls.
            self._election.cancel()
        await self._listeners.drain(hurry)
        await self.close()
        _logger.info("stopped")

    async def close(self) -> None:
        """Close everything now."""
        await self._peers.close()
        await self._listeners.close()
        await self._background.close()
        await self._presence.withdraw()
        await self._writer.close()
        await self._sync.close()
        await self._client.close()

    @property
    def _operator_namespaces(self) -> tuple[str, ...]:
        return self._settings().configuration.operator_namespaces

    async def _follow_settings(self) -> NoReturn:
        while True:
            self._sync.watch_operators(self._operator_namespaces)
            await asyncio.sleep(_FOLLOW_SECONDS)

    def _expiry_problem(self) -> str:
        """The reason why the serving certificate is not valid now; found even if the Secret cannot be read."""
        return self._serving.problem() if self._serving else ""

    def _notes(self) -> list[str]:
        stored = self._bundles.stored
        uncovered = uncovered_settings(stored, self._settings())
        notes = (f"GPUAdmissionPolicy default: {each.text}" for each in uncovered)
        place = unnamed_namespaces_remark(self._sync.view, self._settings())
        return [self._elector.note, *opened_webhooks(stored), *notes, *([place] if place else [])]


def _certificate_source(
    client: APIClient,
    config: ReplicaConfig,
    bundles: CABundles,
    policy: RotationPolicy,
    metrics: Metrics,
    clockwork: Clockwork,
) -> CertificateSource:
    if config.certificate is not None:
        return CertificateInFiles(config.certificate, bundles, config, clockwork)
    secret = CertificateSecret(client, config.namespace, SECRET)
    certificates = Certificates(secret, bundles, policy, CertificateMetrics(metrics.registry), clockwork=clockwork)
    return CertificateInSecret(certificates, config, clockwork)


class Background:
    """Tasks that run until they are cancelled; one that ends by itself is a defect, and is reported."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[Any]] = []
        self._ended: list[str] = []

    def begin(self, what: str, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a task; `what` names it in messages: `the election`."""
        task = asyncio.create_task(coroutine, name=what)
        task.add_done_callback(self._note)
        self._tasks.append(task)
        return task

    def notes(self) -> list[str]:
        """Notes about tasks that have ended by themselves."""
        return [
            f"{what} has ended because of a defect; restart this replica, and report its log" for what in self._ended
        ]

    async def close(self) -> None:
        """Cancel all tasks, the last one first, and wait for each to end."""
        while self._tasks:
            task = self._tasks.pop()
            # A second cancellation would interrupt its cleanup.
            if not task.cancelling():
                task.cancel()
            await asyncio.wait([task])

    def _note(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled():
            self._ended.append(task.get_name())
            _logger.critical("%s has ended by itself", task.get_name(), exc_info=task.exception())
