"""The three questions, who waits, what is broken and what is free, answered by the keyboard alone."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.usage.usage_objects import NOTHING, node, pod

MOST_TABS = 60
FOCUSED = "document.activeElement.textContent.replace(/\\s+/g, ' ').trim()"


@pytest.fixture
def page(new_page, report_page, tmp_path):
    objects = [
        *NOTHING,
        node("busy", gpus=2),
        pod("running", 2, node_name="busy"),
        node("idle", gpus=2),
        node("lost", gpus=4, taints=[{"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}]),
        pod("big", 16, node_name=""),
    ]
    file = tmp_path / "report.html"
    file.write_text(report_page(objects))
    page = new_page()
    page.goto(file.as_uri())
    return page


def tab_to(page, text):
    """Press Tab until the focus is on something with the text."""
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        if text in page.evaluate(FOCUSED):
            return
    pytest.fail(f"{text} is not reached by Tab")


def visible_nodes(page):
    return [line.get_attribute("data-name") for line in page.locator(".nodes > li").all() if line.is_visible()]


def test_who_waits_and_why(page):
    tab_to(page, "pod waits for GPUs")
    page.keyboard.press("Enter")
    tab_to(page, "no node fits")
    page.keyboard.press("Enter")
    row = page.locator("#waiting tbody tr")
    expect(row).to_have_count(1)
    expect(row).to_be_in_viewport()
    expect(row).to_contain_text("team-a/big")
    expect(row).to_contain_text("16 nvidia.com/gpu requested")


def test_what_is_broken_and_why(page):
    tab_to(page, "2 of 3 nodes ready")
    page.keyboard.press("Enter")
    assert visible_nodes(page) == ["lost"]
    tab_to(page, "lost")
    page.keyboard.press("Enter")
    expect(page.locator(".node-card")).to_contain_text("The node is unreachable")
    page.keyboard.press("Escape")
    expect(page.locator(".node-card")).to_be_hidden()


def test_what_is_free(page):
    tab_to(page, "2 GPUs free")
    page.keyboard.press("Enter")
    assert visible_nodes(page) == ["idle"]
    tab_to(page, "idle")
    expect(page.locator("summary:focus")).to_contain_text("0 of 2 GPUs held, 2 free")
