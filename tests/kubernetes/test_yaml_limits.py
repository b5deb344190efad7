import sys

import pytest

from policies.kubernetes.yaml import Limits, YAMLError, load_document, scan_documents


def refusal(text, **limits):
    with pytest.raises(YAMLError) as caught:
        load_document(text, limits=Limits(**limits))
    return str(caught.value)


def nested(levels, opening, closing):
    return opening * levels + closing * levels


def test_text_of_the_limit_is_read():
    assert load_document("a: ä", limits=Limits(size=5)).value == {"a": "ä"}


@pytest.mark.parametrize("text", ["a: ää", "a: ää".encode(), "a: xxx"])
def test_larger_text_is_refused(text):
    assert refusal(text, size=5) == "1:1: the text is larger than 5 bytes"


def test_default_size_is_that_of_a_request_to_the_api_server():
    assert Limits().size == 8388608


def test_hundred_levels_are_read():
    assert load_document(nested(100, "[", "]"))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (nested(101, "[", "]"), "1:101"),
        ("[" * 100_000, "1:101"),
        ('{"a":' * 100_000, "1:501"),
        (nested(100_000, "[", "]"), "1:101"),
        (nested(100_000, '{"a":[', "]}"), "1:301"),
        ("- " * 100_000, "1:201"),
        ("".join("  " * level + "- a:\n" for level in range(200)), "51:101"),
    ],
)
def test_deeper_nesting_is_refused(text, place):
    assert refusal(text) == f"{place}: nested deeper than 100 levels"


def test_depth_is_counted_through_aliases():
    text = "- &a0 []\n" + "".join(f"- &a{n} [*a{n - 1}]\n" for n in range(1, 200))
    assert refusal(text) == "100:9: nested deeper than 100 levels"


def test_depth_does_not_rest_on_pythons_recursion_limit():
    levels = sys.getrecursionlimit() * 3
    document = load_document(nested(levels, "[", "]"), limits=Limits(depth=levels))
    assert document.position([0] * (levels - 1)).column == levels


def test_documents_keys_and_values_are_counted():
    assert scan_documents("--- a\n--- {b: [1, 2]}", limits=Limits(nodes=8))[1] == []
    assert refusal("--- a\n--- {b: [1, 2]}", nodes=7) == (
        "2:13: more than 7 documents, keys and values, aliases counted as often as they are used; the rest is not read"
    )


def test_alias_counts_as_what_it_stands_for():
    assert load_document("[&x [1, 2], *x, *x]", limits=Limits(nodes=11))
    assert refusal("[&x [1, 2], *x, *x]", nodes=10).startswith("1:17: more than 10 documents")


def test_billion_laughs_are_refused_at_once():
    text = "a0: &a0 [ha]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 50))
    assert refusal(text).startswith("7:")


def test_what_aliases_stand_for_is_bounded_apart_from_what_is_written():
    text = "a: &a [1, 2]\nb: &b [*a, *a]\nc: [*b, 3, 4, 5]\n"
    assert load_document(text, limits=Limits(aliased=13))
    assert refusal(text, aliased=12) == (
        "3:5: the aliases up to here stand for more than 12 keys and values; write out what is meant; "
        "the rest is not read"
    )


def test_text_without_aliases_is_not_bounded_by_what_aliases_may_stand_for():
    assert load_document("a: &a [1, 2]\nb: [3, 4]", limits=Limits(aliased=0))


def test_aliases_of_scalars_and_merges_count_as_aliases():
    assert refusal("[&a 1, *a, *a]", aliased=1).startswith("1:12: the aliases up to here")
    assert refusal("- &a {b: 1}\n- <<: *a\n", aliased=2).startswith("2:7: the aliases up to here")


def test_reading_ends_with_the_document_whose_aliases_stand_for_too_much():
    documents, errors = scan_documents("[&a 1, *a]\n---\n[&a 1, *a]\n---\n[5, 6]\n", limits=Limits(aliased=1))
    assert [document.value for document in documents] == [[1, 1]]
    assert [(error.line, error.column) for error in errors] == [(3, 8)]


def test_merges_count_as_what_they_bring():
    keys = ", ".join(f"k{n}: 1" for n in range(1000))
    text = f"- &x {{{keys}}}\n" + "- <<: *x\n" * 100_000
    assert refusal(text).startswith("500:7: more than 1000000 documents")


def test_reading_ends_with_the_document_that_passes_the_limit_of_values():
    documents, errors = scan_documents("[1, 2]\n---\n[3, 4]\n---\n[5, 6]\n", limits=Limits(nodes=7))
    assert [document.value for document in documents] == [[1, 2]]
    assert [str(error) for error in errors] == [
        "3:5: more than 7 documents, keys and values, aliases counted as often as they are used; the rest is not read"
    ]


def test_broken_documents_count_too():
    _, errors = scan_documents("---\n@\n" * 1000, limits=Limits(nodes=50))
    assert len(errors) == 51
    assert errors[-1].message.startswith("more than 50 documents")


@pytest.mark.parametrize("text", ["9" * 100_000, "-0x" + "f" * 100_000, "1" + "_0" * 50_000, "1." + "9" * 100_000])
def test_number_of_any_length_is_read(text):
    assert load_document(text)
