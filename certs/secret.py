"""The content of the Secret: authorities, the certificate of all replicas, and the state of rotation.

Everything that rotation needs is in one object, so that one compare-and-swap is one step, and a replica that stops between
any two writes leaves a complete state.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from certs.authority import make_bundle
from certs.keypair import BadKeyPair, KeyPair, parse_certificates

if TYPE_CHECKING:
    from collections.abc import Mapping


FORMAT = 1
"""The version of the Secret's keys and of the content of `rotation.json`."""

_ROTATION = "rotation.json"


class BadSecret(Exception):  # noqa: N818 - named like BadKeyPair, its neighbour
    """A Secret is damaged or not ours; the text is one plain clause without key material."""


class NewerSecret(Exception):  # noqa: N818 - the name is a statement
    """A newer version of this program wrote the Secret, as during upgrades; it is not changed."""


@dataclass(frozen=True, slots=True)
class Retiring:
    """An authority that issues no longer, whose certificates may still be in use."""

    certificate_pem: bytes
    until: datetime
    """From then on, every certificate that it issued has expired."""


@dataclass(frozen=True, slots=True)
class RotationState:
    """Where rotation stands."""

    authority: KeyPair
    """Issued the leaf."""
    leaf: KeyPair
    """The certificate to serve, the same for all replicas."""
    successor: KeyPair | None = None
    """The next authority, made known ahead of the first certificate that it issues."""
    published: datetime | None = None
    """Since when the successor was seen in every webhook configuration; None when it was not, or not every time."""
    retiring: tuple[Retiring, ...] = ()
    """Oldest first."""
    asked: str = ""
    """The last request to rotate that was taken up."""

    @property
    def bundle(self) -> bytes:
        """All authorities for clients to trust, oldest first: then switching to the successor changes no byte."""
        successor = [self.successor.certificate_pem] if self.successor else []
        return make_bundle(
            [*(old.certificate_pem for old in self.retiring), self.authority.certificate_pem, *successor]
        )


def secret_data(state: RotationState) -> dict[str, bytes]:
    """Write a state as the data of a Secret; base64 is for the caller."""
    rotation = {
        "format": FORMAT,
        "published": state.published.isoformat() if state.published else None,
        "retiring": [old.until.isoformat() for old in state.retiring],
        "asked": state.asked,
    }
    data = {
        "ca.crt": state.authority.certificate_pem,
        "ca.key": state.authority.key_pem,
        "tls.crt": state.leaf.certificate_pem,
        "tls.key": state.leaf.key_pem,
        _ROTATION: json.dumps(rotation, indent=2).encode(),
    }
    if state.successor is not None:
        data |= {"next-ca.crt": state.successor.certificate_pem, "next-ca.key": state.successor.key_pem}
    if state.retiring:
        data["retiring-ca.crt"] = b"".join(old.certificate_pem for old in state.retiring)
    return data


def parse_secret(data: Mapping[str, bytes]) -> RotationState | None:
    """The state in a Secret, with consistent keys and certificates; does not check dates.

    Returns:
        None for a Secret without data, as an installation may create it.

    Raises:
        BadSecret: It is damaged or not ours.
        NewerSecret: A newer version of this program wrote it.
    """
    if not data:
        return None
    rotation = _rotation(data)
    state = RotationState(
        authority=_authority(data, "ca"),
        leaf=_pair(data, "tls"),
        successor=_authority(data, "next-ca") if {"next-ca.crt", "next-ca.key"} & data.keys() else None,
        published=None if rotation.get("published") is None else _moment(rotation["published"]),
        retiring=_parse_retiring(data.get("retiring-ca.crt", b""), rotation.get("retiring")),
        asked=str(rotation.get("asked", "")),
    )
    try:
        state.leaf.chain[0].verify_directly_issued_by(state.authority.chain[0])
    except (ValueError, TypeError, InvalidSignature) as error:
        raise BadSecret("ca.crt did not issue tls.crt") from error
    return state


def _rotation(data: Mapping[str, bytes]) -> dict[str, Any]:
    if _ROTATION not in data:
        raise BadSecret(f"it has no {_ROTATION}: this program did not write it")
    try:
        rotation = json.loads(data[_ROTATION])
    except (ValueError, RecursionError) as error:
        raise BadSecret(f"{_ROTATION} is not JSON") from error
    if not isinstance(rotation, dict) or not isinstance(rotation.get("format"), int):
        raise BadSecret(f"{_ROTATION} says no format")
    version = rotation["format"]
    if version > FORMAT:
        raise NewerSecret(f"its format is {version}, and this version knows formats up to {FORMAT}")
    return rotation


def _pair(data: Mapping[str, bytes], prefix: str) -> KeyPair:
    missing = [key for key in (f"{prefix}.crt", f"{prefix}.key") if key not in data]
    if missing:
        raise BadSecret(f"it has no {missing[0]}")
    pair = KeyPair(data[f"{prefix}.crt"], data[f"{prefix}.key"])
    try:
        pair.check(pair.not_after)
    except BadKeyPair as error:
        raise BadSecret(f"{prefix}.crt and {prefix}.key cannot be used: {error}") from error
    return pair


def _authority(data: Mapping[str, bytes], prefix: str) -> KeyPair:
    pair = _pair(data, prefix)
    if not _is_authority(pair.chain[0]) or not isinstance(pair.private_key, ec.EllipticCurvePrivateKey):
        raise BadSecret(f"{prefix}.crt is not an authority of this program")
    return pair


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (ValueError, x509.ExtensionNotFound, x509.DuplicateExtension):
        return False


def _parse_retiring(pem: bytes, ends: object) -> tuple[Retiring, ...]:
    if not pem and ends == []:
        return ()
    try:
        certificates = parse_certificates(pem)
    except BadKeyPair as error:
        raise BadSecret(f"retiring-ca.crt cannot be used: {error}") from error
    if not isinstance(ends, list) or len(ends) != len(certificates):
        raise BadSecret(f"{_ROTATION} does not say until when each of retiring-ca.crt is needed")
    return tuple(
        Retiring(certificate.public_bytes(Encoding.PEM), _moment(end))
        for certificate, end in zip(certificates, ends, strict=True)
    )


def _moment(written: object) -> datetime:
    try:
        moment = datetime.fromisoformat(written) if isinstance(written, str) else None
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise BadSecret(f"{_ROTATION} has no time with a time zone where one belongs")
    return moment
