"""The report in Chromium: everything is visible, filters work, and the page complains about nothing."""

from __future__ import annotations

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from testbed.browser import watched_page
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
    return [line.get_attribute("data-name") for line in page.locator(".nodes > li").all()]


def line_of(page, name):
    return page.locator(f'.nodes > li[data-name="{name}"]')


def test_every_part_is_visible(open_report):
    page = open_report(None, earlier_objects())
    for name in ("summary", "nodes", "quotas", "migration", "findings"):
        expect(page.locator(f"#{name} h2")).to_be_visible()
    assert shown_nodes(page) == ["a100-mig", "h100-01", "h100-02", "h100-03", "t4-shared"]


def test_gpus_are_drawn_to_scale(open_report):
    page = open_report()
    line = line_of(page, "a100-mig")
    line.locator("summary").click()
    picture = line.locator(".gpu svg")
    held = picture.locator("path.claim").bounding_box()["width"]
    assert held / picture.bounding_box()["width"] == pytest.approx(0.5, abs=0.05)


def test_line_opens_and_closes(open_report):
    page = open_report()
    line = line_of(page, "h100-03")
    assert line.locator(".gpu").count() == 0
    line.locator("summary").focus()
    page.keyboard.press("Enter")
    expect(line.locator(".gpu")).to_contain_text(["team-b/first", "team-c/second"])
    page.keyboard.press("Escape")
    expect(line.locator(".gpu")).to_have_count(0)
    expect(line.locator("summary")).to_be_focused()


def test_arrow_keys_go_from_line_to_line(open_report):
    page = open_report()
    line_of(page, "a100-mig").locator("summary").focus()
    visited = []
    for key in ("ArrowDown", "ArrowDown", "ArrowUp", "End", "Home"):
        page.keyboard.press(key)
        visited.append(page.evaluate("document.activeElement.parentElement.parentElement.dataset.name"))
    assert visited == ["h100-01", "h100-02", "h100-01", "t4-shared", "a100-mig"]


def test_search_keeps_what_has_the_text(open_report):
    page = open_report()
    page.get_by_label("Search").fill("web-1")
    assert shown_nodes(page) == ["t4-shared"]
    expect(page.locator("#nodes [data-count]")).to_have_text("1 of 5 shown")
    assert page.locator("#nodes h3").all_inner_texts() == ["Tesla-T4, 1 node"]
    page.get_by_role("button", name="Clear", exact=True).click()
    assert len(shown_nodes(page)) == 5


def test_search_finds_nodes_by_name(open_report):
    page = open_report()
    page.get_by_label("Search").fill("H100-0")
    assert shown_nodes(page) == ["h100-01", "h100-02", "h100-03"]


def test_slash_goes_to_the_search_and_escape_clears_it(open_report):
    page = open_report()
    page.keyboard.press("/")
    expect(page.get_by_label("Search")).to_be_focused()
    page.keyboard.type("h100/")
    expect(page.get_by_label("Search")).to_have_value("h100/")
    page.keyboard.press("Escape")
    expect(page.get_by_label("Search")).to_have_value("")
    assert len(shown_nodes(page)) == 5


def test_filters_combine_on_one_gpu(open_report):
    page = open_report()
    page.get_by_role("combobox", name="GPU state").select_option("free")
    page.get_by_role("combobox", name="Product").select_option("Tesla-T4")
    assert shown_nodes(page) == ["t4-shared"]
    page.get_by_role("combobox", name="Namespace").select_option("team-c")
    assert shown_nodes(page) == []


def test_gpu_that_is_held_in_part_is_found_as_free_and_as_held(open_report):
    page = open_report()
    page.get_by_role("combobox", name="Product").select_option(label="NVIDIA-A100-SXM4-80GB")
    for state in ("free", "held", "partly-held"):
        page.get_by_role("combobox", name="GPU state").select_option(state)
        assert shown_nodes(page) == ["a100-mig"]


def test_nodes_that_need_attention_are_found(open_report):
    page = open_report()
    page.get_by_role("combobox", name="Node state").select_option("needs-attention")
    assert shown_nodes(page) == ["h100-02", "h100-03"]
    page.get_by_role("combobox", name="Node state").select_option("cordoned")
    assert shown_nodes(page) == ["h100-02"]


def test_filters_are_in_the_address(open_report):
    page = open_report()
    page.get_by_role("combobox", name="Node state").select_option("cordoned")
    page.get_by_label("Search").fill("h100 02&")
    page.wait_for_url("**/report.html#?text=h100+02%26&node=cordoned")
    page.get_by_role("button", name="Clear", exact=True).click()
    page.wait_for_url("**/report.html")


def test_link_to_filters_sets_them_and_goes_to_the_part(open_report):
    page = open_report(viewport={"width": 1000, "height": 200})
    page.evaluate("location.hash = '#nodes?node=given-out-twice&text=h100'")
    expect(page.get_by_role("combobox", name="Node state")).to_have_value("given-out-twice")
    assert shown_nodes(page) == ["h100-03"]
    expect(page.locator("#nodes h2")).to_be_in_viewport()
    page.evaluate("location.hash = '#quotas'")
    page.wait_for_url("**#quotas?text=h100&node=given-out-twice")
    page.reload()
    expect(page.get_by_label("Search")).to_have_value("h100")
    assert shown_nodes(page) == ["h100-03"]


def test_link_beside_the_wait_list_shows_whether_it_is_chosen(open_report):
    page = open_report()
    every, reason = page.locator(".chip").all()
    expect(every).to_have_attribute("aria-current", "true")
    reason.click()
    expect(reason).to_have_attribute("aria-current", "true")
    expect(every).not_to_have_attribute("aria-current", "true")


def test_filters_that_match_nothing_say_so(open_report):
    page = open_report()
    page.get_by_label("Search").fill("nobody has this")
    nothing = page.locator("#nodes [data-nothing]")
    expect(nothing).to_have_text("Nothing matches the filters. Clear filters")
    nothing.get_by_role("button").click()
    expect(nothing).to_be_hidden()
    assert len(shown_nodes(page)) == 5


def test_namespace_narrows_every_part(open_report):
    page = open_report()
    page.get_by_role("combobox", name="Namespace").select_option("team-b")
    assert shown_nodes(page) == ["a100-mig", "h100-01", "h100-03"]
    visible = [row.inner_text() for row in page.locator("#quotas tbody tr").all() if row.is_visible()]
    assert visible
    assert all("team-b" in row or row.startswith("\t") for row in visible)


def test_keyboard_skips_to_the_content(open_report):
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


def test_print_opens_the_tables_and_says_what_is_filtered(open_report):
    page = open_report()
    expect(page.locator("[data-filtered]")).to_be_hidden()
    page.get_by_role("combobox", name="GPU state").select_option("free")
    page.get_by_label("Search").fill("h100")
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    expect(page.get_by_role("search")).to_be_hidden()
    expect(page.locator("[data-filtered]")).to_have_text("Only: Search h100, GPU state free.")
    expect(page.get_by_role("table", name=re.compile("GPUs by namespace"))).to_be_visible()


@pytest.fixture(scope="module")
def large_page(browser, report_page, tmp_path_factory):
    """A report of 2,000 nodes, of which the last runs a pod."""
    nodes = [node(f"node-{number:04}", gpus=8) for number in range(2000)]
    file = tmp_path_factory.mktemp("large") / "report.html"
    file.write_text(report_page([*NOTHING, *nodes, pod("needle", 8, node_name="node-1999")]))
    with watched_page(browser, viewport={"width": 1440, "height": 900}) as (page, complaints):
        page.goto(file.as_uri())
        yield page
        assert complaints == []


@pytest.fixture
def large(large_page):
    """The page of 2,000 nodes at its top, without filters."""
    large_page.get_by_role("button", name="Clear", exact=True).click()
    large_page.evaluate("scrollTo(0, 0)")
    return large_page


MOST_ELEMENTS = 20_000


def count_elements(page):
    return page.evaluate("document.querySelectorAll('*').length")


def test_large_report_has_few_elements_wherever_it_is_read(large):
    height = large.evaluate("document.documentElement.scrollHeight")
    assert count_elements(large) < MOST_ELEMENTS / 4
    for part in (0.5, 1):
        large.evaluate(f"scrollTo(0, {height * part})")
        name = "node-1999" if part == 1 else "node-1000"
        expect(line_of(large, name)).to_be_attached()
        assert count_elements(large) < MOST_ELEMENTS / 4


def test_search_finds_the_last_of_many_nodes(large):
    large.keyboard.press("/")
    large.keyboard.type("needle")
    assert shown_nodes(large) == ["node-1999"]
    expect(large.locator("#nodes [data-count]")).to_have_text("1 of 2,000 shown")
    assert count_elements(large) < 300


COUNT_CHANGES = """async (text) => {
  const changes = [];
  const observer = new MutationObserver((found) => changes.push(...found));
  observer.observe(document.body, { attributes: true, childList: true, subtree: true });
  const search = document.querySelector("[data-filter=text]");
  search.value = text;
  search.dispatchEvent(new Event("input", { bubbles: true }));
  await null;
  return changes.length;
}"""


def test_letter_of_a_search_changes_few_elements(large):
    """Each change costs layout and paint; there were 16,000 for each letter once."""
    assert large.evaluate(COUNT_CHANGES, "n") < 500


def test_keyboard_reaches_lines_that_are_not_drawn_yet(large):
    line_of(large, "node-0000").locator("summary").focus()
    large.keyboard.press("End")
    expect(line_of(large, "node-1999").locator("summary")).to_be_focused()
    large.keyboard.press("ArrowUp")
    expect(line_of(large, "node-1998").locator("summary")).to_be_focused()


def test_print_has_all_lines_that_the_filters_keep(large):
    large.get_by_label("Search").fill("node-1")
    large.emulate_media(media="print")
    large.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert large.locator(".nodes > li").count() == 1000
    large.evaluate("window.dispatchEvent(new Event('afterprint'))")
    large.emulate_media(media="screen")
    assert large.locator(".nodes > li").count() < 500


def test_hostile_names_run_nothing(open_report):
    machine = node(HOSTILE, gpus=1, labels={"nvidia.com/gpu.product": HOSTILE})
    page = open_report([*NOTHING, machine, pod(HOSTILE, 1, node_name=HOSTILE, namespace=HOSTILE)])
    expect(page.locator("#nodes summary b")).to_have_text(HOSTILE)
    assert page.locator("img").count() == 0


def test_page_without_scripts_shows_lines_and_cards(open_report):
    page = open_report(java_script_enabled=False)
    expect(page.get_by_role("search")).to_be_hidden()
    assert len(shown_nodes(page)) == 5
    line_of(page, "h100-03").locator("summary").click()
    expect(line_of(page, "h100-03").locator(".gpu").first).to_be_visible()
