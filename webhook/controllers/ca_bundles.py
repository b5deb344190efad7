"""Watches our two webhook configurations, so that a replica checks them as soon as one changes.

`kubectl apply` of a webhook with a new name, or a GitOps tool, leaves it without a caBundle; until a replica writes it,
calls of this webhook fail.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from certs.authority import refusal
from webhook.cluster.answers import APIError, BadAnswer, ClusterError
from webhook.cluster.client import JSON_PATCH
from webhook.cluster.clockwork import Clockwork, Pace
from webhook.cluster.lists import get_if_exists
from webhook.cluster.reflector import Reflector
from webhook.cluster.resources import RESOURCES
from webhook.cluster.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime
    from typing import NoReturn

    from certs.keypair import KeyPair
    from policies.kubernetes.objects import Object
    from webhook.cluster.client import APIClient


_BATCH_SECONDS = 0.2
"""Changes within this time after a check are checked together."""


class ConfigurationWatch:
    """Pauses that end early when one of the named configurations changes.

    While they cannot be watched, pauses have their full length. RBAC must allow `list` and `watch` for these names.
    """

    def __init__(self, client: APIClient, configurations: Sequence[tuple[str, str]], pace: Pace | None = None) -> None:
        """Sends no request before `run`.

        Args:
            client: Reads from the API server.
            configurations: Kind and name of each.
            pace: Pauses and time-outs of the watches.
        """
        self._changed = asyncio.Event()
        self._clockwork = pace.clockwork if pace else Clockwork()
        self._reflectors = [
            Reflector(
                client,
                RESOURCES[kind],
                Store(RESOURCES[kind], on_change=self._changed.set),
                query={"fieldSelector": f"metadata.name={name}"},
                pace=pace,
            )
            for kind, name in configurations
        ]

    @property
    def clockwork(self) -> Clockwork:
        """Time and randomness for a task that checks the configurations: `sleep` ends when one changes."""
        return replace(self._clockwork, sleep=self._sleep)

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors:
                group.create_task(reflector.run())

    async def _sleep(self, seconds: float) -> None:
        await self._clockwork.sleep(min(seconds, _BATCH_SECONDS))
        changed = asyncio.ensure_future(self._changed.wait())
        passed = asyncio.ensure_future(self._clockwork.sleep(max(seconds - _BATCH_SECONDS, 0)))
        try:
            await asyncio.wait([changed, passed], return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()
            passed.cancel()
        self._changed.clear()


class LostRace(Exception):  # noqa: N818 - an expected event, not an error
    """Another writer was first; read again."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """One webhook of a configuration."""

    name: str
    bundle: bytes
    """Empty if it is missing or not base64."""
    url: str
    """The URL that API servers call; empty if they call a Service."""
    path: str
    """The path of the calls: `/conversion`."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """A MutatingWebhookConfiguration or ValidatingWebhookConfiguration."""

    kind: str
    name: str
    resource_version: str
    webhooks: tuple[Webhook, ...]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(eq=False)
class CABundles:
    """The bundles of named configurations. RBAC must allow `get` and `patch` for these names."""

    api: APIClient
    """The API server."""
    configurations: Sequence[tuple[str, str]]
    """Kind and name of each. All their webhooks must be ours."""
    url: str = ""
    """The URL that API servers must call, `https://host:port`; empty to keep what is configured."""
    stored: tuple[Object, ...] = field(default=(), init=False)
    """The configurations of the last read."""
    _missing: list[str] = field(default_factory=list, init=False)

    def notes(self) -> list[str]:
        """Notes about configurations that did not exist at the last read."""
        return [f"there is no {missing}, so API servers call none of its webhooks" for missing in self._missing]

    async def read(self) -> list[Configuration]:
        """Read the configurations that exist.

        Raises:
            ClusterError: One cannot be read.
        """
        found, missing, stored = [], [], []
        for kind, name in self.configurations:
            answer = await get_if_exists(self.api, RESOURCES[kind].path(name=name))
            if answer is None:
                missing.append(f"{kind} {name}")
            else:
                found.append(_configuration(kind, name, answer))
                stored.append(answer)
        self._missing, self.stored = missing, tuple(stored)
        return found

    async def publish(self, configuration: Configuration, bundle: bytes) -> Configuration:
        """Write a bundle into every webhook of a configuration; returns the resulting configuration.

        Raises:
            LostRace: The configuration changed since it was read.
            ClusterError: It cannot be written.
        """
        patch = list(_patch(configuration, bundle, self.url))
        if not patch:
            return configuration
        path = RESOURCES[configuration.kind].path(name=configuration.name)
        test = {"op": "test", "path": "/metadata/resourceVersion", "value": configuration.resource_version}
        try:
            answer = await self.api.patch(path, [test, *patch], content_type=JSON_PATCH)
        except APIError as error:
            # 422 is the API server's answer to a failed test (apiserver pkg/endpoints/handlers/patch.go).
            if error.is_conflict or error.code == 422:
                raise LostRace(f"{configuration} changed meanwhile: {error}") from error
            raise
        return _configuration(configuration.kind, configuration.name, answer)


def verdict(configurations: Sequence[Configuration], pair: KeyPair, names: Sequence[str], now: datetime) -> str:
    """The reason why API servers would refuse the serving certificate; empty if they would accept it.

    Args:
        configurations: The last known webhook configurations.
        pair: The serving certificate.
        names: The names by which API servers call the server.
        now: The present moment, with a time zone.
    """
    refusals: dict[bytes, str] = {}
    for configuration in configurations:
        for webhook in configuration.webhooks:
            if webhook.bundle not in refusals:
                refusals[webhook.bundle] = refusal(webhook.bundle, pair, names, now)
            if refusals[webhook.bundle]:
                return (
                    f"the caBundle of webhook {webhook.name} in {configuration} does not verify the serving"
                    f" certificate: {refusals[webhook.bundle]}"
                )
    return ""


def _patch(configuration: Configuration, bundle: bytes, base: str) -> Iterator[dict[str, Any]]:
    value = base64.b64encode(bundle).decode()
    for number, webhook in enumerate(configuration.webhooks):
        path, url = f"/webhooks/{number}/clientConfig", base and f"{base}{webhook.path}"
        if webhook.url != url and base:
            # The whole clientConfig: a Service beside a URL is refused.
            yield {"op": "replace", "path": path, "value": {"url": url, "caBundle": value}}
        elif webhook.bundle != bundle:
            # "add" works with and without an old value.
            yield {"op": "add", "path": f"{path}/caBundle", "value": value}


def _configuration(kind: str, name: str, answer: Any) -> Configuration:
    try:
        webhooks = tuple(_webhook(webhook) for webhook in answer.get("webhooks") or ())
        return Configuration(kind, name, answer["metadata"]["resourceVersion"], webhooks)
    except (AttributeError, KeyError, TypeError) as error:
        raise BadAnswer(f"The API server's answer is not a {kind}.") from error


def _webhook(answer: Any) -> Webhook:
    client = answer["clientConfig"]
    url = client.get("url") or ""
    # The API server calls a Service at "/" if no path is written.
    path = urlsplit(url).path if url else client["service"].get("path") or "/"
    return Webhook(answer["name"], _from_base64(client.get("caBundle") or ""), url, path)


def _from_base64(written: str) -> bytes:
    """The decoded bytes; empty if the text is not base64."""
    try:
        return base64.b64decode(written, validate=True)
    except (binascii.Error, ValueError):
        return b""


NOT_COMPARED = "the webhook configurations have not been compared with the serving certificate yet"
LOOK_EVERY = 30.0
"""Seconds between two checks, the same as for our own certificates."""

_logger = logging.getLogger("gpu_admission.certificates")


@dataclass(eq=False)
class BundleCheck:
    """Compares the caBundle of our webhook configurations with the serving certificate; writes nothing.

    Source: cert-manager's cainjector writes the caBundle some time after the certificate was issued.
    """

    bundles: CABundles
    pair: Callable[[], KeyPair]
    """Returns the current serving certificate."""
    names: Sequence[str]
    """The names by which API servers call us."""
    clockwork: Clockwork = field(default_factory=Clockwork)
    _problem: str = field(default=NOT_COMPARED, init=False)
    _judged: bool = field(default=False, init=False)

    def problem(self) -> str:
        """The reason why API servers would refuse our certificate, by the last check; empty without one."""
        return self._problem

    async def run(self) -> NoReturn:
        """Check periodically until cancelled."""
        while True:
            await self.look()
            await self.clockwork.sleep(self.clockwork.with_jitter(LOOK_EVERY))

    async def look(self) -> None:
        """Check once; if the configurations cannot be read, the last verdict stays."""
        try:
            configurations = await self.bundles.read()
        except ClusterError as error:
            _logger.warning("the webhook configurations could not be read: %s", error)
            if not self._judged:
                self._problem = f"the webhook configurations could not be read yet: {error}"
            return
        self._judged = True
        self._problem = verdict(configurations, self.pair(), self.names, self.clockwork.now())
