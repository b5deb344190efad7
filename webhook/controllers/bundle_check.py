"""Whether API servers accept what is served, where somebody else issues certificates and publishes their authority."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from webhook.cluster.clockwork import Clockwork
from webhook.cluster.errors import ClusterError
from webhook.controllers.ca_bundles import verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn

    from certs.keypair import KeyPair
    from webhook.controllers.ca_bundles import CABundles

__all__ = ["BundleCheck"]

LOOK_EVERY = 30.0
"""Seconds between two looks, as where the certificates are our own."""

_logger = logging.getLogger("gpu_admission.certificates")


class BundleCheck:
    """Compares the caBundle of our webhook configurations with the serving certificate; writes nothing.

    Source: cert-manager's cainjector writes the caBundle some time after the certificate was issued.
    """

    def __init__(
        self,
        bundles: CABundles,
        pair: Callable[[], KeyPair],
        names: Sequence[str],
        *,
        clockwork: Clockwork = Clockwork(),  # noqa: B008 - it is immutable
    ) -> None:
        """Args: what to read; what is served now; under which names API servers know the server; time."""
        self._bundles = bundles
        self._pair = pair
        self._names = names
        self._clockwork = clockwork
        self._problem = "the webhook configurations have not been compared with the serving certificate yet"
        self._judged = False

    def problem(self) -> str:
        """Why API servers would refuse what is served, as far as the last look knows; empty when they would not."""
        return self._problem

    async def run(self) -> NoReturn:
        """Look again and again; cancel the task to end it."""
        while True:
            await self.look()
            await self._clockwork.sleep(self._clockwork.jittered(LOOK_EVERY))

    async def look(self) -> None:
        """Look once; what cannot be read leaves the last verdict, where there is one."""
        try:
            configurations = await self._bundles.read()
        except ClusterError as error:
            _logger.warning("the webhook configurations could not be read: %s", error)
            if not self._judged:
                self._problem = f"the webhook configurations could not be read yet: {error}"
            return
        self._judged = True
        self._problem = verdict(configurations, self._pair(), self._names, self._clockwork.now())
