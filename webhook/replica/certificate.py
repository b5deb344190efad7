"""The serving certificate of a replica: kept with the other replicas in a Secret, or in files by somebody else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from certs import BadKeyPair
from webhook.controllers.ca_bundles import BundleCheck
from webhook.server.certificates import ServingCertificate, certificate_of, client_ca_of
from webhook.server.config import CannotServe
from webhook.server.tls import BadClientCA, ReloadingContext

if TYPE_CHECKING:
    from typing import NoReturn

    from certs import KeyPairFiles
    from webhook.cluster.clockwork import Clockwork
    from webhook.controllers.ca_bundles import CABundles
    from webhook.controllers.certificates import Certificates
    from webhook.replica.config import ReplicaConfig

__all__ = ["CertificateInFiles", "CertificateInSecret", "CertificateSource"]


class CertificateSource(Protocol):
    """Where a replica gets its certificate from, and what looks after it."""

    async def obtain(self) -> ServingCertificate:
        """Wait until there is one to serve.

        Raises:
            CannotServe: There is none that can be served, or the client CAs cannot be used.
        """
        ...

    async def look(self) -> object:
        """Look after it once, from when on it is served; whatever goes wrong is for the next time."""
        ...

    async def run(self) -> NoReturn:
        """Look after it for ever."""
        ...

    def problem(self) -> str:
        """Why API servers would refuse what is served; empty when they would not."""
        ...


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
        """Make it, where no replica has."""
        client_ca = client_ca_of(self._config)
        pair = await self._certificates.obtain()
        try:
            reloading = ReloadingContext(pair, client_ca, clock=self._clockwork.now)
        except (BadKeyPair, BadClientCA) as error:
            raise CannotServe(str(error)) from error
        self._certificates.serve(reloading)
        return ServingCertificate(reloading=reloading, now=self._clockwork.now)


class CertificateInFiles:
    """A certificate that somebody else issues, whose authority somebody else publishes."""

    def __init__(self, files: KeyPairFiles, bundles: CABundles, config: ReplicaConfig, clockwork: Clockwork) -> None:
        """Read the files.

        Raises:
            CannotServe: They hold nothing that can be served, or the client CAs cannot be used.
        """
        try:
            self._certificate = certificate_of(files, client_ca_of(config), now=clockwork.now)
        except (BadKeyPair, BadClientCA) as error:
            raise CannotServe(str(error)) from error
        reloading = self._certificate.reloading
        check = BundleCheck(bundles, lambda: reloading.pair, config.names, clockwork=clockwork)
        self.run, self.look, self.problem = check.run, check.look, check.problem

    async def obtain(self) -> ServingCertificate:
        """What the files held; the watcher that comes with it brings what they hold later."""
        return self._certificate
