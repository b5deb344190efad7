"""The Secret with the certificates, written by compare-and-swap."""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from certs.keypair import BadKeyPair
from certs.rotation import Observed, next_state
from certs.secret import BadSecret, NewerSecret, parse_secret, secret_data
from webhook.cluster.answers import APIError, BadAnswer, ClusterError
from webhook.cluster.clockwork import Clockwork
from webhook.cluster.lists import get_if_exists
from webhook.cluster.resources import RESOURCES
from webhook.controllers.ca_bundles import NOT_COMPARED, BundleCheck, LostRace, verdict
from webhook.server.config import CannotServe
from webhook.server.listeners import ServingCertificate, certificate_of, client_ca_of
from webhook.server.tls import BadClientCA, ReloadingContext

if TYPE_CHECKING:
    from datetime import datetime
    from typing import NoReturn

    from certs import KeyPairFiles
    from certs.keypair import KeyPair
    from certs.rotation import RotationPolicy, Step
    from certs.secret import RotationState
    from webhook.cluster.client import APIClient
    from webhook.controllers.ca_bundles import CABundles, Configuration
    from webhook.controllers.metrics import CertificateMetrics, Failure
    from webhook.controllers.replica_config import ReplicaConfig


ROTATE_ANNOTATION = "gpu-admission.io/rotate"
"""On the Secret; a new value starts a rotation, as in
`kubectl annotate secret NAME gpu-admission.io/rotate="$(date)" --overwrite`."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The Secret as it was read."""

    secret: dict[str, Any] | None
    """None if it does not exist."""
    data: dict[str, bytes]

    @property
    def rotation_request(self) -> str:
        """The value of the annotation that requests a rotation; empty without one."""
        annotations = self.secret["metadata"].get("annotations") or {} if self.secret else {}
        return str(annotations.get(ROTATE_ANNOTATION, ""))


class CertificateSecret:
    """One Secret. RBAC must allow `get` and `update` for it, and `create` if it is not installed with us."""

    def __init__(self, api: APIClient, namespace: str, name: str) -> None:
        self._api = api
        self._namespace = namespace
        self._name = name
        self._path = RESOURCES["Secret"].path(namespace, name)

    def __str__(self) -> str:
        return f"Secret {self._namespace}/{self._name}"

    async def read(self) -> Stored:
        """Read it from the API server, without a cache.

        Raises:
            ClusterError: It cannot be read.
        """
        secret = await get_if_exists(self._api, self._path)
        return Stored(None, {}) if secret is None else _parse_secret(secret)

    async def write(self, over: Stored, state: RotationState) -> None:
        """Replace the state that was read, or create the Secret. Labels and annotations stay.

        Raises:
            LostRace: Another writer was first.
            ClusterError: It cannot be written; after `Unreachable` it may be written or not.
        """
        data = {key: base64.b64encode(value).decode() for key, value in secret_data(state).items()}
        try:
            if over.secret is None:
                labels = {"app.kubernetes.io/managed-by": "gpu-admission"}
                metadata = {"name": self._name, "namespace": self._namespace, "labels": labels}
                new = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data}
                await self._api.post(RESOURCES["Secret"].path(self._namespace), new)
            else:
                # It includes the resourceVersion that was read, which makes this a compare-and-swap.
                await self._api.put(self._path, {**over.secret, "data": data})
        except APIError as error:
            # It may have been deleted since the read: a PUT with a UID does not create it again.
            if error.is_conflict or error.already_exists or (over.secret is not None and error.is_not_found):
                raise LostRace(f"{self} changed meanwhile: {error}") from error
            raise


def _parse_secret(secret: Any) -> Stored:
    if not isinstance(secret, dict) or not isinstance(secret.get("metadata"), dict):
        raise BadAnswer("The API server's answer is not a Secret.")
    if not secret["metadata"].get("resourceVersion"):
        # Without it, a write would replace any newer state.
        raise BadAnswer("The API server's answer is a Secret without resourceVersion.")
    try:
        data = {key: base64.b64decode(value, validate=True) for key, value in (secret.get("data") or {}).items()}
    except (AttributeError, TypeError, binascii.Error) as error:
        raise BadAnswer("The API server's answer is a Secret whose data is not base64.") from error
    return Stored(secret, data)


LOOK_LIMIT = 60.0
"""Seconds after which a look is cancelled, so that it does not write a state that rests on an old read."""

_FIRST_RETRY = 1.0
_LONGEST_RETRY = 60.0
_SOON = 0.2

_logger = logging.getLogger("gpu_admission.certificates")


@dataclass(eq=False)
class Certificates:
    """Makes, publishes, serves and rotates the certificates, in each replica."""

    secret: CertificateSecret
    bundles: CABundles
    policy: RotationPolicy
    metrics: CertificateMetrics
    clockwork: Clockwork = field(default_factory=Clockwork)
    _reloading: ReloadingContext | None = field(default=None, init=False)
    _remembered: tuple[RotationState, datetime] | None = field(default=None, init=False)
    _problem: str = field(default=NOT_COMPARED, init=False)
    _judged: bool = field(default=False, init=False)
    _failures: int = field(default=0, init=False)
    _logged: str = field(default="", init=False)

    async def obtain(self) -> KeyPair:
        """Look until there is a certificate, and return it; a server needs one to start."""
        while True:
            delay = await self.look()
            if self._remembered is not None:
                return self._remembered[0].leaf
            await self.clockwork.sleep(delay)

    def serve(self, reloading: ReloadingContext) -> None:
        """Pass new certificates to a server from now on."""
        self._reloading = reloading

    async def run(self) -> NoReturn:
        """Look periodically until cancelled."""
        while True:
            await self.clockwork.sleep(await self.look())

    def problem(self) -> str:
        """The reason why API servers would refuse our certificate, by the last look; empty without one."""
        return self._problem

    async def look(self) -> float:
        """Look once; returns the seconds until the next look. Failures are logged, counted and retried."""
        try:
            async with asyncio.timeout(LOOK_LIMIT):
                step = await self._look()
        except LostRace as error:
            _logger.debug("%s", error)
            return _SOON + self.clockwork.random()
        except (ClusterError, TimeoutError) as error:
            return self._note_failure("cluster", str(error) or f"timed out after {LOOK_LIMIT:g} seconds")
        except NewerSecret as error:
            text = f"{self.secret} was written by a newer version, and is not changed: {error}."
            return self._note_failure("secret", text)
        except BadKeyPair as error:
            return self._note_failure("certificate", str(error))
        except Exception as error:
            _logger.exception("unexpected error while certificates were checked")
            return self._note_failure("other", f"{type(error).__name__}: {error}")
        self._failures, self._logged = 0, ""
        now = self.clockwork.now()
        self.metrics.show_look(now)
        pause = (step.look_at - now).total_seconds()
        return self.clockwork.with_jitter(pause) if pause > 0 else _SOON + self.clockwork.random()

    async def _look(self) -> Step:
        # Configurations first, then the Secret: `webhook.controllers.ca_bundles` says why.
        configurations: list[Configuration] | None = None
        unread: ClusterError | None = None
        try:
            configurations = await self.bundles.read()
        except ClusterError as error:
            # Certificates are renewed even if configurations cannot be read.
            unread = error
            if not self._judged:
                self._problem = f"the webhook configurations could not be read yet: {error}"
        step = await self._step(configurations)
        refused = self._hand_over(step.state.leaf)
        if unread is not None:
            raise unread
        # Not before the server listens: the URL is published with the bundle.
        if self._reloading is not None:
            await self._publish(configurations or [], step.state.bundle, self._reloading)
        if refused is not None:
            raise refused
        return step

    async def _step(self, configurations: list[Configuration] | None) -> Step:
        stored = await self.secret.read()
        now = self.clockwork.now()
        state, restored = self._state_in(stored, now)
        bundles = None
        if configurations is not None:
            bundles = tuple(webhook.bundle for each in configurations for webhook in each.webhooks)
        step = next_state(state, now, Observed(bundles, stored.rotation_request), self.policy)
        if step.changes or restored:
            await self.secret.write(stored, step.state)
        if restored:
            self.metrics.count_change("restored")
        for change in step.changes:
            _logger.info("%s", change.text)
            self.metrics.count_change(change.kind)
        self._remembered = step.state, now
        self.metrics.show(step.state.leaf.not_after, step.state.authority.not_after)
        return step

    def _state_in(self, stored: Stored, now: datetime) -> tuple[RotationState | None, bool]:
        """The state in the Secret, or the remembered one, and whether that must be written."""
        try:
            state = parse_secret(stored.data)
        except BadSecret as error:
            self.metrics.count_failure("secret")
            wrong = f"is damaged or not ours, and is replaced: {error}".removesuffix(".")
        else:
            if state is not None or self._remembered is None:
                return state, False
            wrong = "was deleted or emptied, and is written again"
        remembered = None
        if self._remembered is not None:
            # The last known state, if rotation cannot have passed it since.
            last, seen = self._remembered
            remembered = last if now - seen < self.policy.settle else None
        source = "made anew; calls fail until API servers know the new authority" if remembered is None else "as it was"
        _logger.error("%s %s. Its content is %s.", self.secret, wrong, source)
        return remembered, remembered is not None

    def _hand_over(self, leaf: KeyPair) -> BadKeyPair | None:
        if self._reloading is None or self._reloading.pair == leaf:
            return None
        try:
            self._reloading.replace(leaf)
        except BadKeyPair as error:
            return BadKeyPair(f"The certificate in {self.secret} cannot be served: {error}")
        _logger.info("Now serving the certificate in %s: SHA-256 %s.", self.secret, leaf.fingerprint)
        return None

    async def _publish(self, configurations: list[Configuration], bundle: bytes, reloading: ReloadingContext) -> None:
        failure: LostRace | ClusterError | None = None
        published = []
        for configuration in configurations:
            try:
                written = await self.bundles.publish(configuration, bundle)
                published.append(written)
                if written is not configuration:
                    # If this line recurs, another writer removes the bundle, such as a GitOps tool.
                    _logger.info("Wrote the authorities of our certificates into %s.", configuration)
            except (LostRace, ClusterError) as error:
                published.append(configuration)
                failure = failure or error
        self._judged = True
        self._problem = verdict(published, reloading.pair, self.policy.names, self.clockwork.now())
        if failure is not None:
            raise failure

    def _note_failure(self, reason: Failure, text: str) -> float:
        """Count and log a failed look; returns the seconds until the next one."""
        self.metrics.count_failure(reason)
        if self._remembered is None:
            self._problem = f"there is no certificate to serve yet: {text}"
        if text != self._logged:
            _logger.error("Certificates could not be checked or renewed; trying again: %s", text)
            self._logged = text
        self._failures += 1
        return self.clockwork.with_jitter(min(_FIRST_RETRY * 2 ** min(self._failures - 1, 32), _LONGEST_RETRY))


class CertificateInSecret:
    """A certificate of our own, which rotates."""

    def __init__(self, certificates: Certificates, config: ReplicaConfig, clockwork: Clockwork) -> None:
        self._certificates = certificates
        self._config = config
        self._clockwork = clockwork
        self.look = certificates.look
        self.run = certificates.run
        self.problem = certificates.problem

    async def obtain(self) -> ServingCertificate:
        """Wait for the certificate, and create it unless another replica has.

        Raises:
            CannotServe: The certificate or the client CAs cannot be used.
        """
        client_ca = client_ca_of(self._config)
        pair = await self._certificates.obtain()
        try:
            reloading = ReloadingContext(pair, client_ca, clock=self._clockwork.now)
        except (BadKeyPair, BadClientCA) as error:
            raise CannotServe(str(error)) from error
        self._certificates.serve(reloading)
        return ServingCertificate(reloading=reloading, now=self._clockwork.now)


class CertificateInFiles:
    """A certificate that is issued and published by another program, for example cert-manager."""

    def __init__(self, files: KeyPairFiles, bundles: CABundles, config: ReplicaConfig, clockwork: Clockwork) -> None:
        """Read the files.

        Raises:
            CannotServe: The files or the client CAs cannot be used.
        """
        try:
            self._certificate = certificate_of(files, client_ca_of(config), now=clockwork.now)
        except (BadKeyPair, BadClientCA) as error:
            raise CannotServe(str(error)) from error
        reloading = self._certificate.reloading
        check = BundleCheck(bundles, lambda: reloading.pair, config.names, clockwork=clockwork)
        self.run, self.look, self.problem = check.run, check.look, check.problem

    async def obtain(self) -> ServingCertificate:
        """The certificate in the files; its watcher loads later changes."""
        return self._certificate


CertificateSource = CertificateInSecret | CertificateInFiles
"""Provides the certificate of a replica (`obtain`), and maintains it (`look` once, `run` until cancelled)."""
