"""The report in Chromium: everything is visible, filters work, and the page complains about nothing."""

from __future__ import annotations

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.pages.shown_cluster import earlier_objects
from tests.pages.test_report_page import HOSTILE
from tests.usage.usage_objects import NOTHING, node, pod


@pytest.fixture
def open_report(new_page, report_page, tmp_path):
    def open_report(*arguments, **options):
        file = tmp_path / "report.html"
        file.write_text(report_page(*arguments))
        page = new_page(**options)
        page.goto(file.as_uri())
        return page

    return open_report


def shown_nodes(page):
    return [card.get_attribute("data-group") for card in page.locator("#nodes .card").all() if card.is_visible()]


def test_every_part_is_visible(open_report):
    page = open_report(None, earlier_objects())
    for name in ("summary", "nodes", "quotas", "migration", "findings"):
        expect(page.locator(f"#{name} h2")).to_be_visible()
    assert page.locator("#nodes .gpu:visible").count() == 17


def test_gpus_are_drawn_to_scale(open_report):
    page = open_report()
    cell = page.locator("[data-group=a100-mig] .gpu").first
    whole = cell.locator("svg rect.track").bounding_box()["width"]
    held = cell.locator("svg rect.claim").bounding_box()["width"]
    assert held / whole == pytest.approx(0.5, abs=0.02)


def test_search_keeps_what_has_the_text(open_report):
    page = open_report()
    page.get_by_label("Search").fill("web-1")
    assert shown_nodes(page) == ["t4-shared"]
    expect(page.locator("#nodes [data-count]")).to_have_text("1 of 17 shown")
    page.get_by_role("button", name="Clear").click()
    assert len(shown_nodes(page)) == 5


def test_search_finds_nodes_by_name(open_report):
    page = open_report()
    page.get_by_label("Search").fill("H100-0")
    assert shown_nodes(page) == ["h100-01", "h100-02", "h100-03"]


def test_product_without_matches_is_hidden(open_report):
    page = open_report()
    page.get_by_label("Search").fill("web-1")
    assert [each.inner_text() for each in page.locator("#nodes h3").all() if each.is_visible()] == ["Tesla-T4, 1 node"]


def test_filters_combine(open_report):
    page = open_report()
    page.get_by_role("combobox", name="GPU state").select_option("free")
    page.get_by_role("combobox", name="Product").select_option("Tesla-T4")
    assert shown_nodes(page) == ["t4-shared"]
    assert page.locator("#nodes .gpu:visible").count() == 1


def test_namespace_narrows_every_part(open_report):
    page = open_report()
    page.get_by_role("combobox", name="Namespace").select_option("team-b")
    assert shown_nodes(page) == ["a100-mig", "h100-01", "h100-03"]
    visible = [row.inner_text() for row in page.locator("#quotas tbody tr").all() if row.is_visible()]
    assert visible
    assert all("team-b" in row or row.startswith("\t") for row in visible)


def test_page_works_with_the_keyboard_alone(open_report):
    page = open_report()
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_is_accessible(open_report, scheme):
    found = Axe().run(open_report(color_scheme=scheme)).response
    assert len(found["passes"]) > 20
    assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found["violations"]] == []


def test_phone_needs_no_sideways_scrolling(open_report):
    page = open_report(viewport={"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_print_opens_the_tables_and_hides_the_filters(open_report):
    page = open_report()
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    expect(page.get_by_role("search")).to_be_hidden()
    expect(page.get_by_role("table", name=re.compile("Devices by node"))).to_be_visible()


def test_hostile_names_run_nothing(open_report):
    machine = node(HOSTILE, gpus=1, labels={"nvidia.com/gpu.product": HOSTILE})
    page = open_report([*NOTHING, machine, pod(HOSTILE, 1, node_name=HOSTILE, namespace=HOSTILE)])
    expect(page.locator("#nodes h4")).to_have_text(HOSTILE)
    assert page.locator("img").count() == 0


def test_page_without_scripts_shows_everything(open_report):
    page = open_report(java_script_enabled=False)
    expect(page.get_by_role("search")).to_be_hidden()
    assert page.locator("#nodes .gpu").count() == 17
