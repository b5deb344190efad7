"""The caBundle of our webhook configurations: what API servers verify us with.

Any replica publishes, with no lock. A replica that was asleep cannot bring back an old bundle: it reads the
configurations first, then the state, which is therefore at least as new as what the configurations hold, and its patch
applies only to the very version it read.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from webhook.cluster.client import JSON_PATCH
from webhook.cluster.errors import APIError, BadAnswer
from webhook.cluster.resources import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["CABundles", "Configuration", "LostRace", "PatchAPI", "Webhook"]


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

    def __init__(self, api: PatchAPI, configurations: Sequence[tuple[str, str]]) -> None:
        """Read nothing yet.

        Args:
            api: The API server.
            configurations: Kind and name of each. All their webhooks have to be ours.
        """
        self._api = api
        self._configurations = configurations

    async def read(self) -> list[Configuration]:
        """Read the configurations that exist; one that does not has no API server call us.

        Raises:
            ClusterError: One cannot be read.
        """
        found = []
        for kind, name in self._configurations:
            try:
                answer = await self._api.get(RESOURCES[kind].path(name=name))
            except APIError as error:
                if error.not_found:
                    continue
                raise
            found.append(_configuration(kind, name, answer))
        return found

    async def publish(self, configuration: Configuration, bundle: bytes) -> Configuration:
        """Give every webhook of a configuration a bundle, if it does not have it.

        Returns:
            The configuration as it is then.

        Raises:
            LostRace: It changed since it was read.
            ClusterError: It cannot be written.
        """
        patch = list(_patch(configuration, bundle))
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


def _patch(configuration: Configuration, bundle: bytes) -> Iterator[dict[str, str]]:
    value = base64.b64encode(bundle).decode()
    for number, webhook in enumerate(configuration.webhooks):
        if webhook.bundle != bundle:
            # "add" replaces what is there, and needs nothing to be there.
            yield {"op": "add", "path": f"/webhooks/{number}/clientConfig/caBundle", "value": value}


def _configuration(kind: str, name: str, answer: Any) -> Configuration:
    try:
        webhooks = tuple(_webhook(webhook) for webhook in answer.get("webhooks") or ())
        return Configuration(kind, name, answer["metadata"]["resourceVersion"], webhooks)
    except (AttributeError, KeyError, TypeError) as error:
        raise BadAnswer(f"The API server's answer is no {kind}.") from error


def _webhook(answer: Any) -> Webhook:
    return Webhook(answer["name"], decoded(answer["clientConfig"].get("caBundle") or ""))


def decoded(written: str) -> bytes:
    """Base64 as bytes; empty for what is none."""
    try:
        return base64.b64decode(written, validate=True)
    except (binascii.Error, ValueError):
        return b""
