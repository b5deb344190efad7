"""Quoted text as Go writes it."""

from __future__ import annotations

import pytest

from policies.cel.kinds import quoted_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", '""'),
        ("a b", '"a b"'),
        ('a"b\\', '"a\\"b\\\\"'),
        ("\a\b\f\n\r\t\v", '"\\a\\b\\f\\n\\r\\t\\v"'),
        ("\x00\x7f", '"\\x00\\x7f"'),
        ("é世😀", '"é世😀"'),
        ("\u00a0\u200b\u2028", '"\\u00a0\\u200b\\u2028"'),
        ("\U000e0001", '"\\U000e0001"'),
        (b"a\xc3".decode(errors="surrogateescape"), '"a\\xc3"'),
    ],
)
def test_text_is_quoted_as_go_quotes_it(text, expected):
    assert quoted_text(text) == expected
