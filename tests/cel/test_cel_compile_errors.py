import pytest

from policies.cel.errors import CelCompileError, IssueList


def raised(text, *reports):
    issues = IssueList(text)
    for offset, message in reports:
        issues.report(offset, message)
    with pytest.raises(CelCompileError) as error:
        issues.raise_if_any()
    return error.value


def test_nothing_is_raised_without_a_report():
    IssueList("true").raise_if_any()


@pytest.mark.parametrize(
    ("offset", "place"),
    [
        pytest.param(0, (1, 1), id="the beginning"),
        pytest.param(3, (1, 4), id="the end of a line"),
        pytest.param(4, (2, 1), id="the beginning of the next"),
        pytest.param(6, (3, 1), id="the beginning of the last"),
        pytest.param(9, (3, 4), id="the end of the text"),
        pytest.param(-1, (-1, 0), id="nowhere"),
    ],
)
def test_offset_is_reported_as_line_and_column(offset, place):
    error = raised("éab\nd\nabc", (offset, "wrong"))
    assert (error.line, error.column) == place


def test_issues_are_sorted_by_place_and_then_as_reported():
    error = raised("a\nb", (2, "third"), (0, "first"), (0, "second"))
    assert [issue.message for issue in error.issues] == ["first", "second", "third"]


def test_text_of_issues_points_at_their_places():
    assert str(raised("a\n\tb", (0, "first"), (3, "second"))) == (
        "compilation failed: ERROR: <input>:1:1: first\n | a\n | ^\nERROR: <input>:2:2: second\n |  b\n | .^"
    )


def test_caret_is_as_wide_as_what_is_above_it():
    assert str(raised("aéé", (2, "wrong"))).endswith("\n | aéé\n | .\uff0e\uff3e")
    assert str(raised("éa", (2, "wrong"))).endswith("\n | éa\n | \uff0e.^")


def test_issue_without_a_place_shows_no_source():
    assert str(raised("a", (-1, "too deep"))) == "compilation failed: ERROR: <input>:-1:0: too deep"


def test_refusal_without_a_place_is_its_message_alone():
    assert str(IssueList("1").refuse(0, "must evaluate to bool")) == "must evaluate to bool"
