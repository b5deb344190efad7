"""Objects written as YAML are read back as the same objects."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from policies.kubernetes.yaml import load_document, scan_documents
from webhook.cli.text_layout import dump, dump_all

# What the loader reads, and with it what can be an object: no control characters, no halves of characters.
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\ufeff"), max_size=20)
TRICKY = st.sampled_from(
    [
        *("y", "N", "on", "~", "", "null", "1e6", "0o17", "010", "1:30", "1_000", ".5", "2024-01-01", "=", "<<"),
        *("- a", "a: b", "# no", "a #b", "'", '"', "*x", "&x", "!x", "%x", "@x", "`x", "|", ">", "?", "---", "..."),
        *(" lead", "trail ", "a\n", "\na", "a\n\n b\n", "a\r\nb", "\ta\n", " a\nb", "a \nb"),
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | TEXT | TRICKY,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT | TRICKY, inner, max_size=4),
    max_leaves=20,
)
OBJECTS = st.dictionaries(TEXT | TRICKY, VALUES, min_size=1, max_size=4)


@given(OBJECTS)
def test_written_object_is_read_back(document):
    assert load_document(dump(document)).value == document


@given(OBJECTS)
def test_written_object_is_read_back_by_another_reader(document):
    assert yaml.load(dump(document), yaml.SafeLoader) == document


@given(st.lists(OBJECTS, min_size=1, max_size=3))
def test_written_objects_are_read_back(documents):
    read, errors = scan_documents(dump_all(documents))
    assert ([document.value for document in read], errors) == (documents, [])


def test_numbers_stay_numbers():
    document = {"a": 0.5, "b": 1e30, "c": 10, "d": True}
    assert load_document(dump(document)).value == document


def test_shared_parts_are_written_out():
    part = {"a": 1}
    assert dump({"x": part, "z": part}) == "x:\n  a: 1\nz:\n  a: 1\n"


def test_fields_keep_their_order():
    assert dump({"kind": "Pod", "apiVersion": "v1"}) == "kind: Pod\napiVersion: v1\n"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("plain", "plain"),
        ("true", '"true"'),
        ("y", '"y"'),
        ("1e6", '"1e6"'),
        ("8", '"8"'),
        ("2024-01-01", "'2024-01-01'"),
        ("#!/bin/sh\nexec train\n", "|\n  #!/bin/sh\n  exec train"),
        ("grüße", "grüße"),
        ("x" * 300 + " " + "y" * 300, "x" * 300 + " " + "y" * 300),
    ],
)
def test_text_is_written_as_kubernetes_reads_it(text, written):
    assert dump({"a": text}) == f"a: {written}\n"
