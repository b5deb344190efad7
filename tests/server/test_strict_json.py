"""The memory of a body's document, estimated before it is parsed."""

import json
import sys
from unittest import mock

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.server import bodies
from webhook.server.bodies import MOST_DECODED, BadJSON, TooLargeDocument, most_decoded, read_json, takes_more

TEXT = st.text('",[{:\\ aé\u03b1\U0001f600')
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=50,
)


def size(document):
    """The bytes of a document's objects in Python, each counted once."""
    objects, rest = {}, [document]
    while rest:
        each = rest.pop()
        if id(each) not in objects:
            objects[id(each)] = sys.getsizeof(each)
            rest += [*each, *each.values()] if isinstance(each, dict) else each if isinstance(each, list) else ()
    return sum(objects.values())


OF_ONE_BYTE = 200
"""At most, for small documents: what the first mapping, or the first text of any width, takes whatever it has."""


@given(document=ANY_JSON, is_ascii=st.booleans())
def test_document_takes_no_more_than_is_estimated(document, is_ascii):
    body = json.dumps(document, ensure_ascii=is_ascii).encode()
    assert size(json.loads(body)) <= most_decoded(body) + OF_ONE_BYTE


UNITS = (
    "[]",
    "{}",
    '{"a":1}',
    "1",
    "1.5",
    '""',
    '"\\\\"',
    '"\U0001f600abcdefghijklmnop"',
    '"\\ud83d\\ude00"',
    '[["a"]]',
)


@pytest.mark.parametrize("unit", UNITS)
def test_document_of_many_values_takes_no_more_than_is_estimated(unit):
    body = f"[{','.join([unit] * 5000)}]".encode()
    assert size(orjson.loads(body)) <= most_decoded(body)


def test_mapping_of_many_keys_takes_no_more_than_is_estimated():
    body = orjson.dumps({f"k{number}": number for number in range(5000)})
    assert size(orjson.loads(body)) <= most_decoded(body)


@given(document=ANY_JSON, is_ascii=st.booleans(), most=st.integers(1, 20_000))
def test_estimate_is_an_upper_bound(document, is_ascii, most):
    body = json.dumps(document, ensure_ascii=is_ascii).encode()
    assert not (takes_more(body, most) and most_decoded(body) <= most)


@pytest.mark.parametrize("value", ["[]", "{}", '{"a":1}', "1", '""', '"\\\\"'])
def test_body_with_too_many_values_is_not_parsed(value):
    assert_refused(f"[{','.join([value] * 250_000)}]".encode())


@pytest.mark.parametrize("character", ["\U0001f600", "\\ud83d\\ude00"])
def test_one_wide_character_makes_the_others_wide(character):
    text = f'"{character}{"x" * (MOST_DECODED // 4)}"'.encode()
    assert_refused(text)
    assert read_json(text.replace(character.encode(), b"y")) == f"y{'x' * (MOST_DECODED // 4)}"


def assert_refused(body):
    with (
        mock.patch("webhook.server.bodies.parse_json", wraps=bodies.parse_json) as loads,
        pytest.raises(TooLargeDocument, match="takes more than 24 MiB once it is parsed"),
    ):
        read_json(body)
    # A server of another test may parse its own bodies meanwhile.
    assert body not in [call.args[0] for call in loads.call_args_list]


def test_escapes_of_an_api_server_are_not_wide():
    body = b'"' + rb"\u003c" * 1_200_000 + b'"'
    assert read_json(body) == "<" * 1_200_000


def test_text_counts_as_one_value():
    document = {"data": {"table.csv": "1,[{" * 500_000, "quoted": '\\",' * 500_000}}
    assert read_json(orjson.dumps(document)) == document


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
@pytest.mark.parametrize("levels", [1, 200, 252, 253, 254, 255, 256, 300, 1000])
def test_document_is_parsed_if_and_only_if_it_can_be_written_again(opening, closing, levels):
    body = opening * levels + b"1" + closing * levels
    try:
        orjson.dumps(orjson.loads(body))
    except TypeError:
        with pytest.raises(BadJSON, match="nested too deeply"):
            read_json(body)
    else:
        assert read_json(body) == orjson.loads(body)
