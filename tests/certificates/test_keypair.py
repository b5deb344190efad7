"""Usable and unusable key pairs, with the reason."""

import base64
import re
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat
from cryptography.x509.oid import ExtensionOID
from hypothesis import assume, given
from hypothesis import strategies as st

from certs import BadKeyPair, KeyPair, issue_serving, make_authority
from certs.keypair import parse_certificates

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
AUTHORITY = make_authority("authority", now=NOW)
PAIR = issue_serving(AUTHORITY, ["b.svc", "10.0.0.1", "a.svc"], now=NOW)
OTHER = issue_serving(AUTHORITY, ["b.svc"], now=NOW)
CHAIN = KeyPair(PAIR.certificate_pem + AUTHORITY.certificate_pem, PAIR.key_pem)


def armoured(der):
    return b"-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(der) + b"-----END CERTIFICATE-----\n"


def refusal(pair, now=NOW):
    with pytest.raises(BadKeyPair) as raised:
        pair.check(now)
    return str(raised.value)


def test_good_pair_passes():
    PAIR.check(NOW)


def test_chain_passes():
    CHAIN.check(NOW)


def test_pair_with_windows_line_ends_passes():
    KeyPair(PAIR.certificate_pem.replace(b"\n", b"\r\n"), PAIR.key_pem.replace(b"\n", b"\r\n")).check(NOW)


def test_pair_with_text_around_the_blocks_passes():
    KeyPair("Zertifikat für b.svc\n".encode() + PAIR.certificate_pem, b"# key\n" + PAIR.key_pem).check(NOW)


def test_key_in_the_certificates_file_too_passes():
    combined = PAIR.key_pem + PAIR.certificate_pem
    KeyPair(combined, combined).check(NOW)


def test_names_are_dns_names_then_addresses():
    assert PAIR.names == ("b.svc", "a.svc", "10.0.0.1")


def test_not_after_is_the_first_end_in_the_chain():
    short = make_authority("short", now=NOW, lifetime=timedelta(days=1))
    assert KeyPair(PAIR.certificate_pem + short.certificate_pem, PAIR.key_pem).not_after == short.not_after


def test_fingerprint_is_the_sha256_of_the_first_certificate():
    assert CHAIN.fingerprint == x509.load_pem_x509_certificate(PAIR.certificate_pem).fingerprint(SHA256()).hex()


def test_repr_shows_neither_half():
    combined = KeyPair(PAIR.key_pem + PAIR.certificate_pem, PAIR.key_pem)
    assert re.fullmatch(r"KeyPair\(<\d+ bytes>, <\d+ bytes, secret>\)", repr(combined))


def test_pairs_are_compared_by_content():
    assert KeyPair(bytes(PAIR.certificate_pem), bytes(PAIR.key_pem)) == PAIR
    assert OTHER != PAIR


def test_key_of_another_certificate_is_refused():
    assert refusal(KeyPair(PAIR.certificate_pem, OTHER.key_pem)) == (
        "The key does not belong to the certificate; use the key that the certificate was issued for."
    )


def test_chain_in_the_wrong_order_is_refused():
    assert refusal(KeyPair(AUTHORITY.certificate_pem + PAIR.certificate_pem, PAIR.key_pem)) == (
        "The key belongs to certificate 2 of 2; put that one first in the file."
    )


def test_pair_expires_after_its_last_second():
    PAIR.check(PAIR.not_after)
    assert refusal(PAIR, PAIR.not_after + SECOND) == (
        "The certificate expired at 2027-03-01T12:00:00Z; issue a new one."
    )


def test_pair_is_refused_before_its_first_second():
    begin = PAIR.chain[0].not_valid_before_utc
    PAIR.check(begin)
    assert refusal(PAIR, begin - SECOND) == (
        "The certificate is not valid before 2026-03-01T11:00:00Z; wait, or correct the clock."
    )


def test_expired_issuer_in_the_chain_is_refused():
    short = make_authority("short", now=NOW, lifetime=timedelta(days=1))
    chain = KeyPair(PAIR.certificate_pem + short.certificate_pem, PAIR.key_pem)
    assert refusal(chain, NOW + timedelta(days=2)) == (
        "Certificate 2 of the chain expired at 2026-03-02T12:00:00Z; issue a new one."
    )


@pytest.mark.parametrize("pem", [b"", b"\x30\x82\x01\xff", PAIR.key_pem])
def test_invalid_certificate_is_refused(pem):
    assert refusal(KeyPair(pem, PAIR.key_pem)) == (
        "There is no PEM certificate: no BEGIN CERTIFICATE line; give the certificate, not its key."
    )


@pytest.mark.parametrize("pem", [b"", b"\x30\x82\x01\xff", PAIR.certificate_pem])
def test_invalid_key_is_refused(pem):
    assert refusal(KeyPair(PAIR.certificate_pem, pem)) == (
        "There is no PEM key: no BEGIN PRIVATE KEY line; give the key, not its certificate."
    )


def test_certificate_with_damaged_content_is_refused():
    damaged = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    assert refusal(KeyPair(damaged, PAIR.key_pem)) == (
        "The certificate is cut off or damaged: its PEM cannot be parsed; write or copy it again."
    )


def test_public_key_on_an_unknown_curve_is_refused():
    p256, unknown = bytes.fromhex("2a8648ce3d030107"), bytes.fromhex("2a8648ce3d03017f")
    der = PAIR.chain[0].public_bytes(Encoding.DER).replace(p256, unknown)
    assert refusal(KeyPair(armoured(der), PAIR.key_pem)) == (
        "The certificate holds a public key of a kind that is not supported; issue it again."
    )


def test_names_that_cannot_be_read_are_refused():
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(AUTHORITY.chain[0].subject)
        .public_key(PAIR.private_key.public_key())
        .serial_number(1)
        .not_valid_before(NOW)
        .not_valid_after(NOW + SECOND)
        .add_extension(x509.UnrecognizedExtension(ExtensionOID.SUBJECT_ALTERNATIVE_NAME, b"no names"), critical=False)
        .sign(AUTHORITY.private_key, SHA256())
    )
    assert refusal(KeyPair(certificate.public_bytes(Encoding.PEM), PAIR.key_pem)) == (
        "The certificate's extensions cannot be read; issue it again."
    )


def test_encrypted_key_is_refused():
    encrypted = PAIR.private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    assert refusal(KeyPair(PAIR.certificate_pem, encrypted)) == ("The key is encrypted; store it without a password.")


def test_last_certificate_of_a_chain_cut_off_is_refused():
    assert refusal(KeyPair(CHAIN.certificate_pem[:-40], PAIR.key_pem)) == (
        "Only 1 of 2 certificates are complete; write the file to its end."
    )


def test_key_cut_off_is_refused():
    assert refusal(KeyPair(PAIR.certificate_pem, PAIR.key_pem[:-40])) == (
        "The key is cut off or damaged: its PEM cannot be parsed; write or copy it again."
    )


@given(length=st.integers(0, len(CHAIN.certificate_pem.rstrip()) - 1))
def test_every_beginning_of_a_chain_is_refused_once_its_second_certificate_has_begun(length):
    written = CHAIN.certificate_pem[:length]
    assume(not (PAIR.certificate_pem.rstrip() in written and written.count(b"-----BEGIN CERTIFICATE-----") == 1))
    refusal(KeyPair(written, PAIR.key_pem))


@given(length=st.integers(0, len(PAIR.key_pem.rstrip()) - 1))
def test_every_beginning_of_a_key_is_refused(length):
    refusal(KeyPair(PAIR.certificate_pem, PAIR.key_pem[:length]))


@pytest.mark.filterwarnings("ignore::cryptography.utils.CryptographyDeprecationWarning")
@given(pem=st.binary(max_size=200), place=st.integers(0, len(PAIR.certificate_pem)))
def test_damage_of_a_certificate_is_refused_or_harmless_and_never_raises_anything_else(pem, place):
    damaged = KeyPair(PAIR.certificate_pem[:place] + pem + PAIR.certificate_pem[place + len(pem) :], PAIR.key_pem)
    try:
        damaged.check(NOW)
    except BadKeyPair as error:
        assert str(error).endswith(".")  # noqa: PT017 - both outcomes are right


@pytest.mark.filterwarnings("ignore::cryptography.utils.CryptographyDeprecationWarning")
@given(der=st.binary(max_size=8), place=st.integers(0, 700))
def test_damage_inside_a_certificate_never_raises_anything_else(der, place):
    content = bytearray(PAIR.chain[0].public_bytes(Encoding.DER))
    place %= len(content)
    content[place : place + len(der)] = der
    pair = KeyPair(armoured(bytes(content)), PAIR.key_pem)
    try:
        pair.check(NOW)
    except BadKeyPair as error:
        assert str(error).endswith(".")  # noqa: PT017 - both outcomes are right


def test_parse_certificates_gives_a_bundle_in_its_order():
    assert [each.subject.rfc4514_string() for each in parse_certificates(CHAIN.certificate_pem)] == [
        "CN=gpu-admission webhook",
        "CN=authority",
    ]
