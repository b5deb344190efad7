"""Key pairs that are replaced while clients are connected."""

import asyncio
import ssl
from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from certs import BadKeyPair, KeyPair, issue_serving
from testbed.client_certificates import issue_client
from webhook.server.tls import BadClientCA, ReloadingContext, server_context

VERSIONS = pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
HOSTS = pytest.mark.parametrize("host", ["localhost", "127.0.0.1"], ids=["SNI", "no SNI"])


@pytest.fixture
def bad(authority, first, now):
    """Pairs that must never serve, by what is wrong with them."""
    other = issue_serving(authority, ["localhost"], now=now)
    lived = issue_serving(authority, ["localhost"], now=now, lifetime=-timedelta(minutes=1))
    return {
        "mismatched": KeyPair(first.certificate_pem, other.key_pem),
        "half-written": KeyPair(other.certificate_pem, other.key_pem[:100]),
        "expired": lived,
        "of tomorrow": issue_serving(authority, ["localhost"], now=now + timedelta(hours=2)),
        "empty": KeyPair(b"", b""),
    }


REASONS = {
    "mismatched": "The key does not belong to the certificate; use the key that the certificate was issued for.",
    "half-written": "The key is cut off or damaged: its PEM cannot be parsed; write or copy it again.",
    "expired": "The certificate expired at {end}; issue a new one.",
    "of tomorrow": "The certificate is not valid before {begin}; wait, or correct the clock.",
    "empty": "There is no PEM certificate: no BEGIN CERTIFICATE line; give the certificate, not its key.",
}


def fingerprint(ssl_object):
    return x509.load_der_x509_certificate(ssl_object.getpeercert(binary_form=True)).fingerprint(SHA256()).hex()


@HOSTS
@VERSIONS
async def test_new_connections_see_the_new_certificate(first, second, client, serve, host, version):
    reloading = ReloadingContext(first)
    server = await serve(reloading.context)
    async with server.connect(client(version=version), host) as before:
        assert fingerprint(before.ssl_object) == first.fingerprint
    reloading.replace(second)
    async with server.connect(client(version=version), host) as after:
        assert fingerprint(after.ssl_object) == second.fingerprint


async def test_open_connection_survives_the_replacement(first, second, client, serve):
    reloading = ReloadingContext(first)
    server = await serve(reloading.context)
    async with server.connect(client()) as connection:
        await connection.ask()
        reloading.replace(second)
        assert await connection.ask() == "None"


async def test_request_in_flight_survives_the_replacement(first, second, client, serve):
    reloading = ReloadingContext(first)
    server = await serve(reloading.context)
    async with server.connect(client()) as connection:
        answer = asyncio.create_task(connection.ask("/slow"))
        await server.entered.wait()
        reloading.replace(second)
        server.release.set()
        assert await answer == "done"


async def test_handshakes_never_fail_while_pairs_are_replaced(first, second, client, serve):
    reloading = ReloadingContext(first)
    server = await serve(reloading.context)
    trusting = client()

    async def call():
        async with server.connect(trusting) as connection:
            await connection.ask()
            return fingerprint(connection.ssl_object)

    async def replace():
        for _ in range(20):
            for pair in (second, first):
                await asyncio.to_thread(reloading.replace, pair)

    seen, _ = await asyncio.gather(asyncio.gather(*(call() for _ in range(50))), replace())
    assert set(seen) <= {first.fingerprint, second.fingerprint}


@pytest.mark.parametrize("what", REASONS)
async def test_bad_pair_is_refused_and_the_old_one_keeps_serving(first, bad, client, serve, what):
    reloading = ReloadingContext(first)
    server = await serve(reloading.context)
    with pytest.raises(BadKeyPair) as raised:
        reloading.replace(bad[what])
    dates = bad[what].chain[0] if what in {"expired", "of tomorrow"} else first.chain[0]
    assert str(raised.value) == REASONS[what].format(
        begin=f"{dates.not_valid_before_utc:%Y-%m-%dT%H:%M:%SZ}", end=f"{dates.not_valid_after_utc:%Y-%m-%dT%H:%M:%SZ}"
    )
    async with server.connect(client()) as connection:
        assert fingerprint(connection.ssl_object) == first.fingerprint
    assert reloading.pair == first


@given(attempts=st.lists(st.sampled_from(["first", "second", *REASONS])))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_last_good_pair_serves_after_any_replacements(first, second, bad, client, handshake, attempts):
    pairs = {"first": first, "second": second, **bad}
    reloading = ReloadingContext(first)
    good = first
    for what in attempts:
        if what in bad:
            with pytest.raises(BadKeyPair):
                reloading.replace(pairs[what])
        else:
            good = pairs[what]
            reloading.replace(good)
        _, end = handshake(reloading.context, client())
        assert fingerprint(end) == good.fingerprint
        assert reloading.pair == good


def test_bad_first_pair_is_refused(bad):
    with pytest.raises(BadKeyPair, match="does not belong"):
        ReloadingContext(bad["mismatched"])


def test_bad_client_authorities_are_refused_at_the_beginning(first):
    with pytest.raises(BadClientCA, match="cannot be used"):
        ReloadingContext(first, first.key_pem)


def test_expiry_is_judged_by_the_given_clock(first, second):
    moments = iter([first.not_after, second.not_after + timedelta(seconds=1)])
    reloading = ReloadingContext(first, clock=lambda: next(moments))
    with pytest.raises(BadKeyPair, match="expired"):
        reloading.replace(second)


@HOSTS
@VERSIONS
async def test_client_is_known_by_name_after_the_replacement(
    first, second, client_authority, now, client, serve, host, version
):
    reloading = ReloadingContext(first, client_authority.certificate_pem)
    server = await serve(reloading.context)
    reloading.replace(second)
    async with server.connect(client(issue_client(client_authority, "alice", now=now), version), host) as connection:
        assert await connection.ask() == "alice"


@HOSTS
@VERSIONS
async def test_client_without_a_certificate_has_no_name_after_the_replacement(
    first, second, client_authority, client, serve, host, version
):
    reloading = ReloadingContext(first, client_authority.certificate_pem)
    server = await serve(reloading.context)
    reloading.replace(second)
    async with server.connect(client(version=version), host) as connection:
        assert await connection.ask() == "None"


@HOSTS
@VERSIONS
@pytest.mark.parametrize("replaced", [False, True])
async def test_client_of_another_authority_gets_no_answer(
    first, second, impostor, client_authority, now, client, serve, host, version, replaced
):
    reloading = ReloadingContext(first, client_authority.certificate_pem)
    server = await serve(reloading.context)
    if replaced:
        reloading.replace(second)
    stranger = client(issue_client(impostor, "mallory", now=now), version)
    # With TLS 1.2 connecting fails; with 1.3 the client learns of the refusal when it first reads.
    with pytest.raises((ConnectionError, ssl.SSLError, asyncio.IncompleteReadError)):
        async with server.connect(stranger, host) as connection:
            await connection.ask()


@VERSIONS
def test_refusal_of_a_client_after_the_replacement_is_for_its_authority(
    first, second, impostor, client_authority, now, client, handshake, version
):
    reloading = ReloadingContext(first, client_authority.certificate_pem)
    reloading.replace(second)
    with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer certificate"):
        handshake(reloading.context, client(issue_client(impostor, "mallory", now=now), version))


def test_verification_is_requested_by_the_outer_context_alone(first, second, client_authority, now, client, handshake):
    """The fact about OpenSSL on which `ReloadingContext` rests: the mode does not follow a swapped context."""
    outer, inner = server_context(first), server_context(second, client_authority.certificate_pem)
    inner.verify_mode = ssl.CERT_REQUIRED
    outer.sni_callback = lambda connection, _name, _context: setattr(connection, "context", inner)
    server, _ = handshake(outer, client(issue_client(client_authority, "alice", now=now)))
    assert server.getpeercert(binary_form=True) is None


def test_tls_11_stays_refused_after_the_replacement(first, second, client, handshake):
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old = client(version=ssl.TLSVersion.TLSv1_1)
    old.set_ciphers("DEFAULT:@SECLEVEL=0")
    reloading = ReloadingContext(first)
    reloading.replace(second)
    with pytest.raises(ssl.SSLError, match="UNSUPPORTED_PROTOCOL"):
        handshake(reloading.context, old)


def test_http_11_is_agreed_on_after_the_replacement(first, second, client, handshake):
    reloading = ReloadingContext(first)
    reloading.replace(second)
    offering = client()
    offering.set_alpn_protocols(["http/1.1"])
    server, _ = handshake(reloading.context, offering)
    assert server.selected_alpn_protocol() == "http/1.1"
