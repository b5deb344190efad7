"""The name of the other end of a connection."""

import asyncio
import contextlib

import pytest

from certs import issue_serving
from testbed.client_certificates import issue_client
from webhook.server.tls import peer_name, server_context


class SeenPeer(asyncio.Transport):
    """A transport after its handshake, with what `ssl` says of the other end."""

    def __init__(self, certificate):
        super().__init__(extra={"peercert": certificate})


async def test_common_name_of_the_verified_client_is_its_name(authority, client_authority, now, client, serve):
    pair = issue_serving(authority, ["localhost"], now=now)
    server = await serve(server_context(pair, client_authority.certificate_pem))
    async with server.connect(client(issue_client(client_authority, "kube-apiserver", now=now))) as connection:
        assert await connection.ask() == "kube-apiserver"


async def test_every_connection_has_its_own_name(authority, client_authority, now, client, serve):
    pair = issue_serving(authority, ["localhost"], now=now)
    server = await serve(server_context(pair, client_authority.certificate_pem))
    async with server.connect(client(issue_client(client_authority, "alice", now=now))) as alice:
        assert await alice.ask() == "alice"
        async with server.connect(client()) as nobody:
            assert await nobody.ask() == "None"
        async with server.connect(client(issue_client(client_authority, "bob", now=now))) as bob:
            assert await bob.ask() == "bob"
        assert await alice.ask() == "alice"


async def test_plain_http_has_no_name(serve):
    server = await serve(None)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    with contextlib.closing(writer):
        writer.write(b"GET / HTTP/1.0\r\n\r\n")
        assert (await reader.read()).endswith(b"\r\n\r\nNone")
    await writer.wait_closed()


def test_connection_that_is_gone_has_no_name():
    assert peer_name(None) is None


@pytest.mark.parametrize(
    "certificate",
    [
        None,
        {},
        {"subject": ()},
        {"subject": ((("organizationName", "system:masters"),),)},
        {"subject": ((("commonName", "alice"),), (("commonName", "bob"),))},
        {"subject": ((("commonName", "alice"), ("commonName", "bob")),)},
    ],
)
def test_certificate_without_exactly_one_common_name_has_no_name(certificate):
    assert peer_name(SeenPeer(certificate)) is None


def test_common_name_beside_other_attributes_is_found():
    subject = ((("organizationName", "system:masters"),), (("commonName", "alice"),))
    assert peer_name(SeenPeer({"subject": subject})) == "alice"
