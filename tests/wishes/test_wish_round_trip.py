"""Wishes are the same after writing and reading, for any text."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.nvidia.wish_words import FAMILIES
from policies.nvidia.wishes import WORDS, Wish, WishError

names = st.from_regex(r"!? *(NVIDIA[- ])?[A-Za-z0-9*?._ -]{1,12}", fullmatch=True)
quantities = st.from_regex(r"[1-9][0-9]{0,3}(\.[0-9]{1,2})?(G|Gi|M|Mi|e9)", fullmatch=True)
pairs = st.from_regex(r"[12]?[0-9](\.[0-9]{1,2})?", fullmatch=True)
TEXTS = {
    "product": st.lists(names, min_size=1, max_size=20).map(",".join),
    "min-memory": quantities,
    "max-memory": quantities,
    "min-compute-capability": pairs,
    "family": st.lists(st.sampled_from([*FAMILIES, "Ada Lovelace", "HOPPER"]), min_size=1, max_size=4).map(", ".join),
    "min-driver": st.from_regex(r"[3-9][0-9]{2}(\.[0-9]{1,3}){0,2}", fullmatch=True),
    "min-cuda": pairs,
    "sharing": st.sampled_from(["exclusive", "shared", "any"]),
    "nic": st.sampled_from(["aligned", "Aligned"]),
}
NEARLY = {
    "product": st.text("AH10!*,?| -", max_size=12),
    "min-memory": st.from_regex(r"[0-9]{1,6}([.,][0-9])? ?[kKmMgGtTpPeE]?[iI]?[bB]?", fullmatch=True),
    "min-compute-capability": st.from_regex(r"(sm_|>=|v)?[0-9]{1,3}([.,][0-9]{1,2}){0,2}[a+]?", fullmatch=True),
    "family": st.from_regex(r"(ada|hoper|Ampere|TURING|blackwel)[a-z ,]{0,3}", fullmatch=True),
    "min-driver": st.from_regex(r"[rRv>]?[0-9]{1,4}(\.[0-9]{1,3}){0,3}[a-z-]?", fullmatch=True),
    "min-cuda": st.from_regex(r"(cu|v|CUDA )?[0-9]{1,3}(\.[0-9]{1,2}){0,2}", fullmatch=True),
    "sharing": st.sampled_from(["exclusive", "exclusiv", "none", "mps", "shard", "an", "yes"]),
    "nic": st.sampled_from(["aligned", "align", "near", "yes"]),
}


def readable(texts):
    """The wish of texts that may be unreadable; None where they are."""
    try:
        return Wish.of(texts)
    except WishError:
        return None


@given(st.fixed_dictionaries({}, optional=TEXTS).map(readable).filter(lambda wish: wish is not None))
def test_wish_written_down_is_the_same_wish(wish):
    assert Wish.of(wish.words()) == wish
    assert Wish.of(wish.words()).words() == wish.words()


def refusal(word, text):
    """What is said of a text; None where it can be read."""
    try:
        Wish.check(word, text)
    except WishError as error:
        return str(error), error.remedy
    return None


@given(st.sampled_from(WORDS), st.text(max_size=40))
def test_any_text_is_read_or_refused_with_a_remedy(word, text):
    said = refusal(word, text)
    if said is not None:
        assert all(part and part.isprintable() and not part.endswith(".") for part in said)


@pytest.mark.parametrize("word", NEARLY)
@given(st.data())
def test_text_that_a_remedy_tells_to_write_can_be_read(word, data):
    said = refusal(word, data.draw(NEARLY[word]))
    reported = re.fullmatch(r'write "([^"]+)"', said[1]) if said else None
    if reported is not None:
        assert refusal(word, reported[1]) is None


@pytest.mark.parametrize("word", WORDS)
def test_text_of_any_length_is_answered(word):
    for text in ("1" * 100_000, "a" * 100_000, "*" * 100_000, "a," * 100_000, "1." * 100_000, " " * 100_000 + "?"):
        assert readable({word: text}) in (None, Wish.of({"product": "*"}), Wish.of({"product": "?"}))
