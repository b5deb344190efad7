"""Cached errors of selectors keep no reference to the review that sent them."""

from __future__ import annotations

import gc
import weakref
from contextlib import suppress

import pytest

from policies.cel import CelCompileError, compile_selector
from policies.devices.effort import Effort

WRONG = [
    "device.nothing",
    "device.driver ==",
    "1",
    "'a' + 1 == 2",
    "(" * 300 + "true" + ")" * 300,
    "x" * 20_000,
    '"' + "a" * 5_000,
]


class Cluster:
    """Anything that a review has at hand."""


@pytest.mark.parametrize("compiled", [compile_selector, Effort().compile], ids=["for a caller", "for a claim"])
@pytest.mark.parametrize("text", WRONG, ids=range(len(WRONG)))
def test_cached_compile_error_keeps_nothing_alive(compiled, text):
    def review(cluster):
        known = weakref.ref(cluster)
        with suppress(CelCompileError):
            assert isinstance(compiled(text), CelCompileError)
        return known

    kept = [review(Cluster()) for _ in range(2)]
    gc.collect()
    assert [each() for each in kept] == [None, None]


def test_compile_error_is_raised_with_the_same_words_each_time():
    words = []
    for _ in range(2):
        with pytest.raises(CelCompileError) as failed:
            compile_selector("device.nothing == 1")
        words.append((str(failed.value), failed.value.issues, failed.value.line, failed.value.column))
    assert words[0] == words[1]
