"""TLS versions and certificates that a server offers and accepts."""

import ssl
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from certs import BadKeyPair, KeyPair, issue_serving
from testbed.client_certificates import issue_client
from webhook.server.tls import BadClientCA, server_context


@pytest.fixture
def pair(authority, now):
    return issue_serving(authority, ["localhost", "127.0.0.1"], now=now)


def test_strict_client_accepts_the_chain(pair, client, handshake):
    trusting = client()
    assert trusting.verify_flags & ssl.VERIFY_X509_STRICT
    _, end = handshake(server_context(pair), trusting)
    assert end.getpeercert()["subjectAltName"] == (("DNS", "localhost"), ("IP Address", "127.0.0.1"))


def test_strict_client_accepts_the_chain_with_the_authority_in_it(pair, authority, client, handshake):
    whole = KeyPair(pair.certificate_pem + authority.certificate_pem, pair.key_pem)
    handshake(server_context(whole), client())


def test_client_accepts_an_address(pair, client, handshake):
    handshake(server_context(pair), client(), server_hostname="127.0.0.1")


def test_client_does_not_accept_another_name(pair, client, handshake):
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(server_context(pair), client(), server_hostname="elsewhere")


def test_client_does_not_accept_a_clients_certificate(authority, now, client, handshake):
    with pytest.raises(ssl.SSLCertVerificationError, match="unsuitable certificate purpose"):
        handshake(server_context(issue_client(authority, "localhost", now=now)), client(check_hostname=False))


def test_tls_13_is_preferred(pair, client, handshake):
    server, _ = handshake(server_context(pair), client())
    assert server.version() == "TLSv1.3"


def test_tls_12_is_served(pair, client, handshake):
    server, _ = handshake(server_context(pair), client(version=ssl.TLSVersion.TLSv1_2))
    assert server.version() == "TLSv1.2"


@pytest.fixture
def old_client(client):
    """A client that can do nothing newer than TLS 1.1, which Python warns of and OpenSSL offers at level 0 only."""
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context = client(version=ssl.TLSVersion.TLSv1_1)
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    return context


def test_tls_11_is_refused(pair, old_client, handshake):
    with pytest.raises(ssl.SSLError, match="UNSUPPORTED_PROTOCOL"):
        handshake(server_context(pair), old_client)


def test_tls_11_is_refused_for_its_version_and_nothing_else(pair, old_client, handshake):
    permissive = server_context(pair)
    permissive.set_ciphers("DEFAULT:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        permissive.minimum_version = ssl.TLSVersion.TLSv1_1
    server, _ = handshake(permissive, old_client)
    assert server.version() == "TLSv1.1"


def test_http_11_is_agreed_on(pair, client, handshake):
    offering = client()
    offering.set_alpn_protocols(["h2", "http/1.1"])
    server, _ = handshake(server_context(pair), offering)
    assert server.selected_alpn_protocol() == "http/1.1"


def test_tls_13_session_is_not_resumed(pair, client, handshake):
    context, caller = server_context(pair), client()
    _, first = handshake(context, caller)
    server, _ = handshake(context, caller, session=first.session)
    assert not server.session_reused


def test_tls_13_session_is_not_resumed_for_want_of_tickets_and_nothing_else(pair, client, handshake):
    context, caller = server_context(pair), client()
    context.num_tickets = 1
    _, first = handshake(context, caller)
    server, _ = handshake(context, caller, session=first.session)
    assert server.session_reused


def test_no_client_certificate_is_requested_without_client_authorities(pair, client_authority, now, client, handshake):
    server, _ = handshake(server_context(pair), client(issue_client(client_authority, "alice", now=now)))
    assert server.getpeercert(binary_form=True) is None


def test_client_certificate_of_the_authority_is_verified(pair, client_authority, now, client, handshake):
    context = server_context(pair, client_authority.certificate_pem)
    server, _ = handshake(context, client(issue_client(client_authority, "alice", now=now)))
    assert server.getpeercert()["subject"] == ((("commonName", "alice"),),)


def test_client_without_a_certificate_is_accepted(pair, client_authority, client, handshake):
    server, _ = handshake(server_context(pair, client_authority.certificate_pem), client())
    assert server.getpeercert() is None


def test_client_certificate_of_another_authority_is_refused(pair, impostor, client_authority, now, client, handshake):
    context = server_context(pair, client_authority.certificate_pem)
    with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer certificate"):
        handshake(context, client(issue_client(impostor, "mallory", now=now)))


def test_servers_certificate_is_refused_as_a_clients(pair, client_authority, now, client, handshake):
    context = server_context(pair, client_authority.certificate_pem)
    with pytest.raises(ssl.SSLCertVerificationError, match="unsuitable certificate purpose"):
        handshake(context, client(issue_serving(client_authority, ["alice"], now=now)))


def test_expired_client_certificate_is_refused(pair, client_authority, now, client, handshake):
    context = server_context(pair, client_authority.certificate_pem)
    expired = issue_client(client_authority, "alice", now=now, lifetime=-timedelta(minutes=1))
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate has expired"):
        handshake(context, client(expired))


def test_bundle_of_several_client_authorities_verifies_clients_of_each(
    pair, authority, client_authority, now, client, handshake
):
    context = server_context(pair, authority.certificate_pem + client_authority.certificate_pem)
    for issuer, name in ((authority, "alice"), (client_authority, "bob")):
        server, _ = handshake(context, client(issue_client(issuer, name, now=now)))
        assert server.getpeercert()["subject"] == ((("commonName", name),),)


def test_bundle_without_certificates_is_refused(pair):
    with pytest.raises(BadClientCA) as raised:
        server_context(pair, b"")
    assert str(raised.value) == (
        "The bundle of client CAs cannot be used: "
        "There is no PEM certificate: no BEGIN CERTIFICATE line; give the certificate, not its key."
    )


def misspelled(pem):
    """Break the UTF-8 of a certificate's common name, which OpenSSL reads at once and `cryptography` when asked."""
    certificate = x509.load_pem_x509_certificate(pem)
    name = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value.encode()
    der = certificate.public_bytes(Encoding.DER).replace(name, b"\xff" + name[1:])
    return x509.load_der_x509_certificate(der).public_bytes(Encoding.PEM)


def test_bundle_with_a_certificate_that_openssl_cannot_read_is_refused(pair, authority, client_authority):
    bundle = authority.certificate_pem + misspelled(client_authority.certificate_pem)
    with pytest.raises(BadClientCA) as raised:
        server_context(pair, bundle)
    assert str(raised.value) == (
        "The bundle of client CAs cannot be used: OpenSSL cannot read certificate 2 of 2; remove it or copy it again."
    )


def test_certificate_that_openssl_cannot_read_is_refused(pair):
    with pytest.raises(BadKeyPair) as raised:
        server_context(KeyPair(misspelled(pair.certificate_pem), pair.key_pem))
    assert str(raised.value) == ("OpenSSL does not take the key pair: unreadable encoding; issue one with ECDSA P-256.")


def test_mismatched_pair_is_refused(pair, authority, now):
    other = issue_serving(authority, ["localhost"], now=now)
    with pytest.raises(BadKeyPair) as raised:
        server_context(KeyPair(pair.certificate_pem, other.key_pem))
    assert str(raised.value) == ("OpenSSL does not take the key pair: key values mismatch; issue one with ECDSA P-256.")


def test_encrypted_key_is_refused_without_requesting_a_password(pair):
    encrypted = pair.private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    with pytest.raises(BadKeyPair, match="The key is encrypted"):
        server_context(KeyPair(pair.certificate_pem, encrypted))


def test_key_too_small_for_openssl_is_refused(now):
    key = rsa.generate_private_key(65537, 1024)
    name = x509.Name([])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
        .sign(key, SHA256())
    )
    key_pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with pytest.raises(BadKeyPair) as raised:
        server_context(KeyPair(certificate.public_bytes(Encoding.PEM), key_pem))
    assert str(raised.value) == ("OpenSSL does not take the key pair: ee key too small; issue one with ECDSA P-256.")


def test_key_is_gone_from_memory_files_after_loading(pair):
    server_context(pair)
    open_files = [each.readlink() for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    assert not [each for each in open_files if "key-pair" in str(each)]
