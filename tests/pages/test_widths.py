"""Pages on phones, tablets and wide screens: nothing is wider than the screen, and the pages stay accessible."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from testbed.commands import run_command
from tests.pages.shown_cluster import quota, shown_objects
from tests.pages.test_explanation_in_a_browser import shown_explanation
from tests.pages.test_selectors_page import everything
from tests.usage.usage_objects import node, pod
from webhook.cli.explain.selector_analyses import render_analyses
from webhook.pages.explanation import render_explanations

EXAMPLES = Path(__file__).parents[2] / "examples"
WIDTHS = (390, 1024, 1440)
LONG = "speech-and-audio-research-europe-2026-long-namespace-name"


def long_objects(nodes):
    """The shown cluster, and nodes until there are so many; namespaces, nodes and pods have long names."""
    added = []
    for number in range(nodes - 5):
        name = f"gke-ml-h100-pool-{number:04}.gpu.dc-frankfurt.example.internal"
        added += [
            node(name, gpus=8, unschedulable=number % 5 == 0),
            pod(f"llama4-405b-pretrain-launcher-{number}", 7, node_name=name, namespace=LONG),
            pod(f"blender-frame-pending-{number}", 9, node_name="", namespace=LONG, cpu=str(number + 1)),
        ]
    return [*shown_objects(), quota(LONG, 4), *added]


def cutover_page():
    cluster = [
        f"--cluster={EXAMPLES / name}" for name in ("cluster", "cluster-with-operator", "cutover/workloads.yaml")
    ]
    return run_command("cutover", *cluster, "-o", "html", cwd=EXAMPLES, environment=dict(os.environ)).stdout


@pytest.fixture
def pages(report_page):
    """The pages by name."""
    return {
        "report of 5 nodes": lambda: report_page(shown_objects()),
        "report of 30 nodes": lambda: report_page(long_objects(30)),
        "explanation": lambda: render_explanations([shown_explanation()]),
        "selectors": lambda: render_analyses([everything()]),
        "cutover": cutover_page,
    }


@pytest.fixture
def open_page(new_page, pages, tmp_path):
    def open_page(name, width):
        file = tmp_path / "page.html"
        file.write_text(pages[name]())
        page = new_page(viewport={"width": width, "height": 844})
        page.goto(file.as_uri())
        page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        return page

    return open_page


SMALL = ("report of 5 nodes", "explanation", "selectors", "cutover")


@pytest.mark.parametrize("name", [*SMALL, "report of 30 nodes"])
def test_nothing_is_wider_than_the_screen(open_page, name):
    page = open_page(name, 1440)
    found = {}
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 844})
        found[width] = page.evaluate("document.documentElement.scrollWidth")
    assert found == {width: width for width in WIDTHS}


@pytest.mark.parametrize("name", SMALL)
def test_pages_are_accessible_on_phones(open_page, name):
    found = Axe().run(open_page(name, 390)).response
    assert [(each["id"], [one["html"] for one in each["nodes"]]) for each in found["violations"]] == []


def test_cells_have_the_titles_of_their_columns_on_phones(open_page):
    page = open_page("report of 5 nodes", 390)
    cell = page.locator("#quotas td[data-title=Limit]").first
    expect(cell).to_be_visible()
    assert cell.evaluate("cell => getComputedStyle(cell, '::before').content") == '"Limit"'
    expect(page.locator("#quotas thead")).to_be_hidden()


def test_cells_of_tables_have_titles(open_page):
    """Cells that span columns, and those of truth tables, need none."""
    for name in SMALL:
        cells = open_page(name, 1440).locator(
            "section:not(#nodes) table:not(.matrix) tbody td:not([data-title], [colspan], :empty)"
        )
        assert cells.evaluate_all("cells => cells.map((cell) => cell.outerHTML)") == []
