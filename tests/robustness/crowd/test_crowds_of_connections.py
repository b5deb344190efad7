"""Many connections, silent, slow and too many, while other callers are served."""

import gc
import ssl
from asyncio.sslproto import SSLProtocol
from datetime import UTC, datetime

import pytest

from certs import make_authority
from testbed.client_certificates import issue_client
from webhook.server import guarded_connection
from webhook.server.config import ClientCertificates, ConnectionLimits

WHOLE = b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
HALF = b"POST /convert-pods HTTP/1.1\r\nHost: local"


@pytest.fixture
def short_heads(monkeypatch):
    """A time limit for heads that is over soon."""
    monkeypatch.setattr(guarded_connection, "HEAD_SECONDS", 0.5)


@pytest.fixture
def short_handshakes(monkeypatch):
    """A time limit for handshakes that is over soon."""
    monkeypatch.setattr(guarded_connection, "HANDSHAKE_SECONDS", 0.1)


def tls_connections():
    """How many there are in this process, other tests' included."""
    gc.collect()
    return sum(isinstance(each, SSLProtocol) for each in gc.get_objects())


async def test_silent_connections_cost_nothing_but_their_sockets(serve, connect, until):
    before = tls_connections()
    served = await serve()
    for _ in range(400):
        await connect(served.port)
    await until(lambda: served.open_connections == 400)
    assert served.http_connections == 0
    assert tls_connections() <= before
    other = await connect(served.port, served.context)
    assert (await other.ask()).startswith("HTTP/1.1 404 ")


async def test_tls_connection_has_a_buffer_of_one_record(serve, connect, until):
    served = await serve()
    await connect(served.port, served.context)
    await until(lambda: served.http_connections == 1)
    # The other one is the test's own, at the other end.
    assert min(len(each._ssl_buffer) for each in gc.get_objects() if isinstance(each, SSLProtocol)) == 16 * 1024


async def test_silent_connection_is_closed(short_handshakes, serve, connect):
    served = await serve()
    assert await (await connect(served.port)).is_closed()
    assert await served.closed("handshake_timeout") == 1


async def test_half_a_handshake_is_closed(short_handshakes, serve, connect):
    served = await serve()
    silent = await connect(served.port)
    await silent.send(b"\x16\x03\x01")
    assert await silent.is_closed()
    assert await served.closed("handshake_timeout") == 1
    assert served.open_connections == 0


async def test_client_that_speaks_no_tls_is_closed_and_not_counted(serve, connect, until):
    served = await serve()
    plain = await connect(served.port)
    await plain.send(WHOLE)
    await plain.is_closed()
    await until(lambda: served.open_connections == 0)


async def test_client_that_refuses_the_certificate_is_not_counted(serve, connect, until):
    served = await serve()
    with pytest.raises(ssl.SSLCertVerificationError):
        await connect(served.port, ssl.create_default_context())
    await until(lambda: served.open_connections == 0)


async def test_handshake_without_a_request_is_closed(short_heads, serve, connect):
    served = await serve()
    silent = await connect(served.port, served.context)
    assert await silent.is_closed()
    assert await served.closed("head_timeout") == 1


async def test_half_a_head_is_closed(short_heads, serve, connect):
    served = await serve()
    slow = await connect(served.port, served.context)
    await slow.send(HALF)
    assert await slow.is_closed()
    assert await served.closed("head_timeout") == 1


async def test_half_a_head_at_the_probes_is_closed(short_heads, serve, connect):
    served = await serve()
    slow = await connect(served.probe_port)
    await slow.send(b"GET /livez HT")
    assert await slow.is_closed()
    assert await served.metric("connections_closed_total", port="probes", reason="head_timeout") == 1


async def test_half_a_head_after_an_answer_is_closed_while_an_idle_connection_stays(short_heads, serve, connect):
    served = await serve()
    idle, slow = await connect(served.port, served.context), await connect(served.port, served.context)
    await idle.ask()
    await slow.ask()
    await slow.send(HALF)
    assert await slow.is_closed()
    assert (await idle.ask()).startswith("HTTP/1.1 404 ")


@pytest.mark.parametrize("port", ["port", "explain_port", "probe_port"])
async def test_connection_with_an_unknown_expectation_is_closed(serve, connect, port):
    served = await serve()
    context = None if port == "probe_port" else served.context
    odd = await connect(getattr(served, port), context)
    await odd.send(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nExpect: 200-ok\r\n\r\n")
    assert (await odd.answer()).startswith("HTTP/1.1 417 ")
    assert await odd.is_closed()


async def test_byte_by_byte_a_head_gets_no_more_time(serve, connect, until):
    served = await serve()
    slow = await connect(served.port, served.context)
    await slow.ask()
    (connection,) = served.service._listeners._open["webhook"]._all
    timers = set()
    for sent, byte in enumerate(HALF, start=1):
        await slow.send(bytes([byte]))
        await until(lambda sent=sent: connection._head_bytes == sent)
        timers.add(connection._timer)
    assert len(timers) == 1


async def test_head_that_is_too_large_is_closed(serve, connect):
    served = await serve()
    greedy = await connect(served.port, served.context)
    await greedy.send(
        b"POST /convert-pods HTTP/1.1\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"x" * 15000) for n in range(6))
    )
    assert await greedy.is_closed()
    assert await served.closed("head_size") == 1


async def test_pipelined_requests_wait_at_the_client(serve, connect, until):
    served = await serve()
    greedy = await connect(served.port, served.context)
    greedy.writer.write(b"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n" * 5000)
    await until(lambda: served.http_connections == 1)
    (http,) = served.service._listeners._runners[0].server.connections
    most = 0
    for _ in range(100):
        await greedy.answer()
        most = max(most, len(http._messages))
    assert most <= 32  # what aiohttp parses ahead; the API server never sends a second request before an answer


async def test_beyond_the_limit_of_an_address_the_oldest_silent_connection_is_closed(serve, connect, until):
    served = await serve(connections=ConnectionLimits(total=64, per_address=8))
    silent = [await connect(served.port) for _ in range(8)]
    await until(lambda: served.open_connections == 8)
    other = await connect(served.port, served.context)
    assert await silent[0].is_closed()
    assert (await other.ask()).startswith("HTTP/1.1 404 ")
    assert served.open_connections == 8
    assert await served.closed("address_limit") == 1


async def test_limit_of_an_address_concerns_no_other_address(serve, connect, until):
    served = await serve(connections=ConnectionLimits(total=64, per_address=8))
    for _ in range(8):
        await connect(served.port)
    await until(lambda: served.open_connections == 8)
    other = await connect(served.port, served.context, source="127.0.0.2")
    await other.ask()
    assert served.open_connections == 9
    assert await served.closed("address_limit") == 0


async def test_beyond_the_total_the_oldest_silent_connection_is_closed(serve, connect, until):
    served = await serve(connections=ConnectionLimits(total=16, per_address=8))
    first = await connect(served.port)
    for number in range(15):
        await connect(served.port, source=f"127.0.0.{2 + number // 8}")
    await until(lambda: served.open_connections == 16)
    other = await connect(served.port, served.context, source="127.0.0.9")
    assert await first.is_closed()
    assert (await other.ask()).startswith("HTTP/1.1 404 ")
    assert await served.closed("total_limit") == 1


async def test_answered_connections_stay_and_further_ones_get_one_answer_each(serve, connect):
    served = await serve(connections=ConnectionLimits(total=64, per_address=8))
    kept = [await connect(served.port, served.context) for _ in range(7)]
    for each in kept:
        assert "Connection: close" not in await each.ask()
    for _ in range(20):
        once = await connect(served.port, served.context)
        assert "Connection: close" in await once.ask()
        assert await once.is_closed()
    for each in kept:
        assert "Connection: close" not in await each.ask()


async def test_silent_crowd_locks_no_answered_connection_out(serve, connect):
    served = await serve(connections=ConnectionLimits(total=64, per_address=8))
    kept = await connect(served.port, served.context)
    await kept.ask()
    for _ in range(50):
        await connect(served.port)
    assert (await kept.ask()).startswith("HTTP/1.1 404 ")


async def test_known_client_certificates_do_not_count(serve, connect, until, tmp_path):
    now = datetime.now(UTC)
    authority = make_authority("clients", now=now)
    (tmp_path / "ca.pem").write_bytes(authority.certificate_pem)
    pair = issue_client(authority, "kube-apiserver", now=now)
    (tmp_path / "client.pem").write_bytes(pair.key_pem + pair.certificate_pem)
    clients = ClientCertificates(tmp_path / "ca.pem", frozenset({"kube-apiserver"}))
    served = await serve(connections=ConnectionLimits(total=8, per_address=8), clients=clients)
    served.context.load_cert_chain(tmp_path / "client.pem")
    known = [await connect(served.port, served.context) for _ in range(30)]
    for each in known:
        assert "Connection: close" not in await each.ask()
    for _ in range(20):
        await connect(served.port)
    await until(lambda: served.open_connections == 38)
    for each in known:
        await each.ask()


async def test_open_connections_show_in_metrics(serve, connect, until):
    served = await serve()
    peer = await connect(served.port)
    await until(lambda: served.open_connections == 1)
    assert await served.metric("connections", port="webhook") == 1
    peer.writer.close()
    await until(lambda: served.open_connections == 0)
    assert await served.metric("connections", port="webhook") == 0
