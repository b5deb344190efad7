"""The page of a report: valid HTML that needs nothing else, and shows names as they are."""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime
from hashlib import sha256

import html5lib
import pytest

from policies.analyses.overview import overview, visible_overview
from policies.analyses.usage.node_gpus import UnusableKind
from policies.analyses.wait_reasons import WaitReason
from policies.outcome import Audience
from policies.rules.settings import DEFAULTS
from tests.pages.shown_cluster import earlier_objects, namespace, quota, shown_objects
from tests.usage.usage_objects import NOTHING, claim, devices, node, pod, resource_slice
from webhook.cluster.manifests import ManifestsView
from webhook.pages.report import _REASON_WORDS, PARTS, _reason_details, render_report_parts

NOW = datetime(2027, 1, 1, tzinfo=UTC)
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


def tiles(page):
    """The tiles by their words, with number, class, and details."""
    (nav,) = (each for each in parse(page).iter("nav") if each.get("class") == "tiles")
    return {
        " ".join(link[0].tail.split()): (text_of(link[0]), link.get("class")[5:], text_of(link[1]))
        for link in nav.iter("a")
    }


def test_tiles_say_what_waits_what_is_free_and_what_is_broken(report_page):
    assert tiles(report_page()) == {
        "pod waits for GPUs": ("1", "warn", "fits now (1)"),
        "GPUs free": ("4", "", "2 MIG devices, 6 shares"),
        "GPUs unusable": ("2", "bad", "1 GPU given out twice"),
        "of 5 nodes ready": ("5", "warn", "1 cordoned"),
        "namespace over quota": ("1", "bad", "2 with a quota"),
        "finding": ("1", "bad", "1 deny"),
    }


def test_tile_tells_held_gpus_that_no_node_shows_from_those_given_out_twice(report_page):
    objects = [*NOTHING, node(), resource_slice(devices(1)), claim("gpu-9")]
    assert tiles(report_page(objects))["GPUs unusable"] == ("0", "bad", "1 GPU held that no node shows")


def test_tile_names_up_to_three_reasons_and_counts_the_others():
    reasons = [WaitReason.IN_USE, WaitReason.NO_NODE, WaitReason.MISSING, WaitReason.QUOTA]
    first, second = "fitting nodes in use (4)", "no node fits (3)"
    counts = dict(zip(reasons, (4, 3, 2, 1), strict=True))
    assert [*_reason_details(counts)] == [first, second, "other reasons (3)"]
    del counts[WaitReason.QUOTA]
    assert [*_reason_details(counts)] == [first, second, "something is missing (2)"]


def test_tiles_are_quiet_without_trouble(report_page):
    quiet = tiles(report_page([*NOTHING, node(gpus=2), pod("train", 1), quota("team-a", 2)]))
    assert {tone for _, tone, _ in quiet.values()} == {""}


def test_tiles_of_a_member_count_what_the_member_may_see(overview_of):
    view = ManifestsView(shown_objects())
    seen = visible_overview(overview_of(shown_objects()), view, Audience("team-c", sees_nodes=False))
    found = tiles(f"<!doctype html><title>x</title>{render_report_parts(seen)['tiles']}")
    assert found["pods wait for GPUs"] == ("0", "", "")
    assert found["nodes with GPUs"] == ("5", "", "you may not list nodes")
    assert found["namespaces over quota"] == ("0", "", "0 with a quota")


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


def test_hostile_names_stay_in_their_templates(report_page):
    """Lines of nodes beyond the first hundred are in templates, which end at the first end tag that was not escaped."""
    ends = "</template></li><script>alert(3)</script>"
    nodes = [node(f"{ends}{number:03}", gpus=1, labels={"nvidia.com/gpu.clique": ends}) for number in range(120)]
    tree = parse(report_page([*NOTHING, *nodes, pod(ends, 1, node_name=f"{ends}119", namespace=ends)]))
    (more,) = tree.iter("template")
    assert [each.tag for each in tree.iter() if each.tag in ("img", "script")] == ["script"]
    assert f"{ends}119 1 of 1 GPUs held {ends}/{ends}" in text_of(more)


def test_quotas_show_what_changed(tree):
    (row,) = (each for each in part(tree, "quotas").iter("tr") if text_of(each).startswith("team-a"))
    assert text_of(row) == "team-a all 4 0 0 4 GPUs +1 within"


def test_quotas_without_an_earlier_cluster_show_no_change(report_page):
    tree = parse(report_page())
    assert "Change" not in text_of(part(tree, "quotas"))


def test_stored_quota_that_was_not_counted_says_so_as_the_command_does(report_page):
    stored = quota("team-a", 2)
    stored["metadata"]["uid"] = "u1"
    rows = part(parse(report_page([*NOTHING, namespace("team-a"), stored])), "quotas").iter("tr")
    assert text_of([*rows][1]) == "team-a all 0 0 2 2 GPUs uncounted"


def test_quota_over_its_limit_says_so(tree):
    (row,) = (each for each in part(tree, "quotas").iter("tr") if text_of(each).startswith("team-b"))
    assert text_of(row).endswith("over")


def lines_of(tree):
    """The text of each node's line, and of its card, by the name of the node."""
    found = (each for each in tree.iter("li") if each.get("data-name"))
    return {each.get("data-name"): [text_of(half) for half in each.find("details")] for each in found}


def test_quota_that_cannot_be_read_says_what_to_change(report_page):
    page = parse(report_page([*shown_objects(), quota("team-c", -3)]))
    texts = [text_of(row) for row in part(page, "quotas").iter("tr")]
    assert "team-c invalid Write 0 or more: gpus is -3; spec.limits[0].gpus" in texts


def test_node_is_one_line_of_text(tree):
    lines = {name: line for name, (line, _) in lines_of(tree).items()}
    assert lines == {
        "a100-mig": "a100-mig 1 of 3 MIG devices held, 2 free team-b/notebook",
        "h100-01": "h100-01 4 of 8 GPUs held, 4 free team-a/train-0 x3 and team-b/chat",
        "h100-02": "h100-02 2 of 4 GPUs held, 2 unusable cordoned team-c/old x2",
        "h100-03": "h100-03 1 of 1 GPUs held given out twice team-b/first and team-c/second",
        "t4-shared": "t4-shared 2 of 8 shares (2 GPUs x 4) held, 6 free team-c/web-1 and team-c/web-2",
    }


def test_picture_of_a_node_has_one_path_for_each_state(tree):
    (line,) = (each for each in tree.iter("li") if each.get("data-name") == "h100-01")
    paths = [(each.get("class"), each.get("d").count("M")) for each in line.find("details/summary")[1]]
    assert paths == [("claim", 4), ("free", 4)]


def test_gpu_given_out_twice_is_one_square(report_page):
    claims = [claim("gpu-0"), claim("gpu-0", name="b", pods=("other",))]
    tree = parse(report_page([*NOTHING, node(), resource_slice(devices(1)), *claims]))
    (line,) = (each for each in tree.iter("li") if each.get("data-name") == "node-1")
    picture = line.find("details/summary")[1]
    assert (picture.get("width"), picture[0].get("class")) == ("12", "over")


def test_card_shows_gpus_and_their_holders(tree):
    cards = {name: card for name, (_, card) in lines_of(tree).items()}
    assert cards["h100-01"] == (
        "gpu-0 and gpu-1 team-a/train-0 claim gpu-2 team-a/train-0 claim gpu-3 and gpu-4 free gpu-5 team-b/chat claim "
        "gpu-6 and gpu-7 free"
    )
    assert "3g.40gb team-b/notebook claim 2g.20gb free 1g.10gb free" in cards["a100-mig"]
    assert cards["t4-shared"].startswith("GPU team-c/web-1 device plugin team-c/web-2 device plugin")
    assert cards["h100-02"] == "The node is cordoned. 2 GPUs team-c/old device plugin 2 GPUs cordoned"
    assert "given out twice team-c/second device plugin" in cards["h100-03"]


def test_node_with_too_many_devices_to_draw_is_filtered_by_its_numbers(report_page):
    tree = parse(report_page([*NOTHING, node(gpus=1000), pod(gpus=400)]))
    ((line, card),) = lines_of(tree).values()
    assert (line, card) == ("node-1 400 of 1,000 GPUs held, 600 free team-a/train x400", "Too many devices to draw.")
    (facets,) = (each.get("data-cells") for each in tree.iter("li") if each.get("data-name"))
    assert facets == "held NVIDIA-H100-80GB-HBM3 team-a , free NVIDIA-H100-80GB-HBM3"


def test_legend_explains_what_is_drawn(report_page):
    nodes = part(parse(report_page([*NOTHING, node(gpus=2), pod()])), "nodes")
    assert [text_of(each) for each in nodes.find("ul[@class='legend']")] == ["held through the device plugin", "free"]


def test_trays_of_a_clique_are_together(report_page):
    """Each tray is a node; the label of its clique names the domain of NVLink."""
    trays = [
        node(
            f"tray-{number}",
            gpus=4,
            labels={"nvidia.com/gpu.product": "NVIDIA-GB200", "nvidia.com/gpu.clique": f"d{number % 2}.0"},
        )
        for number in range(4)
    ]
    tree = parse(report_page([*NOTHING, *trays, node("single", gpus=4)]))
    groups = [
        (text_of(each.find("h3")), [line.get("data-name") for line in each.find("ul")])
        for each in tree.iter("div")
        if each.get("data-title")
    ]
    assert groups == [
        ("NVIDIA-GB200, NVLink clique d0.0, 2 nodes", ["tray-0", "tray-2"]),
        ("NVIDIA-GB200, NVLink clique d1.0, 2 nodes", ["tray-1", "tray-3"]),
        ("NVIDIA-H100-80GB-HBM3, 1 node", ["single"]),
    ]


def test_lines_beyond_the_first_hundred_wait_in_a_template(report_page):
    tree = parse(report_page([*NOTHING, *(node(f"node-{number:03}", gpus=1) for number in range(360))]))
    (more, rest) = (each for each in tree.iter("template"))
    assert len(part(tree, "nodes").findall(".//li[@data-name]")) == 100
    assert len([*more.iter("li")]) > 250
    assert [each.get("data-name") for each in rest.iter("li") if each.get("data-name")][-1] == "node-359"
    assert "260 more nodes; a browser with scripts shows all of them." in text_of(part(tree, "nodes"))


def test_live_page_gets_the_lines_in_parts_that_change_alone(overview_of):
    objects = [*NOTHING, *(node(f"node-{number:03}", gpus=1) for number in range(600)), pod(node_name="node-000")]
    before = render_report_parts(overview_of(objects))
    after = render_report_parts(overview_of([*objects, pod("new", 1, node_name="node-360")]))
    parts = [name for name in after if name.startswith("nodes")]
    assert parts == ["nodes", "nodes-1", "nodes-2"]
    assert [name for name in parts if after[name] != before[name]] == ["nodes-2"]


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
    (line,) = re.findall(r'data-name="h100-01"(.*?)</ul>\n', plain(render_report_parts(seen)["nodes"]), re.DOTALL)
    assert "another namespace" in line
    assert 'class="claim"' in line
    assert 'class="held"' not in line


def test_reader_who_does_not_see_nodes_gets_one_reason_for_all_that_is_unusable(overview_of):
    objects = [*NOTHING, node("a", gpus=2, unschedulable=True), node("b", gpus=3)]
    objects[-1]["spec"]["taints"] = [{"key": "x", "effect": "NoSchedule"}]
    audience = Audience("team-a", sees_nodes=False)
    summary = render_report_parts(visible_overview(overview_of(objects), ManifestsView(objects), audience))["summary"]
    assert summary.count("no pod can get it now") == 1
    assert "<div>5: no pod can get it now</div>" in summary


def test_page_of_a_file_begins_with_what_waits_and_has_no_buttons_for_it(report_page):
    tree = parse(report_page([*NOTHING, node("node-1", gpus=2), pod("train", 4, node_name="")]))
    assert text_of(part(tree, "waiting")).startswith("Waiting for GPUs 1 pod waits no node fits (1) The highest")
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
    assert "node-1 2 of 4 GPUs held, 2 free unhealthy GPU team-a/sick and team-a/stuck" in nodes
    assert "unhealthy: the kubelet reports it as unhealthy" in nodes


def test_rounded_amounts_have_their_exact_value_as_a_tooltip():
    labels = {"nvidia.com/gpu.product": "Tesla-T4-SHARED", "nvidia.com/gpu.replicas": "4"}
    view = ManifestsView([*NOTHING, node(gpus=8, labels=labels), pod(gpus=1)])
    assert '<span title="exactly 0.25">0.2</span>' in render_report_parts(overview(view, DEFAULTS, NOW))["summary"]
