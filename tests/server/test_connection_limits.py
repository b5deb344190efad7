"""Connections that are closed when there are too many."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.server.config import ConnectionLimits
from webhook.server.guarded_connection import OpenConnections, counted_address


class Connection:
    def __init__(self, connections, address="10.0.0.1"):
        self.address = address
        self.reason = None
        self._connections = connections

    def abort(self, reason):
        self.reason = reason
        self._connections.remove(self)


def opened(connections, number, address="10.0.0.1"):
    made = [Connection(connections, address) for _ in range(number)]
    for each in made:
        connections.add(each)
    return made


@pytest.fixture
def connections():
    return OpenConnections(ConnectionLimits(total=24, per_address=8), lambda _: None)


def test_oldest_new_connection_is_closed_first(connections):
    made = opened(connections, 10)
    assert [each.reason for each in made] == ["address_limit"] * 2 + [None] * 8


def test_connection_that_sent_a_request_is_the_youngest(connections):
    first, second, *_ = opened(connections, 8)
    connections.refresh(first)
    opened(connections, 1)
    assert (first.reason, second.reason) == (None, "address_limit")


def test_kept_connections_leave_an_eighth_to_new_ones(connections):
    made = opened(connections, 8)
    assert [connections.keep(each) for each in made] == [True] * 7 + [False]
    more = opened(connections, 2)
    assert [each.reason for each in (*made[:7], *more)] == [None] * 7 + ["address_limit", None]


def test_kept_connections_of_all_addresses_leave_an_eighth(connections):
    kept = []
    for number in range(24):
        (made,) = opened(connections, 1, address=f"10.0.0.{number // 6}")
        kept.append(connections.keep(made))
    assert kept == [True] * 21 + [False] * 3


def test_kept_connection_is_kept_again(connections):
    (made,) = opened(connections, 1)
    assert connections.keep(made)
    assert connections.keep(made)


def test_exempt_connection_does_not_count(connections):
    for each in opened(connections, 8):
        connections.exempt(each)
        assert connections.keep(each)
    made = opened(connections, 8)
    assert [each.reason for each in made] == [None] * 8
    assert len(connections) == 16


def test_closed_connections_are_logged_at_most_every_ten_seconds(caplog):
    now = [100.0]
    connections = OpenConnections(ConnectionLimits(8, 8), lambda _: None, clock=lambda: now[0])
    (made,) = opened(connections, 1)
    for seconds in (0, 3, 4, 5, 1):
        now[0] += seconds
        connections.record_closed(made, "head_timeout")
    assert [record.fields["connections"] for record in caplog.records] == [1, 3]


@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "keep", "refresh", "exempt", "remove"]), st.integers(0, 40)), max_size=200
    )
)
def test_limits_hold_and_nothing_is_left_behind(steps):
    connections = OpenConnections(ConnectionLimits(total=16, per_address=8), lambda _: None)
    alive, exempt = [], set()
    for step, number in steps:
        alive = [each for each in alive if each.reason is None]
        if step == "add":
            alive += opened(connections, 1, address=f"10.0.0.{number % 4}")
        elif alive:
            chosen = alive[number % len(alive)]
            getattr(connections, step)(chosen)
            if step == "exempt":
                exempt.add(chosen)
            if step == "remove":
                alive.remove(chosen)
        counted = [each for each in alive if each.reason is None and each not in exempt]
        assert len(counted) <= 16
        assert all(sum(each.address == address for each in counted) <= 8 for address in ("10.0.0.0", "10.0.0.1"))
    connections.abort_all()
    assert len(connections) == 0
    assert connections._addresses == {}


@pytest.mark.parametrize(
    ("peer", "counted"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_ipv6_addresses_count_by_their_64(peer, counted):
    assert counted_address(peer) == counted
