"""The number of values in a body, counted before it is parsed."""

import json
from unittest import mock

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.server import bodies
from webhook.server.bodies import MOST_VALUES, BadJSON, TooManyValues, has_more_values, most_values, read_json

TEXT = st.text('",[{:\\ aé')
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=50,
)


def values(document):
    """The values of a document; an empty list or object counts as two."""
    match document:
        case dict():
            return 1 + (sum(map(values, document.values())) or 1)
        case list():
            return 1 + (sum(map(values, document)) or 1)
    return 1


@given(document=ANY_JSON, is_ascii=st.booleans())
def test_body_has_no_more_values_than_are_counted(document, is_ascii):
    assert values(document) <= most_values(json.dumps(document, ensure_ascii=is_ascii).encode())


@given(document=ANY_JSON, is_ascii=st.booleans(), most=st.integers(1, 50))
def test_values_are_counted_exactly_outside_of_strings(document, is_ascii, most):
    assert has_more_values(json.dumps(document, ensure_ascii=is_ascii).encode(), most) == (values(document) > most)


@pytest.mark.parametrize("value", ["[]", "{}", '{"a":1}', "1", '""', '"\\\\"'])
def test_body_with_too_many_values_is_not_parsed(value):
    body = f"[{','.join([value] * MOST_VALUES)}]".encode()
    with (
        mock.patch("webhook.server.bodies.parse_json", wraps=bodies.parse_json) as loads,
        pytest.raises(TooManyValues, match="has more than 250,000 values"),
    ):
        read_json(body)
    # A server of another test may parse its own bodies meanwhile.
    assert body not in [call.args[0] for call in loads.call_args_list]


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
