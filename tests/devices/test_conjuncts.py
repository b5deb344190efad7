"""Selectors are taken apart at their top-level `&&` only."""

from __future__ import annotations

import pytest

from policies.cel import split_conjuncts, without_conjunct


@pytest.mark.parametrize(
    ("selector", "parts"),
    [
        pytest.param("a && b", ["a", "b"], id="two"),
        pytest.param("a", ["a"], id="one"),
        pytest.param("a &&\n  b&&c ", ["a", "b", "c"], id="lines"),
        pytest.param("(a && b) && c", ["a", "b", "c"], id="parentheses"),
        pytest.param("((a) && (b || c))", ["(a)", "(b || c)"], id="parentheses in parentheses"),
        pytest.param("(a) && (b)", ["(a)", "(b)"], id="parentheses around each"),
        pytest.param("(a || b)", ["(a || b)"], id="parentheses around one"),
        pytest.param("x.exists(y, y && z) && [a && b] == c", ["x.exists(y, y && z)", "[a && b] == c"], id="calls"),
        pytest.param("a == '&& \\' &&' && b", ["a == '&& \\' &&'", "b"], id="texts"),
        pytest.param('a == r"\\" && b', ['a == r"\\"', "b"], id="raw texts"),
        pytest.param("a == '''it's && ''' && b", ["a == '''it's && '''", "b"], id="long texts"),
        pytest.param(
            "a.?b.orValue(1) == 1 && c[?d].hasValue()", ["a.?b.orValue(1) == 1", "c[?d].hasValue()"], id="optional"
        ),
        pytest.param("(a || b) && c", ["(a || b)", "c"], id="or inside"),
        pytest.param("a && b || c", ["a && b || c"], id="or at the top"),
        pytest.param("a ? b && c : d", ["a ? b && c : d"], id="a choice at the top"),
        pytest.param("a && b // && c", ["a", "b"], id="comment"),
        pytest.param("a && (b", ["a && (b"], id="not closed"),
        pytest.param("a) && b", ["a) && b"], id="not opened"),
        pytest.param("a && 'b", ["a && 'b"], id="text without end"),
        pytest.param("a &&", ["a &&"], id="nothing after"),
    ],
)
def test_conjuncts_are_what_and_joins_at_the_top(selector, parts):
    assert [part.text for part in split_conjuncts(selector)] == parts


def test_conjuncts_tell_where_they_stand():
    selector = " a  && bc"
    assert [selector[part.start : part.end] for part in split_conjuncts(selector)] == ["a", "bc"]


def test_selector_without_a_conjunct_is_the_others():
    parts = split_conjuncts("a && b && c")
    assert without_conjunct("a && b && c", parts[1]) == "a && c"
