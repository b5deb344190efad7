"""Aliases, with the results of sigs.k8s.io/yaml v1.6 with go.yaml.in/yaml/v2 v2.4.4."""

import pytest

from policies.kubernetes.yaml import YAMLError, load_document


def read(text):
    return load_document(text).value


def refusal(text):
    with pytest.raises(YAMLError) as caught:
        load_document(text)
    return str(caught.value)


def test_alias_stands_for_its_anchor():
    assert read("a: &x {b: [1]}\nc: *x\nd: [*x, *x]\n") == {
        "a": {"b": [1]},
        "c": {"b": [1]},
        "d": [{"b": [1]}, {"b": [1]}],
    }


def test_anchor_may_be_given_again():
    assert read("a: &x 1\nb: *x\nc: &x 2\nd: *x\n") == {"a": 1, "b": 1, "c": 2, "d": 2}


def test_anchor_inside_one_of_the_same_name_wins():
    assert read("&x [&x 1, *x]\n") == [1, 1]


def test_alias_of_a_scalar_may_be_a_key():
    assert read("a: &x 1e6\n*x : b\n&y c: *y\n") == {"a": 1000000, "1e+06": "b", "c": "c"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: &x [1]\n*x : b\n", "2:1: a list cannot be a key"),
        ("a: *x\n", '1:4: the alias "x" has no anchor of that name before it'),
        ("--- &x 1\n--- *x\n", '2:5: the alias "x" has no anchor of that name before it'),
        ("a: &x\n  b: [*x]\n", '2:7: the alias "x" stands inside its own anchor'),
        ("a: &x .inf\n", "1:4: infinity and not-a-number do not exist in JSON; quote the value if a string is meant"),
    ],
)
def test_alias_that_cannot_be_followed_is_refused(text, message):
    assert refusal(text) == message


def test_merge_brings_the_keys_of_a_mapping():
    assert read("a: &x {b: 1, c: 2}\nd:\n  <<: *x\n  e: 3\n")["d"] == {"b": 1, "c": 2, "e": 3}


def test_key_after_a_merge_overrides_it():
    assert read("a: &x {b: 1}\nd:\n  <<: *x\n  b: 2\n")["d"] == {"b": 2}


def test_merge_overrides_a_key_before_it():
    assert read("a: &x {b: 1}\nd:\n  b: 2\n  <<: *x\n")["d"] == {"b": 1}


def test_first_of_several_merged_mappings_wins():
    assert read("- &x {a: 1, b: 1}\n- &y {b: 2, c: 2}\n- {<<: [*x, *y, {c: 3, d: 3}]}\n")[2] == {
        "a": 1,
        "b": 1,
        "c": 2,
        "d": 3,
    }


def test_merge_may_be_repeated_and_nested():
    assert read("- &x {a: 1}\n- &y {<<: *x, b: 2}\n- {<<: *y, <<: {c: 3}}\n")[2] == {"a": 1, "b": 2, "c": 3}


def test_key_given_twice_around_a_merge_is_a_duplicate():
    assert refusal("- &x {a: 1}\n- a: 2\n  <<: *x\n  a: 3\n") == '4:3: duplicate key "a": first given at line 2'


def test_quoted_merge_sign_is_a_key():
    assert read("'<<': 1\n") == {"<<": 1}


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("<<: 1\n", "1:5"),
        ("<<:\n", "1:4"),
        ("<<: [{a: 1}, 2]\n", "1:14"),
        ("<<: [[{a: 1}]]\n", "1:6"),
        ("a: &x [{b: 1}]\n<<: *x\n", "2:5"),
        ("a: &x 1\n<<: *x\n", "2:5"),
    ],
)
def test_merge_of_anything_but_mappings_is_refused(text, place):
    assert refusal(text) == f'{place}: the merge key "<<" takes a mapping or a list of mappings'
