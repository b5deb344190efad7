"""Deadlines, and durations as Go writes them."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.server.turns import BadDuration, Deadline, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5s", 5),
        ("10s", 10),
        ("1m0s", 60),
        ("500ms", 0.5),
        ("1h2m3.5s", 3723.5),
        (".5s", 0.5),
        ("2.s", 2),
        ("250us", 0.00025),
        ("250µs", 0.00025),
        ("1ns", 1e-9),
        ("0s", 0),
        ("0", 0),
    ],
)
def test_duration_is_read(text, seconds):
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5", "s", ".s", "-5s", "+5s", "5S", "5 s", "1d", "5s\n", "\u0665s", "1s" * 60])
def test_what_go_does_not_write_is_refused(text):
    with pytest.raises(
        BadDuration, match=r"^The timeout in the query is not a duration; write it as in \?timeout=10s\.$"
    ):
        parse_duration(text)


@given(st.text())
def test_any_text_is_a_duration_or_refused(text):
    with contextlib.suppress(BadDuration):
        assert parse_duration(text) >= 0


@pytest.mark.parametrize(
    ("timeout", "seconds"),
    [("10s", 9.5), ("5s", 4.5), ("1s", 0.9), ("100ms", 0.09), ("0s", 0), (None, 9.5), ("10h", 29.5)],
)
def test_deadline_comes_before_the_callers(timeout, seconds):
    assert Deadline.start(lambda: 0.0, timeout).seconds == pytest.approx(seconds)


def test_deadline_passes():
    moments = iter([100.0, 104.4, 104.6])
    deadline = Deadline.start(lambda: next(moments), "5s")
    assert not deadline.has_passed
    assert deadline.has_passed
