"""The caBundle of our webhook configurations."""

from __future__ import annotations

import base64
import binascii
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from certs.bundle import refusal
from webhook.cluster.client import JSON_PATCH
from webhook.cluster.clockwork import Clockwork
from webhook.cluster.errors import APIError, BadAnswer, ClusterError
from webhook.cluster.resources import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime
    from typing import NoReturn

    from certs.keypair import KeyPair
    from policies.kubernetes.objects import Object

__all__ = ["BundleCheck", "CABundles", "Configuration", "LostRace", "PatchAPI", "Webhook", "verdict"]


class LostRace(Exception):  # noqa: N818 - it says what happened, and is no error
    """Somebody else wrote first; look again."""


class PatchAPI(Protocol):
    """The part of `APIClient` that is used here."""

    async def get(self, path: str) -> Any:
        """Read an object."""

    async def patch(self, path: str, body: Any, *, content_type: str) -> Any:
        """Change an object."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """One webhook of a configuration, as it was read."""

    name: str
    bundle: bytes
    """Empty where there is none, or no base64."""
    url: str
    """Where API servers call it; empty where they call a Service."""
    path: str
    """The path that they call there: `/conversion`."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """A MutatingWebhookConfiguration or ValidatingWebhookConfiguration, as it was read."""

    kind: str
    name: str
    resource_version: str
    webhooks: tuple[Webhook, ...]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class CABundles:
    """The bundles of named configurations. Needs `get` and `patch` for them, by their names."""

    def __init__(self, api: PatchAPI, configurations: Sequence[tuple[str, str]], url: str = "") -> None:
        """Read nothing yet.

        Args:
            api: The API server.
            configurations: Kind and name of each. All their webhooks have to be ours.
            url: Where API servers are to call us, `https://host:port`; empty where they are to call what is written.
        """
        self._api = api
        self._configurations = configurations
        self._url = url
        self._missing: list[str] = []
        self.stored: tuple[Object, ...] = ()
        """The configurations as they were last read."""

    def notes(self) -> list[str]:
        """Which configurations did not exist when they were last read."""
        return [f"there is no {missing}, so API servers call none of its webhooks" for missing in self._missing]

    async def read(self) -> list[Configuration]:
        """Read the configurations that exist; one that does not has no API server call us.

        Raises:
            ClusterError: One cannot be read.
        """
        found, missing, stored = [], [], []
        for kind, name in self._configurations:
            try:
                answer = await self._api.get(RESOURCES[kind].path(name=name))
            except APIError as error:
                if not error.not_found:
                    raise
                missing.append(f"{kind} {name}")
            else:
                found.append(_configuration(kind, name, answer))
                stored.append(answer)
        self._missing, self.stored = missing, tuple(stored)
        return found

    async def publish(self, configuration: Configuration, bundle: bytes) -> Configuration:
        """Give every webhook of a configuration a bundle, if it does not have it.

        Returns:
            The configuration as it is then.

        Raises:
            LostRace: It changed since it was read.
            ClusterError: It cannot be written.
        """
        patch = list(_patch(configuration, bundle, self._url))
        if not patch:
            return configuration
        path = RESOURCES[configuration.kind].path(name=configuration.name)
        test = {"op": "test", "path": "/metadata/resourceVersion", "value": configuration.resource_version}
        try:
            answer = await self._api.patch(path, [test, *patch], content_type=JSON_PATCH)
        except APIError as error:
            # 422 is the API server's answer to a failed test (apiserver pkg/endpoints/handlers/patch.go).
            if error.conflict or error.code == 422:
                raise LostRace(f"{configuration} changed meanwhile: {error}") from error
            raise
        return _configuration(configuration.kind, configuration.name, answer)


def verdict(configurations: Sequence[Configuration], pair: KeyPair, names: Sequence[str], now: datetime) -> str:
    """Why API servers would refuse what is served, by what the configurations say; empty when they would not.

    Args:
        configurations: As they were read or written last.
        pair: What is served.
        names: Under which names API servers know the server.
        now: The present moment, with a time zone.
    """
    said: dict[bytes, str] = {}
    for configuration in configurations:
        for webhook in configuration.webhooks:
            if webhook.bundle not in said:
                said[webhook.bundle] = refusal(webhook.bundle, pair, names, now)
            if said[webhook.bundle]:
                return (
                    f"the caBundle of webhook {webhook.name} in {configuration} does not verify the serving"
                    f" certificate: {said[webhook.bundle]}"
                )
    return ""


def _patch(configuration: Configuration, bundle: bytes, base: str) -> Iterator[dict[str, Any]]:
    value = base64.b64encode(bundle).decode()
    for number, webhook in enumerate(configuration.webhooks):
        path, url = f"/webhooks/{number}/clientConfig", base and f"{base}{webhook.path}"
        if webhook.url != url and base:
            # All of it: a Service beside a URL is refused.
            yield {"op": "replace", "path": path, "value": {"url": url, "caBundle": value}}
        elif webhook.bundle != bundle:
            # "add" replaces what is there, and needs nothing to be there.
            yield {"op": "add", "path": f"{path}/caBundle", "value": value}


def _configuration(kind: str, name: str, answer: Any) -> Configuration:
    try:
        webhooks = tuple(_webhook(webhook) for webhook in answer.get("webhooks") or ())
        return Configuration(kind, name, answer["metadata"]["resourceVersion"], webhooks)
    except (AttributeError, KeyError, TypeError) as error:
        raise BadAnswer(f"The API server's answer is no {kind}.") from error


def _webhook(answer: Any) -> Webhook:
    client = answer["clientConfig"]
    url = client.get("url") or ""
    # The API server calls a Service at "/" where no path is written.
    path = urlsplit(url).path if url else client["service"].get("path") or "/"
    return Webhook(answer["name"], decoded(client.get("caBundle") or ""), url, path)


def decoded(written: str) -> bytes:
    """Base64 as bytes; empty for what is none."""
    try:
        return base64.b64decode(written, validate=True)
    except (binascii.Error, ValueError):
        return b""


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
            await self._clockwork.sleep(self._clockwork.with_jitter(LOOK_EVERY))

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
