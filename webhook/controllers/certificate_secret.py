"""The Secret in which the certificates lie, written by compare-and-swap."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from certs.secret import secret_data
from webhook.cluster.errors import APIError, BadAnswer
from webhook.cluster.resources import RESOURCES
from webhook.controllers.ca_bundles import LostRace

if TYPE_CHECKING:
    from certs.secret import RotationState

__all__ = ["ROTATE_ANNOTATION", "CertificateSecret", "SecretAPI", "Stored"]

ROTATE_ANNOTATION = "gpu-admission.io/rotate"
"""On the Secret; a value that was not there before starts a rotation, as in
`kubectl annotate secret NAME gpu-admission.io/rotate="$(date)" --overwrite`."""


class SecretAPI(Protocol):
    """The part of `APIClient` that is used here."""

    async def get(self, path: str) -> Any:
        """Read an object."""

    async def post(self, path: str, body: Any) -> Any:
        """Create an object."""

    async def put(self, path: str, body: Any) -> Any:
        """Replace an object."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The Secret as it was read."""

    secret: dict[str, Any] | None
    """None where it does not exist."""
    data: dict[str, bytes]

    @property
    def asked(self) -> str:
        """The request to rotate that somebody wrote on it."""
        annotations = self.secret["metadata"].get("annotations") or {} if self.secret else {}
        return str(annotations.get(ROTATE_ANNOTATION, ""))


class CertificateSecret:
    """One Secret. Needs `get` and `update` by its name, and `create` where it is not installed along with us."""

    def __init__(self, api: SecretAPI, namespace: str, name: str) -> None:
        self._api = api
        self._namespace = namespace
        self._name = name
        self._path = RESOURCES["Secret"].path(namespace, name)

    def __str__(self) -> str:
        return f"Secret {self._namespace}/{self._name}"

    async def read(self) -> Stored:
        """Read it as the API server has it, no cache between.

        Raises:
            ClusterError: It cannot be read.
        """
        try:
            secret = await self._api.get(self._path)
        except APIError as error:
            if error.not_found:
                return Stored(None, {})
            raise
        return _stored(secret)

    async def write(self, over: Stored, state: RotationState) -> None:
        """Write a state over what was read, or create the Secret. Labels and annotations stay.

        Raises:
            LostRace: Somebody else wrote first.
            ClusterError: It cannot be written; where that is `Unreachable`, it may be written all the same.
        """
        data = {key: base64.b64encode(value).decode() for key, value in secret_data(state).items()}
        try:
            if over.secret is None:
                await self._api.post(RESOURCES["Secret"].path(self._namespace), self._new(data))
            else:
                # The resourceVersion that was read goes along, which makes this a compare-and-swap.
                await self._api.put(self._path, {**over.secret, "data": data})
        except APIError as error:
            # Gone since it was read: a Secret that is written by its uid is not created again.
            if error.conflict or error.already_exists or (over.secret is not None and error.not_found):
                raise LostRace(f"{self} changed meanwhile: {error}") from error
            raise

    def _new(self, data: dict[str, str]) -> dict[str, Any]:
        labels = {"app.kubernetes.io/managed-by": "gpu-admission"}
        metadata = {"name": self._name, "namespace": self._namespace, "labels": labels}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data}


def _stored(secret: Any) -> Stored:
    if not isinstance(secret, dict) or not isinstance(secret.get("metadata"), dict):
        raise BadAnswer("The API server's answer is no Secret.")
    if not secret["metadata"].get("resourceVersion"):
        # Without it, what is written would replace whatever is there.
        raise BadAnswer("The API server's answer is a Secret without resourceVersion.")
    try:
        data = {key: base64.b64decode(value, validate=True) for key, value in (secret.get("data") or {}).items()}
    except (AttributeError, TypeError, binascii.Error) as error:
        raise BadAnswer("The API server's answer is a Secret whose data is no base64.") from error
    return Stored(secret, data)
