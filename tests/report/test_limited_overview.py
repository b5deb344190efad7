"""Nodes of a large cluster that a page has room for."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from policies.analyses.overview import limited_overview, overview, visible_overview
from policies.outcome import Audience
from policies.rules.settings import DEFAULTS
from tests.pages.shown_cluster import shown_objects
from webhook.cluster.manifests import ManifestsView
from webhook.pages.report import render_report_parts

VIEW = ManifestsView(shown_objects())


@pytest.fixture(scope="module")
def whole():
    return overview(VIEW, DEFAULTS, datetime(2026, 11, 28, tzinfo=UTC))


def names(found):
    return [node.name for node in found.nodes]


def test_small_cluster_is_shown_as_a_whole(whole):
    assert limited_overview(whole, 100) == whole


def test_nodes_with_problems_are_shown_first_and_in_their_order(whole):
    assert names(whole) == ["a100-mig", "h100-01", "h100-02", "h100-03", "t4-shared"]
    limited = limited_overview(whole, 8)
    assert names(limited) == ["h100-02", "h100-03"]
    assert limited.nodes_left_out == 3
    assert limited.usage is whole.usage


def test_nodes_of_the_namespace_are_shown_first(whole):
    limited = limited_overview(visible_overview(whole, VIEW, Audience("team-a")), 10)
    assert names(limited) == ["h100-01"]


def test_nodes_without_room_are_left_out(whole):
    limited = limited_overview(whole, 0)
    assert (limited.nodes, limited.nodes_left_out) == ((), 5)


def test_page_says_how_many_are_left_out(whole):
    nodes = render_report_parts(limited_overview(whole, 8))["nodes"]
    assert "<p>3 more nodes; the page has no room for all of them." in nodes
    assert "t4-shared" not in nodes
