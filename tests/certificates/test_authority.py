"""Certificates that our authority issues, and requests that it refuses."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from hypothesis import given
from hypothesis import strategies as st

from certs import BadKeyPair, KeyPair, issue_serving, make_authority
from testbed.client_certificates import issue_client

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)

labels = st.from_regex(r"[a-z]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
dns_names = st.lists(labels, min_size=1, max_size=4).map(".".join)


def extension(pair, kind):
    return pair.chain[0].extensions.get_extension_for_class(kind)


@pytest.fixture(scope="module")
def ca():
    return make_authority("gpu-admission CA", now=NOW)


def test_authority_is_a_ca_that_makes_no_further_cas(ca):
    constraints = extension(ca, x509.BasicConstraints)
    assert constraints.critical
    assert constraints.value == x509.BasicConstraints(ca=True, path_length=0)


def test_authority_may_sign_certificates_and_nothing_else(ca):
    usage = extension(ca, x509.KeyUsage)
    assert usage.critical
    assert (usage.value.key_cert_sign, usage.value.crl_sign, usage.value.digital_signature) == (True, True, False)


def test_authority_signs_itself(ca):
    certificate = ca.chain[0]
    certificate.verify_directly_issued_by(certificate)
    assert certificate.subject.rfc4514_string() == "CN=gpu-admission CA"
    own = extension(ca, x509.SubjectKeyIdentifier).value.digest
    assert extension(ca, x509.AuthorityKeyIdentifier).value.key_identifier == own


def test_authority_begins_an_hour_ago_and_lasts_ten_years(ca):
    assert ca.chain[0].not_valid_before_utc == NOW - HOUR
    assert ca.not_after == NOW + timedelta(days=3650)


def test_authorities_of_one_name_differ_in_key_and_serial(ca):
    other = make_authority("gpu-admission CA", now=NOW)
    assert other.chain[0].serial_number != ca.chain[0].serial_number
    assert extension(other, x509.SubjectKeyIdentifier) != extension(ca, x509.SubjectKeyIdentifier)


@pytest.mark.parametrize("make", [lambda ca: ca, lambda ca: issue_serving(ca, ["a.svc"], now=NOW)])
def test_keys_are_on_the_curve_p256(ca, make):
    key = make(ca).private_key
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert isinstance(key.curve, ec.SECP256R1)


def test_serving_certificate_names_hosts_and_addresses(ca):
    pair = issue_serving(ca, ["gpu-admission.gpu-admission.svc", "127.0.0.1", "::1"], now=NOW)
    assert extension(pair, x509.SubjectAlternativeName).value == x509.SubjectAlternativeName(
        [
            x509.DNSName("gpu-admission.gpu-admission.svc"),
            x509.IPAddress(ip_address("127.0.0.1")),
            x509.IPAddress(ip_address("::1")),
        ]
    )


def test_serving_certificate_takes_service_names_longer_than_a_common_name(ca):
    name = f"{'s' * 63}.{'n' * 63}.svc"
    assert issue_serving(ca, [name], now=NOW).names == (name,)


def test_serving_certificate_is_for_servers_only(ca):
    pair = issue_serving(ca, ["a.svc"], now=NOW)
    assert extension(pair, x509.ExtendedKeyUsage).value == x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])


def test_client_certificate_is_for_clients_only(ca):
    pair = issue_client(ca, "kube-apiserver", now=NOW)
    assert extension(pair, x509.ExtendedKeyUsage).value == x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])


def test_client_certificate_carries_the_common_name(ca):
    subject = issue_client(ca, "kube-apiserver", now=NOW).chain[0].subject
    assert subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == "kube-apiserver"


def test_client_certificate_has_no_names_of_hosts(ca):
    assert issue_client(ca, "kube-apiserver", now=NOW).names == ()


def test_issued_certificate_is_no_authority_and_only_signs_handshakes(ca):
    pair = issue_serving(ca, ["a.svc"], now=NOW)
    assert extension(pair, x509.BasicConstraints).value == x509.BasicConstraints(ca=False, path_length=None)
    usage = extension(pair, x509.KeyUsage)
    assert usage.critical
    assert (usage.value.digital_signature, usage.value.key_cert_sign) == (True, False)


def test_issued_certificate_points_to_the_key_of_its_authority(ca):
    issued = extension(issue_serving(ca, ["a.svc"], now=NOW), x509.AuthorityKeyIdentifier).value
    assert issued.key_identifier == extension(ca, x509.SubjectKeyIdentifier).value.digest


def test_issued_certificate_begins_an_hour_ago_and_lasts_a_year(ca):
    pair = issue_serving(ca, ["a.svc"], now=NOW)
    assert pair.chain[0].not_valid_before_utc == NOW - HOUR
    assert pair.not_after == NOW + timedelta(days=365)


def test_issued_certificate_does_not_outlive_its_authority():
    short = make_authority("short", now=NOW, lifetime=HOUR)
    assert issue_serving(short, ["a.svc"], now=NOW).not_after == short.not_after


@given(names=st.lists(st.one_of(dns_names, st.ip_addresses().map(str)), min_size=1, max_size=5), seconds=st.integers(0))
def test_issued_pair_passes_its_check_for_all_its_life(ca, names, seconds):
    pair = issue_serving(ca, names, now=NOW)
    chain = pair.chain[0]
    life = int((chain.not_valid_after_utc - chain.not_valid_before_utc).total_seconds())
    pair.check(chain.not_valid_before_utc + timedelta(seconds=seconds % (life + 1)))
    chain.verify_directly_issued_by(ca.chain[0])
    assert sorted(pair.names) == sorted(names)


def test_serving_certificate_without_names_is_refused(ca):
    with pytest.raises(ValueError, match="at least one") as raised:
        issue_serving(ca, [], now=NOW)
    assert str(raised.value) == (
        "A serving certificate needs at least one DNS name or IP address: clients check nothing else."
    )


def test_serving_certificate_for_a_name_that_is_not_ascii_is_refused(ca):
    with pytest.raises(ValueError, match="A-label"):
        issue_serving(ca, ["bücher.example"], now=NOW)


@pytest.mark.parametrize("name", ["", "n" * 65])
def test_common_name_of_another_length_than_1_to_64_is_refused(ca, name):
    with pytest.raises(ValueError, match="length must be >= 1 and <= 64"):
        issue_client(ca, name, now=NOW)


def test_expired_authority_issues_nothing(ca):
    with pytest.raises(BadKeyPair) as raised:
        issue_serving(ca, ["a.svc"], now=ca.not_after + HOUR)
    assert str(raised.value) == "The certificate expired at 2036-02-27T12:00:00Z; issue a new one."


def test_issued_certificate_issues_nothing(ca):
    issued = issue_serving(ca, ["a.svc"], now=NOW)
    with pytest.raises(BadKeyPair) as raised:
        issue_client(issued, "mallory", now=NOW)
    assert str(raised.value) == (
        "The issuer is not an authority (basicConstraints CA:FALSE); issue with the CA's key pair."
    )


def self_signed(key):
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "other")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW)
        .not_valid_after(NOW + HOUR)
        .sign(key, SHA256())
    )
    key_pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return KeyPair(certificate.public_bytes(Encoding.PEM), key_pem)


def test_authority_without_extensions_issues_nothing():
    with pytest.raises(BadKeyPair) as raised:
        issue_client(self_signed(ec.generate_private_key(ec.SECP256R1())), "alice", now=NOW)
    assert str(raised.value) == ("The issuer has no basicConstraints or key identifier; make it with make_authority.")


def test_authority_with_another_kind_of_key_issues_nothing():
    with pytest.raises(BadKeyPair) as raised:
        issue_client(self_signed(rsa.generate_private_key(65537, 2048)), "alice", now=NOW)
    assert str(raised.value) == "The authority's key is not ECDSA; make the authority with this program."
