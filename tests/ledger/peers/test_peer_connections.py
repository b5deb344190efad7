"""Replicas trust exactly the certificates in the Leases of replicas."""

import asyncio
import ssl
from datetime import UTC, datetime, timedelta

import aiohttp
import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from certs import KeyPair, issue_serving, make_authority, make_self_signed
from tests.ledger.conftest import TEAM_A
from webhook.cluster.client import MERGE_PATCH
from webhook.cluster.leases import LEASE, holder_of
from webhook.controllers.replica import Peers
from webhook.controllers.replica_config import ReplicaConfig
from webhook.ledger.directory import peer_annotations, peer_client_context, peer_server_context
from webhook.ledger.peer_answers import MOST_MESSAGE_BYTES, PATH, Cancellation, write_cancellation
from webhook.server.listeners import Listeners
from webhook.server.metrics import Metrics
from webhook.server.probes import Readiness

NOW = datetime.now(UTC)


def leases(sandbox):
    return {holder_of(each): each for each in sandbox.objects("Lease", "gpu-admission")}


def address(replica):
    return replica.peers.annotations["gpu-admission.io/peer-address"]


def context(replica, pair):
    """That of a client who knows the certificate of a replica."""
    certificate = replica.peers.annotations["gpu-admission.io/peer-certificate"]
    return peer_client_context(pair, ssl.PEM_cert_to_DER_cert(certificate))


def issued_by(pair):
    """A certificate that is signed with the key of another one."""
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "child")]))
        .issuer_name(pair.chain[0].subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - timedelta(hours=1))
        .not_valid_after(NOW + timedelta(hours=1))
        .sign(pair.private_key, SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return KeyPair(certificate.public_bytes(Encoding.PEM), private)


async def connect(replica, tls, path=PATH):
    async with aiohttp.ClientSession() as session:
        url = f"https://{address(replica)}{path}"
        async with session.ws_connect(url, ssl=tls) as socket:
            await socket.send_bytes(b"{}")
            return await socket.receive()


def test_sessions_with_peers_are_not_resumed():
    """A resumed one would show a certificate that is no longer trusted."""
    assert peer_server_context(make_self_signed("replica", now=NOW)).num_tickets == 0


async def test_address_of_ipv6_is_in_brackets(replicas):
    owner, _ = await replicas()
    config = ReplicaConfig(host="127.0.0.1", peer_host="fd00::7", peer_port=0)
    peers, listeners = Peers(owner.client, config, "other", NOW), Listeners(config, Readiness([]), Metrics())
    await peers.listen(listeners, owner.writer)
    await listeners.close()
    assert peers.annotations["gpu-admission.io/peer-address"].startswith("[fd00::7]:")


async def test_stranger_is_refused(replicas):
    owner, _ = await replicas()
    with pytest.raises(aiohttp.ClientError):
        await connect(owner, context(owner, make_self_signed("stranger", now=NOW)))


async def test_client_without_a_certificate_is_refused(replicas):
    owner, _ = await replicas()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    with pytest.raises(aiohttp.ClientError):
        await connect(owner, tls)


async def test_certificate_of_our_own_authority_is_refused(replicas):
    owner, _ = await replicas()
    authority = make_authority("gpu-admission", now=NOW)
    with pytest.raises(aiohttp.ClientError):
        await connect(owner, context(owner, issue_serving(authority, ["localhost"], now=NOW)))


async def test_certificate_issued_with_the_key_of_a_replica_is_refused(replicas):
    """The certificate of a replica is no authority."""
    owner, other = await replicas()
    with pytest.raises(aiohttp.ClientError):
        await connect(owner, context(owner, issued_by(other.peers._pair)))


async def test_replica_whose_lease_was_released_is_refused(replicas, until):
    owner, other = await replicas()
    pair = other.peers._pair
    await other.presence.withdraw()
    await until(lambda: not owner.peers._directory.peers)
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await connect(owner, context(owner, pair))
    assert refused.value.status == 403


async def test_replica_that_shows_another_certificate_than_its_lease_is_not_trusted(replicas, until):
    owner, other = await replicas()
    (link,) = owner.peers.links
    path = LEASE.path("gpu-admission", other.presence._name)
    forged = peer_annotations(address(other), make_self_signed("forged", now=NOW))
    await owner.client.patch(path, {"metadata": {"annotations": dict(forged)}}, content_type=MERGE_PATCH)
    await until(lambda: link not in owner.peers.links)
    (link,) = owner.peers.links
    with pytest.raises(aiohttp.ClientConnectorCertificateError):
        await link._connect()


async def test_lease_without_a_certificate_is_no_peer(replicas, until):
    owner, other = await replicas()
    path = LEASE.path("gpu-admission", other.presence._name)
    broken = {"gpu-admission.io/peer-certificate": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"}
    await owner.client.patch(path, {"metadata": {"annotations": broken}}, content_type=MERGE_PATCH)
    await until(lambda: not list(owner.peers.links))


async def test_unknown_path_is_refused(replicas):
    owner, other = await replicas()
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await connect(owner, context(owner, other.peers._pair), "/v1/ledgers")
    assert refused.value.status == 404


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{}",
        b'{"cancelled": ["team-a", "a"]}',
        b'{"cancelled": ["team-a", "a", ""]}',
        b'{"cancelled": ["../team-a", "a", "call"]}',
        b'{"namespace": "team-a", "charges": [], "spec": ["u", 1]}',
        b'{"namespace": "team-a", "charges": [{}], "spec": ["u", 1]}',
        b'{"namespace": "team-a", "charges": [{"uid": "a", "kind": "Pod", "name": "a", "pieces": []}], "spec": [1, "u"]}',
        b"[" * 100_000,
    ],
)
async def test_replica_that_sends_something_else_is_cut_off(replicas, text, caplog):
    owner, other = await replicas()
    tls = context(owner, other.peers._pair)
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"https://{address(owner)}{PATH}", ssl=tls) as socket,
    ):
        await socket.send_bytes(text)
        assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
    assert "closed the connection of another replica: " in caplog.text


async def test_running_replica_that_cannot_be_reached_is_noted(replicas, until):
    owner, other = await replicas()
    await other.stop()
    await until(lambda: not owner.connected)
    (link,) = owner.peers.links
    link.last_connected -= 31
    assert owner.peers.notes() == [
        (
            f"replica {other.identity} cannot be reached at {address(other)}, so replicas compete for the ledgers of quotas; "
            "allow that port between the pods of gpu-admission"
        )
    ]


async def test_replica_that_has_ended_is_not_noted(replicas, until):
    owner, other = await replicas()
    await other.stop()
    await until(lambda: not owner.connected)
    (link,) = owner.peers.links
    link.last_connected -= 31
    owner.peers._directory._clock = lambda: 1e9  # its Lease was not renewed since
    assert owner.peers.notes() == []


async def test_connection_that_breaks_off_leaves_no_trace(replicas, caplog, monkeypatch):
    """aiohttp answers a ping by itself, when the other side may have gone."""

    async def pong(_socket, _message):
        raise aiohttp.ClientConnectionResetError("Cannot write to closing transport")

    owner, other = await replicas()
    monkeypatch.setattr(web.WebSocketResponse, "pong", pong)
    tls = context(owner, other.peers._pair)
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"https://{address(owner)}{PATH}", ssl=tls) as socket,
    ):
        await socket.ping()
        await socket.receive()
    assert [record for record in caplog.records if record.exc_info] == []


async def test_message_that_is_too_large_ends_the_connection(replicas, caplog):
    owner, other = await replicas()
    tls = context(owner, other.peers._pair)
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"https://{address(owner)}{PATH}", ssl=tls) as socket,
    ):
        await socket.send_bytes(b" " * (MOST_MESSAGE_BYTES + 1))
        assert (await socket.receive()).type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)
    assert caplog.text == ""


async def test_cancellation_of_a_guessed_call_does_nothing(replicas, namespace, pod):
    namespace.make()
    owner, other = await replicas()
    await other.charge(pod("a"))
    tls = context(owner, other.peers._pair)
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"https://{address(owner)}{PATH}", ssl=tls) as socket,
    ):
        await socket.send_bytes(write_cancellation(Cancellation(TEAM_A, "a", "guessed")))
        await socket.close()
    await owner.writer.close()
    assert namespace.uids == ["a"]


async def test_cancellations_of_charges_that_never_came_cost_no_request(replicas, namespace):
    namespace.make()
    owner, other = await replicas()
    before = len([*namespace.sandbox.requests])
    tls = context(owner, other.peers._pair)
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"https://{address(owner)}{PATH}", ssl=tls) as socket,
    ):
        for number in range(1000):
            await socket.send_bytes(write_cancellation(Cancellation(f"team-{number}", "a", f"call-{number}")))
        await socket.close()
    await owner.writer.close()
    assert len([*namespace.sandbox.requests]) == before


async def test_lease_with_an_empty_certificate_hides_no_other_replica(replicas, until):
    owner, other = await replicas()
    broken = {"gpu-admission.io/peer-certificate": "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"}
    path = LEASE.path("gpu-admission", other.presence._name)
    await owner.client.patch(path, {"metadata": {"annotations": broken}}, content_type=MERGE_PATCH)
    await until(lambda: not list(owner.peers.links))
    restored = dict(other.peers.annotations)
    await owner.client.patch(path, {"metadata": {"annotations": restored}}, content_type=MERGE_PATCH)
    await until(lambda: owner.connected == {other.identity})


@pytest.mark.parametrize("strange", ["ex..ample:443", ".....:80", f"{'x' * 70}:443", "[fe80::1%lo]:1", "a\x00b:1"])
async def test_strange_address_is_only_tried_again(replicas, until, strange, caplog):
    owner, other = await replicas()
    path = LEASE.path("gpu-admission", other.presence._name)
    annotations = {"gpu-admission.io/peer-address": strange}
    await owner.client.patch(path, {"metadata": {"annotations": annotations}}, content_type=MERGE_PATCH)
    await until(lambda: [link.peer.address for link in owner.peers.links] == [strange])
    (task,) = (task for _, task in owner.peers.links._links.values())
    done, _ = await asyncio.wait([task], timeout=0.5)
    assert (done, caplog.text) == (set(), "")


async def test_connection_of_a_replica_that_has_ended_is_closed(replicas, until):
    _owner, other = await replicas()
    await other.presence.withdraw()
    await until(lambda: not other.connected)


async def test_no_link_is_made_after_the_end(replicas):
    owner, _other = await replicas()
    peers = owner.peers._directory.peers
    await owner.peers.close()
    owner.peers._update_links(peers)
    assert list(owner.peers.links) == []
