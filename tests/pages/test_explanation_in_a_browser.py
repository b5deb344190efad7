"""The page and the picture of an explanation in Chromium."""

from __future__ import annotations

from dataclasses import replace

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from policies.analyses.explain import Change, Suggestion
from tests.pages.test_explanation_page import (
    explanation,
    group,
    held,
    hostile_explanation,
    outcome,
    unsuitable,
)
from tests.pages.test_report_page import HOSTILE
from webhook.pages.explanation import render_explanations
from webhook.pages.explanation_picture import draw_explanations


def shown_explanation():
    """All states and badges."""
    return explanation(
        group(
            outcome("chosen", ("gpu-0", "gpu-1")), outcome("usable", ("gpu-2",)), held(devices=("gpu-3",)), fits=True
        ),
        group(held(devices=("gpu-0", "gpu-1")), if_empty=True, nodes=("node-2", "node-3")),
        group(unsuitable([f"gpu-{number}" for number in range(8)]), nodes=("node-with-a-long-name" * 5,)),
    )


@pytest.fixture
def open_page(new_page, tmp_path):
    def open_page(*found, **options):
        file = tmp_path / "explanation.html"
        file.write_text(render_explanations(found))
        page = new_page(**options)
        page.goto(file.as_uri())
        return page

    return open_page


def test_every_device_is_visible(open_page):
    page = open_page(shown_explanation())
    assert page.locator(".cell:visible").count() == 4 + 2 + 8


def test_table_behind_a_picture_opens_by_the_keyboard(open_page):
    page = open_page(shown_explanation())
    expect(page.locator("details table").first).to_be_hidden()
    page.locator("summary").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator("details table").first).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_is_accessible(open_page, scheme):
    page = open_page(shown_explanation(), replace(shown_explanation(), label="another"), color_scheme=scheme)
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    found = Axe().run(page).response
    assert len(found["passes"]) > 20
    assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found["violations"]] == []


def test_phone_shows_verdict_reason_and_remedy_first_and_nothing_wider_than_its_screen(open_page):
    change = Suggestion(Change.COUNT, "request 1 device instead of 8 in request gpu", "gpus", "gpu", 2)
    label = f"pod {'team-with-a-long-name-' * 3}a/{'train-' * 12}0"
    found = replace(shown_explanation(), label=label, fit_if_empty=2, suggestions=(change,))
    page = open_page(found, viewport={"width": 390, "height": 844})
    remedy = page.get_by_text("What would help: request 1 device instead of 8 in request gpu; then it fits on 2 nodes.")
    assert remedy.bounding_box()["y"] < page.locator(".columns").bounding_box()["y"] < 844
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_print_cuts_no_table(open_page):
    page = open_page(shown_explanation(), viewport={"width": 794, "height": 1123})
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    expect(page.locator("details table").first).to_be_visible()
    assert page.evaluate(
        "[...document.querySelectorAll('.scroll')].every(each => each.scrollWidth <= each.clientWidth)"
    )


def test_hostile_names_run_nothing(open_page):
    page = open_page(hostile_explanation(HOSTILE))
    expect(page.locator("h4")).to_contain_text(HOSTILE)
    assert page.locator("img").count() == 0


def test_words_of_the_picture_stay_in_it(new_page, tmp_path):
    file = tmp_path / "explanation.svg"
    file.write_text(draw_explanations([shown_explanation()]))
    page = new_page()
    page.goto(file.as_uri())
    ends = page.evaluate(
        "[...document.querySelectorAll('text')].map((text) => text.getBBox().x + text.getBBox().width)"
    )
    assert max(ends) <= int(page.evaluate("document.documentElement.getAttribute('width')"))
