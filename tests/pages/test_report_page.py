"""The page of a report: valid HTML that needs nothing else, and shows names as they are."""

from __future__ import annotations

import base64
import re
from hashlib import sha256

import html5lib
import pytest

from policies.analyses.overview import visible_overview
from policies.analyses.usage.node_gpus import UnusableKind
from policies.outcome import Audience
from tests.pages.shown_cluster import earlier_objects, namespace, quota, shown_objects
from tests.usage.usage_objects import NOTHING, node, pod
from webhook.cluster.manifests import ManifestsView
from webhook.pages.report import _REASON_WORDS, PARTS, render_report_parts

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<img src=x onerror=alert(1)>\"'{{7*7}}</script><script>alert(2)</script>"


def parse(page):
    """The page as a tree; raises if it is not valid."""
    return html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(page)


def text_of(element):
    """The text, with a blank between elements; places where a name may break are no elements."""
    return " ".join(re.sub(r" *\0", "", " ".join(_texts(element))).split())


def _texts(element):
    yield element.text or ""
    for child in element:
        yield from _texts(child)
        yield ("\0" if child.tag == "wbr" else "") + (child.tail or "")


def plain(html):
    """HTML with whole names."""
    return html.replace("<wbr>", "")


def part(tree, name):
    (found,) = (each for each in tree.iter("section") if each.get("id") == name)
    return found


@pytest.fixture(scope="module")
def tree(report_page):
    return parse(report_page(before=earlier_objects()))


def test_parts_are_in_their_order(tree):
    assert [each.get("id") for each in tree.iter("section")] == [*PARTS]


@pytest.mark.parametrize("objects", [[], list(NOTHING), [node(gpus=1)]], ids=["unknown", "none", "no pods known"])
def test_page_of_a_small_cluster_is_valid(report_page, objects):
    assert text_of(part(parse(report_page(objects)), "summary")).startswith("GPUs ")


def test_page_allows_its_own_style_and_script_only(report_page):
    page = report_page()
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    inside = {
        f"{kind}-src 'sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}'"
        for kind, text in [
            ("style", *re.findall(r"<style>(.*?)</style>", page, re.DOTALL)),
            ("script", *re.findall(r"<script>(.*?)</script>", page, re.DOTALL)),
        ]
    }
    assert {*policy.replace("&#39;", "'").split("; ")} == {
        "default-src 'none'",
        *inside,
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    }


def test_page_names_no_address(tree):
    links = {each.get(name) for each in tree.iter() for name in ("href", "src", "action") if each.get(name)}
    places = {link.partition("?")[0] for link in links}
    assert places == {"#main", "#waiting", "#nodes", "#quotas", "#migration", "#findings", "data:,"}


def test_every_picture_has_words(tree):
    pictures = [*tree.iter(f"{SVG}svg")]
    assert pictures
    for picture in pictures:
        assert picture.get("aria-hidden") == "true" or picture.get("aria-label")


def test_hostile_names_are_shown_as_they_are(report_page):
    machine = node(
        HOSTILE, gpus=1, labels={"nvidia.com/gpu.product": HOSTILE}, taints=[{"key": HOSTILE, "effect": "NoSchedule"}]
    )
    bad = {**quota(HOSTILE, 1), "spec": {"limits": [{"name": HOSTILE, "gpus": HOSTILE}]}}
    objects = [*NOTHING, namespace(HOSTILE), machine, pod(HOSTILE, 1, node_name=HOSTILE, namespace=HOSTILE), bad]
    page = report_page([*objects, quota(HOSTILE, 1)])
    tree = parse(page)
    assert [each.tag for each in tree.iter() if each.tag in ("img", "script")] == ["script"]
    assert HOSTILE in text_of(part(tree, "nodes"))
    assert HOSTILE in text_of(part(tree, "quotas"))
    assert "49" not in text_of(part(tree, "nodes"))


def test_quotas_show_what_changed(tree):
    (row,) = (each for each in part(tree, "quotas").iter("tr") if text_of(each).startswith("team-a"))
    assert text_of(row) == "team-a all 4 GPUs 0 GPUs 4 GPUs 0 GPUs +1 GPU within"


def test_quotas_without_an_earlier_cluster_show_no_change(report_page):
    tree = parse(report_page())
    assert "Change" not in text_of(part(tree, "quotas"))


def test_quota_over_its_limit_says_so(tree):
    (row,) = (each for each in part(tree, "quotas").iter("tr") if text_of(each).startswith("team-b"))
    assert text_of(row).endswith("over")


def test_gpus_show_their_holders(tree):
    cards = {each.get("data-group"): text_of(each) for each in part(tree, "nodes").iter("li") if each.get("data-group")}
    assert "gpu-5 team-b/chat claim" in cards["h100-01"]
    assert "3g.40gb team-b/notebook claim 2g.20gb free 1g.10gb free" in cards["a100-mig"]
    assert "GPU team-c/web-1 device plugin team-c/web-2 device plugin" in cards["t4-shared"]
    assert "the node is cordoned" in cards["h100-02"]
    assert cards["h100-02"].count("GPU cordoned") == 2
    assert "given out twice team-c/second device plugin" in cards["h100-03"]


def test_every_reason_has_words():
    assert _REASON_WORDS.keys() == {*UnusableKind}


def test_findings_say_what_to_do(tree):
    found = text_of(part(tree, "findings"))
    assert "Pod team-a/escaped" in found
    assert "What to do:" in found


def test_reader_of_a_namespace_sees_no_other_names(overview_of):
    seen = visible_overview(
        overview_of(shown_objects()), ManifestsView(shown_objects()), Audience("team-a", sees_nodes=False)
    )
    text = plain(" ".join(render_report_parts(seen).values()))
    assert "train-0" in text
    for name in ("team-b", "team-c", "chat", "notebook", "web-1", "h100-01", "a100-mig", "t4-shared"):
        assert name not in text


def test_reader_who_may_list_nodes_sees_them_without_foreign_holders(overview_of):
    seen = visible_overview(overview_of(shown_objects()), ManifestsView(shown_objects()), Audience("team-a"))
    parts = {name: plain(html) for name, html in render_report_parts(seen).items()}
    assert "another namespace" in parts["nodes"]
    assert "h100-01" in parts["nodes"]
    for name in ("team-b", "team-c", "chat", "notebook", "web-1"):
        assert name not in " ".join(parts.values())


def test_texts_of_any_type_have_no_characters_that_cannot_be_printed(report_page):
    """A kind of devices is shown as a text, but is none itself."""
    odd = "Tesla\x1b[31m\x00\u202e\ud800T4"
    page = report_page([*NOTHING, node("node-1", gpus=1, labels={"nvidia.com/gpu.product": odd})])
    assert "Tesla [31m   T4" in page
    assert not {"\x1b", "\x00", "\u202e", "\ud800"} & {*page}


def test_nodes_that_cannot_be_read_are_not_said_to_have_no_gpus(report_page):
    nodes = part(parse(report_page([namespace("team-a")])), "nodes")
    assert "No node with GPUs can be seen." in text_of(nodes)
    assert "No node has GPUs." in report_page(NOTHING)


def test_hidden_claims_are_drawn_as_claims(overview_of):
    seen = visible_overview(overview_of(shown_objects()), ManifestsView(shown_objects()), Audience("team-a"))
    (card,) = re.findall(
        r'data-group="h100-01">(.*?)</ul>\n</li>', plain(render_report_parts(seen)["nodes"]), re.DOTALL
    )
    assert "another namespace" in card
    assert 'class="claim"' in card
    assert 'class="held"' not in card


def test_reader_who_does_not_see_nodes_gets_one_reason_for_all_that_is_unusable(overview_of):
    objects = [*NOTHING, node("a", gpus=2, unschedulable=True), node("b", gpus=3)]
    objects[-1]["spec"]["taints"] = [{"key": "x", "effect": "NoSchedule"}]
    audience = Audience("team-a", sees_nodes=False)
    summary = render_report_parts(visible_overview(overview_of(objects), ManifestsView(objects), audience))["summary"]
    assert summary.count("no pod can get it now") == 1
    assert "<div>5: no pod can get it now</div>" in summary


def test_page_of_a_file_begins_with_what_waits_and_has_no_buttons_for_it(report_page):
    tree = parse(report_page([*NOTHING, node("node-1", gpus=2), pod("train", 4, node_name="")]))
    assert text_of(part(tree, "waiting")).startswith("Waiting for GPUs 1 pod waits 1 no node fits The highest")
    assert {each.get("hidden") is not None for each in part(tree, "waiting").iter("button")} == {True}


def test_pods_that_do_not_run_and_unhealthy_gpus_are_shown(report_page):
    unhealthy = [{"name": "nvidia.com/gpu", "resources": [{"resourceID": "GPU-1", "health": "Unhealthy"}]}]
    error = 'failed to get sandbox runtime: no runtime for "nvidia" is configured'
    waiting = {"waiting": {"reason": "CreateContainerError", "message": error}}
    objects = [
        *NOTHING,
        node("node-1", gpus=4),
        pod(
            "sick",
            1,
            status={"phase": "Running", "containerStatuses": [{"name": "main", "allocatedResourcesStatus": unhealthy}]},
        ),
        pod("stuck", 1, status={"phase": "Pending", "containerStatuses": [{"name": "main", "state": waiting}]}),
    ]
    tree = parse(report_page(objects))
    waiting, summary, nodes = (text_of(part(tree, name)) for name in ("waiting", "summary", "nodes"))
    assert "team-a/stuck" in waiting
    assert "does not know the handler of the pod's runtime class" in waiting
    assert "4 GPUs: 2 held (1 of them unhealthy), 2 free" in summary
    assert "1 held, unhealthy" in nodes
    assert "unhealthy: the kubelet reports it as unhealthy" in nodes
