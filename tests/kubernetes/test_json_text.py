import pytest

from policies.kubernetes.yaml import Position, YAMLError, load_document, scan_documents


def values(text):
    documents, errors = scan_documents(text)
    assert errors == []
    return [document.value for document in documents]


def refusal(text):
    with pytest.raises(YAMLError) as caught:
        load_document(text)
    return str(caught.value)


def test_tabs_may_indent_json():
    assert values('{\n\t"a":\t[1,\n\t\t"b\\t"],\t"c":null\n}\n') == [{"a": [1, "b\t"], "c": None}]


def test_surrogate_pair_is_one_character():
    assert values('["\\ud83d\\ude00"]') == [["😀"]]


@pytest.mark.parametrize("character", ["\x7f", "\x85", "\u2028", "\ufeff", "\ufffe"])
def test_json_string_may_hold_what_yaml_may_not(character):
    assert values(f'["a{character}b"]') == [[f"a{character}b"]]


def test_long_key_is_read():
    key = "k" * 5000
    assert values(f'{{"{key}" : 1}}') == [{key: 1}]


def test_words_in_quotes_are_strings_and_others_are_not():
    assert values('{"<<": {"y": "no"}, "null": [true, false, null, 1.0, -0, 1e3]}') == [
        {"<<": {"y": "no"}, "null": [True, False, None, 1, 0, 1000]}
    ]


def test_json_may_follow_a_marker():
    assert values('---\n{"\\u0061": 1}\n--- ["b"]\n---\nc: 1\n') == [{"a": 1}, ["b"], {"c": 1}]


def test_positions_are_those_of_the_text():
    document = load_document('\n  {"a": [1,\r\n\t"é", {"b":\n2}]}')
    assert document.position([]) == Position(2, 3)
    assert document.key_position(["a"]) == Position(2, 4)
    assert document.position(["a", 1]) == Position(3, 2)
    assert document.key_position(["a", 2, "b"]) == Position(3, 8)
    assert document.position(["a", 2, "b"]) == Position(4, 1)


def test_duplicate_key_is_refused():
    assert refusal('{"a": 1,\n "\\u0061": 2}') == '2:2: duplicate key "a": first given at line 1'


@pytest.mark.parametrize("text", ['["\\ud800"]', '["\\udc00\\ud800"]', '["x\\uD83D"]'])
def test_half_of_a_surrogate_pair_is_refused(text):
    assert refusal(text).startswith("1:2: the escape \\ud")
    assert refusal(text).endswith(" is half of a character; write both halves, or the character itself")


def test_flow_yaml_is_not_json_and_is_read_too():
    assert values("{a: b, c: [d, ], # comment\n e: NaN}") == [{"a": "b", "c": ["d"], "e": "NaN"}]


def test_mistake_in_json_is_reported_as_a_mistake_in_yaml():
    assert refusal('{"a": [1 2}') == '1:11: expected "," or "]" in the list that begins at line 1'


def test_control_character_in_json_is_refused():
    assert (
        refusal('["a\0"]')
        == '1:4: the character U+0000 is not allowed in YAML; remove it, or write it as "\\u0000" in double quotes'
    )


def test_value_after_the_json_is_refused():
    documents, errors = scan_documents('{"a": 1}\n{"b": 2}\n')
    assert [document.value for document in documents] == [{"a": 1}]
    assert [str(error) for error in errors] == [
        '2:1: the document ends before this: check the indentation, or begin another document with a line "---"'
    ]
