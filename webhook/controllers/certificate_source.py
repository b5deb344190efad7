"""The serving certificate of a replica: shared with other replicas in a Secret, or read from files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from certs.keypair import BadKeyPair
from webhook.controllers.ca_bundles import BundleCheck
from webhook.server.config import CannotServe
from webhook.server.serving_certificate import ServingCertificate, certificate_of, client_ca_of
from webhook.server.tls import BadClientCA, ReloadingContext

if TYPE_CHECKING:
    from certs import KeyPairFiles
    from webhook.cluster.clockwork import Clockwork
    from webhook.controllers.ca_bundles import CABundles
    from webhook.controllers.certificate_upkeep import Certificates
    from webhook.controllers.replica_config import ReplicaConfig

__all__ = ["CertificateInFiles", "CertificateInSecret", "CertificateSource"]


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
