"""The table of start failures: real texts, their causes, and what is kept of them."""

import re
from string import Formatter

import pytest

from policies.nvidia.start_failures import KNOWN_FAILURES, known_failure, known_text
from tests.nvidia.start_failure_texts import TEXTS

FILLED = {
    "node": "node-1",
    "pod": "train",
    "namespace": "team-a",
    "claim": "train-gpu-x2k4m",
    "holder": "a claim",
    "reserved": "",
}


def cause(found):
    return found.row.cause.format_map({**FILLED, **dict.fromkeys(found.row.pattern.groupindex, ""), **found.groups})


@pytest.mark.parametrize(("message", "said"), TEXTS, ids=[said for _, said in TEXTS])
def test_real_text_has_its_cause(message, said):
    found = known_failure(message)
    assert said in f"{cause(found)} {found.row.source}"


def test_every_row_has_a_real_text():
    assert {known_failure(message).row.text for message, _ in TEXTS} == {row.text for row in KNOWN_FAILURES}


def test_every_row_says_what_to_do_and_where_the_text_is_from():
    assert all(row.remedy or row.administrator for row in KNOWN_FAILURES)
    assert all(re.match(r"[-a-z0-9]+ \S+\.(go|c)( \w+|;|$)", row.source) for row in KNOWN_FAILURES)


@pytest.mark.parametrize("row", KNOWN_FAILURES, ids=lambda row: row.text[:40])
def test_placeholders_are_known(row):
    names = {
        name for text in (row.cause, row.remedy, row.administrator) for _, name, _, _ in Formatter().parse(text) if name
    }
    assert names <= {*FILLED, *row.pattern.groupindex}


@pytest.mark.parametrize(("message", "said"), TEXTS, ids=[said for _, said in TEXTS])
def test_text_without_names_has_the_same_row(message, said):
    text = known_text(message, lambda name: name if name.isdigit() else "other", "redacted")
    assert known_failure(text).row is known_failure(message).row
    assert not re.search("train|team-a|7d1f|5f0c|GPU-1|gpu-3|10.0.0.1|/var/run", text)


def test_other_text_is_unknown():
    assert known_failure('secret "token" not found') is None
    assert known_text('exec: "/run --password=x": no such file or directory') == ""


def test_control_characters_are_not_printed():
    found = known_failure("DRA driver \x1b[31mred is not registered")
    assert "\x1b" not in found.text + found.groups["driver"]
