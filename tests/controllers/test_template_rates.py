"""The rate of new templates in a namespace."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.server import caller_limits
from webhook.server.caller_limits import AT_ONCE, PER_MINUTE, TemplateRates


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def rates(clock):
    return TemplateRates(clock)


def taken(rates, tries, namespace="team-a"):
    return sum(rates.take(namespace) for _ in range(tries))


def test_several_hundred_new_templates_need_no_waiting(rates):
    assert taken(rates, 1000) == AT_ONCE == 600


def test_tokens_come_back_minute_by_minute(rates, clock):
    taken(rates, AT_ONCE)
    assert rates.seconds_until_next("team-a") == 1
    clock.now += 60
    assert taken(rates, 1000) == PER_MINUTE == 60


def test_bucket_holds_no_more_than_a_full_one(rates, clock):
    taken(rates, AT_ONCE)
    clock.now += 1e6
    assert taken(rates, 10_000) == AT_ONCE


def test_namespaces_have_buckets_of_their_own(rates):
    taken(rates, AT_ONCE)
    assert rates.take("team-b")


def test_token_that_was_not_needed_comes_back(rates):
    taken(rates, AT_ONCE)
    rates.give_back("team-a")
    assert taken(rates, 2) == 1


def test_full_buckets_are_forgotten(rates, clock):
    for number in range(100):
        rates.take(f"team-{number}")
    clock.now += 2
    rates.take("team-a")
    assert len(rates) == 1


def test_memory_is_bounded(rates, monkeypatch):
    monkeypatch.setattr(caller_limits, "_MOST_KEYS", 10)
    for number in range(100):
        rates.take(f"team-{number}")
    assert len(rates) == 10


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 30)), max_size=200))
def test_no_history_gets_more_than_the_bound(steps):
    clock = Clock()
    rates = TemplateRates(clock)
    began, got = clock.now, taken(rates, AT_ONCE)
    for gives_back, seconds in steps:
        clock.now += seconds
        if rates.take("team-a"):
            got += 1
            if gives_back:
                rates.give_back("team-a")
                got -= 1
    assert got <= AT_ONCE + (clock.now - began) * PER_MINUTE / 60 + 1e-6
