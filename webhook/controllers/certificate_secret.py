"""The Secret with the certificates, written by compare-and-swap."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from certs.secret import secret_data
from webhook.cluster.errors import APIError, BadAnswer
from webhook.cluster.resources import RESOURCES
from webhook.controllers.ca_bundles import LostRace

if TYPE_CHECKING:
    from certs.secret import RotationState
    from webhook.cluster.client import APIClient

__all__ = ["ROTATE_ANNOTATION", "CertificateSecret", "Stored"]

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
        try:
            secret = await self._api.get(self._path)
        except APIError as error:
            if error.is_not_found:
                return Stored(None, {})
            raise
        return _parse_secret(secret)

    async def write(self, over: Stored, state: RotationState) -> None:
        """Replace the state that was read, or create the Secret. Labels and annotations stay.

        Raises:
            LostRace: Another writer was first.
            ClusterError: It cannot be written; after `Unreachable` it may be written or not.
        """
        data = {key: base64.b64encode(value).decode() for key, value in secret_data(state).items()}
        try:
            if over.secret is None:
                await self._api.post(RESOURCES["Secret"].path(self._namespace), self._new(data))
            else:
                # It includes the resourceVersion that was read, which makes this a compare-and-swap.
                await self._api.put(self._path, {**over.secret, "data": data})
        except APIError as error:
            # It may have been deleted since the read: a PUT with a UID does not create it again.
            if error.is_conflict or error.already_exists or (over.secret is not None and error.is_not_found):
                raise LostRace(f"{self} changed meanwhile: {error}") from error
            raise

    def _new(self, data: dict[str, str]) -> dict[str, Any]:
        labels = {"app.kubernetes.io/managed-by": "gpu-admission"}
        metadata = {"name": self._name, "namespace": self._namespace, "labels": labels}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data}


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
