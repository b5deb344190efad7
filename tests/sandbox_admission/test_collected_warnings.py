"""Warnings as the API server collects them."""

import pytest

from webhook.sandbox.admission.reviewer import Warnings


@pytest.fixture
def shown():
    def collect(*texts):
        warnings = Warnings()
        for text in texts:
            warnings.add(text)
        return warnings.texts

    return collect


def test_each_text_is_shown_once_and_in_order(shown):
    assert shown("b", "a", "b") == ["b", "a"]


@pytest.mark.parametrize("text", ["", "two\nlines", "a\ttab", "\x7f", "\ud800"])
def test_what_fits_no_header_is_dropped(shown, text):
    assert shown(text, "a") == ["a"]


def test_a_long_warning_is_kept_while_all_fit(shown):
    assert shown("x" * 4096) == ["x" * 4096]


def test_all_are_cut_when_they_are_too_long_together(shown):
    assert shown("x" * 3000, "y" * 2000, "z" * 300) == ["x" * 256, "y" * 256, "z" * 256]


def test_no_more_are_taken_in_when_those_that_are_cut_fill_the_limit(shown):
    texts = [f"{number:04}" + "x" * 300 for number in range(30)]
    assert len(shown(*texts)) == 16


def test_headers_are_quoted():
    warnings = Warnings()
    warnings.add('say "a\\b"')
    assert warnings.headers() == ['299 - "say \\"a\\\\b\\""']
