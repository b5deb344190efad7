"""Duplicate keys in documents that are read anyway."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.kubernetes.yaml import load_document, scan_documents


def read(text):
    (document,), errors = scan_documents(text, keeps_duplicates=True)
    assert errors == []
    return document


@pytest.mark.parametrize(
    ("text", "value", "duplicates"),
    [
        ("a: 1\nb: 2\na: 3\n", {"a": 3, "b": 2}, {("a",): [1, 3]}),
        ("a: 1\na: 2\na: 3\n", {"a": 3}, {("a",): [1, 2, 3]}),
        ("x:\n- b: 1\n- a: 1\n  a: 2\n", {"x": [{"b": 1}, {"a": 2}]}, {("x", 1, "a"): [3, 4]}),
        ('{"a": {"b": 1,\n"b": 2}}', {"a": {"b": 2}}, {("a", "b"): [1, 2]}),
        ("'1': a\n1: b\n", {"1": "b"}, {("1",): [1, 2]}),
        ("a: {b: 1}\n", {"a": {"b": 1}}, {}),
    ],
    ids=["two", "three", "list", "json", "spelling", "none"],
)
def test_last_value_counts_and_the_lines_are_recorded(text, value, duplicates):
    document = read(text)
    assert (document.value, document.duplicates) == (value, duplicates)


def test_lines_are_those_of_the_whole_text():
    documents, _ = scan_documents("x: 1\n---\na: 1\na: 2\n", keeps_duplicates=True)
    assert [document.duplicates for document in documents] == [{}, {("a",): [3, 4]}]


def test_key_position_is_that_of_the_last():
    document = read("a: 1\nb: 2\na: 3\n")
    assert document.key_position(["a"]).line == 3


def test_merged_key_is_no_duplicate():
    assert read("- &x {a: 1}\n- a: 2\n  <<: *x\n").duplicates == {}


def test_many_duplicate_keys_cannot_be_read():
    documents, (error,) = scan_documents("a: 1\n" * 60, keeps_duplicates=True)
    assert documents == []
    assert error.message == "more than 50 keys of this document are duplicate"


def test_error_has_the_text_of_its_document():
    _, (error,) = scan_documents("a: 1\n---\nb: [\n---\nc: 1\n")
    assert error.text == "---\nb: [\n"


INTEGERS = st.integers(-(2**63), 2**63 - 1)
"""Larger numbers are read as Kubernetes reads them, as floating-point numbers."""


@given(st.dictionaries(st.text(max_size=3), INTEGERS | st.lists(INTEGERS, max_size=2), max_size=4))
def test_without_duplicates_both_ways_of_reading_agree(value):
    text = json.dumps(value, indent=1)
    assert read(text).value == load_document(text).value == value
    assert read(text).duplicates == {}
