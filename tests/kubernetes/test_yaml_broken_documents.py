import pytest

from policies.kubernetes.yaml import YAMLError, load_document, scan_documents

TEXT = """\
a: 1
---
b: [
---
c: 3
---
d: 4
d: 5
--- # comment
e: {{ f }}
---
- &x 1
--- *x
---
g: 7
"""


def test_scan_goes_on_after_a_broken_document():
    documents, errors = scan_documents(TEXT)
    assert [document.value for document in documents] == [{"a": 1}, {"c": 3}, [1], {"g": 7}]
    assert [(error.line, error.column) for error in errors] == [(3, 5), (8, 1), (10, 5), (13, 5)]


def test_scan_keeps_the_lines_of_later_documents():
    documents, _ = scan_documents(TEXT)
    assert documents[-1].position(["g"]).line == 15


def test_load_raises_the_first_problem():
    with pytest.raises(YAMLError, match=r"^3:5: "):
        load_document(TEXT)


def test_text_that_is_no_text_is_one_problem():
    documents, errors = scan_documents(b"\xff")
    assert documents == []
    assert [str(error) for error in errors] == ["1:1: the text is not UTF-8: the byte 0xff at offset 0 does not fit"]


def test_quoted_text_does_not_swallow_the_next_document():
    documents, errors = scan_documents("a: 'x\n---\nb: 2\n")
    assert [document.value for document in documents] == [{"b": 2}]
    assert [str(error) for error in errors] == ["1:4: the quoted text that begins here is never closed"]


def test_problems_keep_nothing_of_the_text_alive():
    _, (error,) = scan_documents("a: [")
    assert error.__traceback__ is None
    assert error.__context__ is None
