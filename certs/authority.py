"""A certificate authority of our own, and the certificates it issues.

The extensions are those that Go's verifier (the API server) and OpenSSL's strict mode (the default of Python 3.13)
require: basicConstraints and keyUsage marked critical, subject and authority key identifiers, an extended key usage.
Every key is ECDSA P-256 and every serial number is random, so that two authorities made under one name never
issue the same issuer and serial twice.
"""

from __future__ import annotations

from datetime import timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from certs.keypair import BadKeyPair, KeyPair, parse_certificates

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime


AUTHORITY_LIFETIME = timedelta(days=3650)
ISSUED_LIFETIME = timedelta(days=365)
CLOCK_SKEW = timedelta(hours=1)
"""The time by which a certificate's validity begins in the past, for peers whose clock is behind ours."""

SERVING_SUBJECT = "gpu-admission webhook"
"""The common name of serving certificates. Clients verify SANs; a service's name can exceed the 64 characters here."""


def make_authority(common_name: str, *, now: datetime, lifetime: timedelta = AUTHORITY_LIFETIME) -> KeyPair:
    """A new self-signed authority that may issue server and client certificates, but no authorities.

    Args:
        common_name: The authority's subject, 1 to 64 characters.
        now: The present moment, with a time zone.
        lifetime: How long it is valid from now.

    Raises:
        ValueError: The common name is too long or empty.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    own_identifier = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)
    return _sign(common_name, key, now, now + lifetime, None, own_identifier, is_authority=True)


def make_self_signed(common_name: str, *, now: datetime, lifetime: timedelta = AUTHORITY_LIFETIME) -> KeyPair:
    """A new self-signed certificate for both ends of a connection; it can issue no others.

    A peer trusts it by having this very certificate.

    Args:
        common_name: The subject, 1 to 64 characters.
        now: The present moment, with a time zone.
        lifetime: How long it is valid from now.

    Raises:
        ValueError: The common name is too long or empty.
    """
    usages = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    return _sign(common_name, ec.generate_private_key(ec.SECP256R1()), now, now + lifetime, None, usages)


def issue_serving(
    authority: KeyPair, names: Sequence[str], *, now: datetime, lifetime: timedelta = ISSUED_LIFETIME
) -> KeyPair:
    """Issue a certificate with which a server answers for the given names.

    Args:
        authority: The issuer, from `make_authority`.
        names: DNS names and IP addresses; what parses as an IP address becomes one.
        now: The present moment, with a time zone.
        lifetime: How long it is valid from now; at most until the authority expires.

    Raises:
        BadKeyPair: The issuer is not an authority, or is not valid now.
        ValueError: There is no name, or one is not ASCII (write IDNA's A-label).
    """
    if not names:
        raise ValueError("A serving certificate needs at least one DNS name or IP address: clients check nothing else.")
    alternatives = x509.SubjectAlternativeName([general_name(name) for name in names])
    return issue(authority, SERVING_SUBJECT, ExtendedKeyUsageOID.SERVER_AUTH, now, lifetime, alternatives)


def issue(
    authority: KeyPair,
    common_name: str,
    usage: x509.ObjectIdentifier,
    now: datetime,
    lifetime: timedelta,
    *extensions: x509.ExtensionType,
) -> KeyPair:
    """Issue a certificate for a use of its key.

    Args:
        authority: The issuer, from `make_authority`.
        common_name: The subject, 1 to 64 characters.
        usage: The extended key usage.
        now: The present moment, with a time zone.
        lifetime: How long it is valid from now; at most until the authority expires.
        extensions: More extensions.

    Raises:
        BadKeyPair: The issuer is not an authority, or is not valid now.
        ValueError: The common name is too long or empty.
    """
    authority.check(now)
    issuer = authority.chain[0]
    issuer_key = authority.private_key
    if not isinstance(issuer_key, ec.EllipticCurvePrivateKey):
        raise BadKeyPair("The authority's key is not ECDSA; make the authority with this program.")
    try:
        constraints = issuer.extensions.get_extension_for_class(x509.BasicConstraints).value
        subject_key = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound as error:
        raise BadKeyPair(
            "The issuer has no basicConstraints or key identifier; make it with make_authority."
        ) from error
    if not constraints.ca:
        raise BadKeyPair("The issuer is not an authority (basicConstraints CA:FALSE); issue with the CA's key pair.")
    identifier = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(subject_key)
    key, end = ec.generate_private_key(ec.SECP256R1()), min(now + lifetime, issuer.not_valid_after_utc)
    usages = x509.ExtendedKeyUsage([usage])
    return _sign(common_name, key, now, end, (issuer.subject, issuer_key), usages, identifier, *extensions)


def _sign(
    common_name: str,
    key: ec.EllipticCurvePrivateKey,
    now: datetime,
    end: datetime,
    issuer: tuple[x509.Name, ec.EllipticCurvePrivateKey] | None,
    *extensions: x509.ExtensionType,
    is_authority: bool = False,
) -> KeyPair:
    """A certificate for a key, signed by the issuer, or by the key itself, with further extensions."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    issuer_name, issuer_key = (subject, key) if issuer is None else issuer
    unused = dict.fromkeys(("content_commitment", "key_encipherment", "data_encipherment", "key_agreement"), False)
    usage = x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
        **unused,
    )
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(end)
        .issuer_name(issuer_name)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None), critical=True)
        .add_extension(usage, critical=True)
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return KeyPair(
        builder.sign(issuer_key, SHA256()).public_bytes(Encoding.PEM),
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )


def general_name(name: str) -> x509.DNSName | x509.IPAddress:
    """A DNS name or an IP address as certificates contain it."""
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def make_bundle(authorities: Iterable[bytes]) -> bytes:
    """The certificates of authorities as one PEM text, each of them once.

    The order is kept. API servers share connections among webhooks whose bundles are equal byte by byte
    (client-go transport/cache.go), so that the same authorities should always be written in the same order.

    Args:
        authorities: PEM certificates.

    Raises:
        BadKeyPair: One of them cannot be parsed.
    """
    certificates = dict.fromkeys(certificate for pem in authorities for certificate in parse_certificates(pem))
    return b"".join(certificate.public_bytes(Encoding.PEM) for certificate in certificates)


def bundle_holds(bundle: bytes, authority: bytes) -> bool:
    """True if a bundle has an authority's certificate; False for a damaged bundle.

    Raises:
        BadKeyPair: `authority` cannot be parsed.
    """
    wanted = parse_certificates(authority)
    try:
        return set(wanted) <= set(parse_certificates(bundle))
    except BadKeyPair:
        return False


def refusal(bundle: bytes, pair: KeyPair, names: Sequence[str], now: datetime) -> str:
    """The reason why a client with a bundle would refuse a server's certificate; empty without one.

    Args:
        bundle: PEM certificates of authorities, as they were published.
        pair: The key pair of the server.
        names: The DNS names and IP addresses at which clients call the server.
        now: The present moment, with a time zone.
    """
    try:
        authorities = parse_certificates(bundle)
        own, *intermediates = pair.chain
    except BadKeyPair as error:
        return str(error)
    client = PolicyBuilder().store(Store(list(authorities))).time(now)
    for name in names:
        try:
            client.build_server_verifier(general_name(name)).verify(own, intermediates)
        except VerificationError as error:
            return f"for {name}: {error}"
    return ""
