"""The Secret with the certificates, whose keys are not used, and the caBundles."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from certs.bundle import refusal
from certs.keypair import BadKeyPair, KeyPair
from policies.health import Bundle, StoredCertificates, Unread
from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import lookup, mapping_at, mappings_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from policies.kubernetes.objects import Object

__all__ = ["bundles_of", "stored_certificates"]


def stored_certificates(secret: Object | Unread | None) -> StoredCertificates | Unread | None:
    """When the certificates in the Secret expire."""
    if secret is None or isinstance(secret, Unread):
        return secret
    try:
        leaf, authority = (KeyPair(_data(secret, key), b"").not_after for key in ("tls.crt", "ca.crt"))
    except BadKeyPair as error:
        return StoredCertificates(str(error))
    return StoredCertificates("", leaf, authority)


def bundles_of(
    configurations: Mapping[str, Object | Unread | None], secret: Object | Unread | None, now: datetime
) -> Iterator[Bundle]:
    """The caBundle of each webhook; compared with the Secret, if that was read."""
    certificate = b"" if secret is None or isinstance(secret, Unread) else _data(secret, "tls.crt")
    for kind, document in configurations.items():
        if document is None or isinstance(document, Unread):
            continue
        for webhook in mappings_at(document, ("webhooks",)):
            client = mapping_at(webhook, ("clientConfig",))
            bundle = _from_base64(client.get("caBundle"))
            why = refusal(bundle, KeyPair(certificate, b""), [_host(client)], now) if certificate and bundle else ""
            yield Bundle(f"{kind} {name_of(document)}", str(webhook.get("name")), bool(bundle), why)


def _host(client: Mapping[str, Any]) -> str:
    """The name by which API servers call a webhook."""
    if url := client.get("url"):
        return urlsplit(url).hostname or ""
    return f"{lookup(client, ('service', 'name'))}.{lookup(client, ('service', 'namespace'))}.svc"


def _data(secret: Object, key: str) -> bytes:
    return _from_base64(lookup(secret, ("data", key)))


def _from_base64(text: object) -> bytes:
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except (binascii.Error, ValueError):
        return b""
