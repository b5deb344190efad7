import json
import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from policies.kubernetes.yaml import YAMLError, load_document, scan_documents
from policies.kubernetes.yaml_events import plain

CHARACTERS = st.characters(exclude_categories=["Cs"])
# Beyond 2**53 an integral float is read by its shortest digits, as Kubernetes does, and not by its exact value.
FLOATS = st.floats(allow_nan=False, allow_infinity=False).filter(
    lambda number: not number.is_integer() or abs(number) < 2**53 or abs(number) >= 2**63
)
SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | FLOATS | st.text(CHARACTERS)
JSON = st.recursive(
    SCALARS,
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(CHARACTERS), children, max_size=4),
    max_leaves=20,
)
# PyYAML writes some strings without quotes that Kubernetes takes for something else: y, 1e3, 0o17.
UNAMBIGUOUS = st.text(CHARACTERS).filter(lambda text: isinstance(plain(text), str))
SNIPPETS = st.lists(
    st.sampled_from(
        [
            *"\n\n\n  \t:-?[]{},#&*!|>%@'\"\\`=.~<0aé\r\0\x85\u2028\ufeff\ud800",
            *[": ", "- ", "? ", "---", "...", "\n---\n", "\n  ", "<<: ", "&a ", "*a ", "!!int ", "!x ", "|2\n"],
            *["\\u", "\\ud83d", "%YAML 1.1\n", "1e5", "0x", "null"],
        ]
    ),
    max_size=40,
).map("".join)


def paths(value, path=()):
    yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, child in children:
        yield from paths(child, (*path, step))


@given(st.text() | SNIPPETS)
def test_any_text_gives_documents_or_problems(text):
    documents, errors = scan_documents(text)
    for document in documents:
        json.dumps(document.value, allow_nan=False).encode()
    for error in errors:
        assert "\n" not in str(error)
        assert str(error).encode()
    if errors:
        with pytest.raises(YAMLError):
            load_document(text)
    elif len(documents) == 1:
        assert load_document(text).value == documents[0].value


@given(SNIPPETS)
def test_every_place_lies_within_the_text(text):
    documents, errors = scan_documents(text)
    places = [document.position(path) for document in documents for path in paths(document.value)]
    # libyaml puts the missing value of "? a" at the end of the text onto a line of its own.
    lines = [*re.split("\r\n|[\n\r\x85\u2028]", text), ""]
    for place in [*places, *errors]:
        assert 1 <= place.line <= len(lines)
        assert 1 <= place.column <= len(lines[place.line - 1]) + 1


@given(st.binary())
def test_any_bytes_give_documents_or_problems(data):
    scan_documents(data)


@given(JSON, st.sampled_from([None, 0, 3, "\t"]), st.booleans())
def test_json_is_read_back(value, indent, ensure_ascii):
    assert load_document(json.dumps([value], indent=indent, ensure_ascii=ensure_ascii)).value == [value]


@given(JSON)
def test_quoted_yaml_is_read_back(value):
    assert load_document(yaml.safe_dump([value], default_style='"')).value == [value]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | FLOATS | UNAMBIGUOUS,
        lambda children: st.lists(children, max_size=4) | st.dictionaries(UNAMBIGUOUS, children, max_size=4),
        max_leaves=20,
    )
)
def test_plain_yaml_is_read_back(value):
    assert load_document(yaml.safe_dump({"a": value, "b": [value]})).value == {"a": value, "b": [value]}


@given(st.lists(JSON, max_size=4))
def test_documents_are_read_back(values):
    text = "".join(f"---\n{json.dumps([value], indent=1)}\n" for value in values)
    documents, errors = scan_documents(text)
    assert ([document.value for document in documents], errors) == ([[value] for value in values], [])


@given(JSON, st.sampled_from([None, 2]))
def test_positions_point_at_the_text(value, indent):
    text = json.dumps(value, indent=indent)
    document = load_document(text)
    lines = text.split("\n")
    for path in paths(value):
        place = document.position(path)
        target = value
        for step in path:
            target = target[step]
        begins = json.dumps(target)[:1] if isinstance(target, dict | list) else json.dumps(target)
        assert lines[place.line - 1][place.column - 1 :].startswith(begins)
        if path and isinstance(path[-1], str):
            place = document.key_position(path)
            assert lines[place.line - 1][place.column - 1 :].startswith(json.dumps(path[-1]))
