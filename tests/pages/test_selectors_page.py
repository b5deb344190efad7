"""Analyses of selectors as a page: valid, with every condition and truth in words, and texts shown as they are."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import expect

from policies.analyses.selectors import (
    Analysis,
    Clause,
    DeviceChange,
    DeviceRow,
    DeviceVerdict,
    EditComparison,
    EditEffect,
    ExcludedBy,
    SelectorProblem,
    SelectorReport,
    Truth,
)
from tests.pages.test_report_page import HOSTILE, parse, text_of
from webhook.cli.explain.selector_analyses import render_analyses

T, F, FAILS, SKIPPED = Truth.TRUE, Truth.FALSE, Truth.FAILS, Truth.SKIPPED


def row(kind="H100", verdict=DeviceVerdict.MATCHES, truths=((T,), (T, T)), **facts):
    return DeviceRow(kind, 16, 2, ("gpu-0 on node-1",), verdict, truths, **facts)


def analysis(*rows, **facts):
    """An analysis of a selector of a class and one of a request."""
    of_class = SelectorReport("DeviceClass gpu", "a", 4, (1, 4), (Clause("a", 16),))
    own = SelectorReport("", "b && c", 9, (9, 9), (Clause("b", 16), Clause("c", 14, 2, 1, 2, 3)))
    return Analysis("request gpu", (of_class, own), devices=16, matched=16, rows=rows, **facts)


def everything():
    """An analysis with all verdicts and truths, problems, notes and an edit."""
    rows = (
        row(),
        row("T4", DeviceVerdict.FAILS, ((T,), (FAILS, T)), error="no such key: x"),
        row("A100", DeviceVerdict.EXCLUDED, ((F,), (SKIPPED, SKIPPED)), excluded_by=ExcludedBy(0, 0), why="has no x"),
        row("A10", DeviceVerdict.NOT_EVALUATED, ()),
    )
    changes = tuple(DeviceChange(change, rows[0]) for change in EditEffect)
    problem = SelectorProblem("GA221", "reads x", "ask first", 1, 7)
    return analysis(
        *rows,
        problems=(problem,),
        notes=("something is unknown",),
        rows_left_out=3,
        comparison=EditComparison(analysis(*rows), 1, 2, 3, changes, 4),
    )


def tables_of(found):
    tree = parse(render_analyses([found]))
    return [[text_of(each) for each in table.iter("tr")] for table in tree.iter("table")]


def test_conditions_are_a_table():
    conditions, _ = tables_of(analysis(row()))
    assert conditions == [
        "# Condition True False Fails Excludes Alone",
        "1 a DeviceClass gpu 16 0 0 0",
        "2 b 16 0 0 0 0",
        "3 c 14 2 1 2 3",
    ]


def test_truth_table_says_its_signs_in_words():
    _, truths, *_ = tables_of(everything())
    assert truths == [
        "Devices Count 1 Condition 1 2 Condition 2 3 Condition 3 Verdict Why",
        "H100 gpu-0 on node-1 and 15 more 16 ✓ true ✓ true ✓ true matches",
        "T4 gpu-0 on node-1 and 15 more 16 ✓ true ! fails ✓ true fails no such key: x",
        "A100 gpu-0 on node-1 and 15 more 16 ✕ false · skipped · skipped excluded has no x",
        "A10 gpu-0 on node-1 and 15 more 16 · skipped · skipped · skipped not evaluated",
    ]


def test_changes_of_an_edit_are_a_table():
    assert [line.split()[-1] for line in tables_of(everything())[-1]][1:] == ["gained", "lost", "now"]


def test_problems_costs_and_notes_are_sentences():
    text = text_of(parse(render_analyses([everything()])))
    for sentence in (
        "line 1, column 7: reads x; ask first [GA221]",
        "The estimated cost for one device is 9 of at most 1,000,000; for these devices it is 9.",
        "Note: something is unknown.",
        "and 3 more rows",
        "1 gained",
    ):
        assert sentence in text


def test_page_names_every_analysis():
    tree = parse(render_analyses([analysis(), analysis()]))
    assert [text_of(each) for each in tree.iter("h1")] == ["Selectors: 2 requests and classes"]
    assert [text_of(each) for each in tree.iter("h2")] == ["request gpu", "request gpu"]


def hostile_analysis(text):
    report = SelectorReport(text, text, 1, (1, 1), (Clause(text),))
    one = DeviceRow(text, 1, 1, (text,), DeviceVerdict.EXCLUDED, ((F,),), ExcludedBy(0, 0), text, text)
    return Analysis(
        text,
        (report,),
        problems=(SelectorProblem(text, text, text),),
        devices=1,
        rows=(one,),
        notes=(text,),
        comparison=EditComparison(Analysis(text, (report,)), changes=(DeviceChange(EditEffect.LOST, one),)),
    )


@given(text=st.text(max_size=30) | st.text(alphabet="<>&\"'{}\n\x00\x1b\u202e\ud800 a", max_size=30))
def test_any_text_leaves_the_page_valid(text):
    parse(render_analyses([hostile_analysis(text)]))


def test_hostile_texts_are_shown_as_they_are():
    tree = parse(render_analyses([hostile_analysis(HOSTILE)]))
    assert [each.tag for each in tree.iter() if each.tag in ("img", "script")] == ["script"]
    assert HOSTILE in text_of(next(tree.iter("h2")))


@pytest.fixture
def open_page(new_page, tmp_path):
    def open_page(found, **options):
        file = tmp_path / "selectors.html"
        file.write_text(render_analyses([found]))
        page = new_page(**options)
        page.goto(file.as_uri())
        return page

    return open_page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_is_accessible(open_page, scheme):
    page = open_page(everything(), color_scheme=scheme)
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    found = Axe().run(page).response
    assert len(found["passes"]) > 20
    assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found["violations"]] == []


def test_wide_tables_scroll_by_the_keyboard(open_page):
    page = open_page(everything(), viewport={"width": 360, "height": 740})
    region = page.get_by_role("region", name="Truth table of request gpu").first
    region.focus()
    expect(region).to_be_focused()


def test_hostile_texts_run_nothing(open_page):
    page = open_page(hostile_analysis(HOSTILE))
    expect(page.locator("h2").first).to_have_text(HOSTILE)
    assert page.locator("img").count() == 0
