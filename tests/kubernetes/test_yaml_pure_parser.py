"""PyYAML without libyaml gives the same results, with other error messages."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from policies.kubernetes import yaml_events
from policies.kubernetes.yaml import Position, scan_documents


@pytest.fixture(autouse=True, scope="module")
def pure_parser():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml_events, "_PARSER", yaml.SafeLoader)
        yield


def problems(text):
    return [str(error) for error in scan_documents(text)[1]]


def test_documents_are_read_with_their_places():
    (first, second), errors = scan_documents("a: &x {b: [1, yes]}\n---\nc:\n  - d: 010\n    <<: {e: 1}\n")
    assert errors == []
    assert first.value == {"a": {"b": [1, True]}}
    assert second.value == {"c": [{"d": 8, "e": 1}]}
    assert second.position(["c", 0, "d"]) == Position(4, 8)


def test_mistake_keeps_the_words_of_the_parser_in_one_line():
    assert problems("a: [1\nb: 2\n---\nc: [") == [
        "2:2: expected ',' or ']', but got ':' (while parsing a flow sequence at line 1)",
        "4:5: expected the node content, but found '<stream end>' (while parsing a flow node at line 4)",
    ]


@pytest.mark.parametrize("escape", ["\\U00110000", "\\UFFFFFFFF"])
def test_escape_that_names_no_character_is_refused(escape):
    assert problems(f'a: "{escape}"') == ["1:2: an escape after this place names no character of Unicode"]


def test_escape_of_half_a_character_is_refused():
    assert problems('a: "\\ud800"') == [
        "1:4: the escape \\ud800 is half of a character; write both halves, or the character itself"
    ]


def test_control_character_is_refused():
    assert problems("a: 1\nb: \0\n") == [
        '2:4: the character U+0000 is not allowed in YAML; remove it, or write it as "\\u0000" in double quotes'
    ]


def test_deep_nesting_is_refused():
    assert problems("[" * 100_000) == ["1:101: nested deeper than 100 levels"]


@given(st.text() | st.text(alphabet="\n :-?[]{},#&*!|>%'\"\\ua0<\t"))
def test_any_text_gives_documents_or_problems(text):
    scan_documents(text)
