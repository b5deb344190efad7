"""Explanations as a page, a part and a picture: valid, complete in words, and names shown as they are."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import html5lib
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.analyses.explain import Change, Explanation, Suggestion
from policies.analyses.explain.explanations import ReviewWarning
from policies.outcome import (
    DeviceOutcome,
    Feasibility,
    NodeGroup,
    Obstacle,
    ObstacleKind,
    OutcomeState,
    Reason,
    ReasonKind,
)
from tests.pages.test_report_page import HOSTILE, SVG, parse, text_of
from webhook.pages.explanation import render_explanation, render_explanations
from webhook.pages.explanation_picture import draw_explanations


def outcome(state, devices=("gpu-0",), count=None, claim="gpus", request="gpu", **why):
    return DeviceOutcome(claim, request, OutcomeState(state), count or len(devices), tuple(devices), **why)


def held(holder="team-b/run", devices=("gpu-0",)):
    return outcome("in use", devices, reason="in use", sentence=f"is in use by {holder}", holders=(holder,))


def unsuitable(devices, sentence="has 40Gi of memory, 80Gi requested"):
    return outcome("unsuitable", devices, reason="request selector", sentence=sentence)


def group(*outcomes, nodes=("node-1",), count=None, fits=False, if_empty=False, sentence="too few devices"):
    reason = None if fits else Reason(ReasonKind.DEVICES, sentence, ("a detail",))
    devices = ("gpu: gpu-0",) if fits else ()
    return NodeGroup(count or len(nodes), tuple(nodes), fits, if_empty, reason, devices, outcomes)


def explanation(*groups, label="pod team-a/train", **facts):
    """An explanation of a pod that fits nowhere now."""
    return Explanation(label, Feasibility.FULL, "fits nowhere now", nodes=9, groups=groups, **facts)


def part_of(found):
    (section,) = parse(f"<!doctype html><title>x</title>{render_explanation(found)}").iter("section")
    return section


def lists_of(section, name):
    return [each for each in section.iter() if name in (each.get("class") or "").split()]


def picture_of(*found):
    return ET.fromstring(draw_explanations(found))


def test_page_is_valid_and_names_the_explanations():
    tree = parse(render_explanations([explanation(label="pod a/one"), explanation(label="pod a/two")]))
    assert [text_of(each) for each in tree.iter("h2")] == ["pod a/one full", "pod a/two full"]
    assert [each.get("href") for each in tree.iter("a")] == ["#main", "#explanation-1", "#explanation-2"]


def test_nodes_are_columns_that_say_whether_they_fit():
    columns = lists_of(
        part_of(
            explanation(
                group(fits=True, if_empty=True, nodes=("node-1", "node-2")),
                group(if_empty=True, nodes=("node-3",), count=7),
                group(nodes=(), count=2),
            )
        ),
        "card",
    )
    assert [text_of(column) for column in columns] == [
        "node-1 fits and node-2 It would get gpu: gpu-0.",
        "node-3 would fit if nothing were in use and 6 more Too few devices. a detail.",
        "2 nodes does not fit Too few devices. a detail.",
    ]


def test_devices_are_cells_in_the_order_of_their_numbers():
    section = part_of(
        explanation(group(outcome("usable", ("gpu-10",)), outcome("chosen", ("gpu-2",)), held(), fits=True))
    )
    assert [text_of(cell) for cell in lists_of(section, "cell")] == [
        "■ gpu-0 in use by team-b/run",
        "✓ gpu-2 would be allocated",
        "○ gpu-10 could be allocated",
    ]


def test_cells_are_counted_for_screen_readers():
    section = part_of(explanation(group(unsuitable(("gpu-0", "gpu-1")), outcome("usable", ("gpu-2",)))))
    (cells,) = lists_of(section, "cells")
    assert cells.get("aria-label") == "Devices of node-1: 1 could be allocated, 2 unsuitable"


def test_reason_of_all_unsuitable_cells_is_not_repeated():
    one = explanation(group(unsuitable(("gpu-0", "gpu-1"))))
    two = explanation(group(unsuitable(("gpu-0",)), unsuitable(("gpu-1",), "is tainted")))
    assert [text_of(cell) for cell in lists_of(part_of(one), "cell")] == ["✕ gpu-0 unsuitable", "✕ gpu-1 unsuitable"]
    assert [text_of(cell) for cell in lists_of(part_of(two), "cell")] == [
        "✕ gpu-0 has 40Gi of memory, 80Gi requested",
        "✕ gpu-1 tainted",
    ]


def test_device_has_the_best_state_of_all_requests():
    section = part_of(
        explanation(group(unsuitable(("gpu-0",)), outcome("chosen", ("gpu-0",), request="other"), fits=True))
    )
    assert [text_of(cell) for cell in lists_of(section, "cell")] == ["✓ gpu-0 would be allocated"]


def test_devices_of_a_device_plugin_are_cells_without_names():
    plugin = {"claim": "", "request": "nvidia.com/gpu"}
    section = part_of(
        explanation(
            group(
                outcome("in use", (), 2, **plugin, reason="in use", sentence="is in use by a/b", holders=("a/b",)),
                outcome("usable", (), 1, **plugin),
            )
        )
    )
    assert [text_of(cell) for cell in lists_of(section, "cell")] == [
        "■ in use by a/b",
        "■ in use by a/b",
        "○ could be allocated",
    ]


def test_table_says_what_the_cells_show():
    section = part_of(explanation(group(held(devices=("gpu-0", "gpu-1", "gpu-2")), outcome("usable", ("gpu-3",)))))
    (table, _) = section.iter("table")
    assert [text_of(row) for row in table.iter("tr")] == [
        "Devices Request State Why",
        "gpu-0..gpu-2 gpu of claim gpus in use are in use by team-b/run",
        "gpu-3 gpu of claim gpus could be allocated could be allocated",
    ]


def test_table_names_the_request_where_there_are_several():
    section = part_of(explanation(group(held(), outcome("usable", request="other"))))
    (table, _) = section.iter("table")
    assert [text_of(row[-1]) for row in table.iter("tr")][1:] == [
        "is in use by team-b/run (request gpu of claim gpus)",
        "could be allocated (request other of claim gpus)",
    ]


def test_pods_in_the_way_are_in_a_table():
    section = part_of(explanation(group(held(), held("team-c/other", ("gpu-1", "gpu-2")))))
    assert [text_of(row) for row in [*section.iter("table")][-1].iter("tr")] == [
        "Held by Devices Node",
        "team-b/run gpu-0 node-1",
        "team-c/other gpu-1 and gpu-2 node-1",
    ]


def test_nodes_that_fit_have_no_pods_in_the_way():
    assert "Pods and claims that hold devices" not in text_of(part_of(explanation(group(held(), fits=True))))


def test_many_devices_and_groups_are_counted():
    many = outcome("usable", [f"gpu-{number}" for number in range(48)], 500)
    section = part_of(explanation(group(many), groups_left_out=3, nodes_left_out=40))
    assert len(lists_of(section, "cell")) == 48
    assert "and 452 more" in text_of(section)
    assert "and 3 more groups with 40 nodes" in text_of(section)


def test_obstacles_warnings_suggestions_and_notes_are_sentences():
    found = Explanation(
        "pod team-a/train",
        Feasibility.BLOCKED,
        "review refuses it",
        obstacles=(Obstacle(ObstacleKind.REFUSED, "a request is wrong", "correct it", "GA301"),),
        warnings=(ReviewWarning("GA404", "spec", "is odd", "change it", "allow it", "Change it: spec is odd; spec"),),
        suggestions=(Suggestion(Change.COUNT, "request less", "gpus", "gpu", 2),),
        converted_to="gpu-1",
    )
    text = text_of(part_of(found))
    for sentence in (
        "It is refused: a request is wrong [GA301] What would help: correct it.",
        "Warning: Change it: spec is odd; spec [GA404]",
        "Or request less; then it fits on 2 nodes",
        "Note: conversion creates ResourceClaimTemplate gpu-1 for the GPUs of the pod.",
    ):
        assert sentence in text


def hostile_explanation(text):
    """Every text of an explanation is this one."""
    return Explanation(
        text,
        Feasibility.FULL,
        text,
        obstacles=(Obstacle(ObstacleKind.REFUSED, text, text, text),),
        nodes=1,
        groups=(
            NodeGroup(
                2,
                (text, text),
                fits=False,
                fits_if_empty=False,
                reason=Reason(ReasonKind.DEVICES, text, (text,)),
                devices=(text,),
                outcomes=(
                    DeviceOutcome(text, text, OutcomeState.IN_USE, 2, (text,), text, text, (text,)),
                    DeviceOutcome("", text, OutcomeState.UNSUITABLE, 2, (), text, text, ()),
                ),
            ),
        ),
        suggestions=(Suggestion(Change.COUNT, text, text, text, 1),),
        converted_to=text,
        warnings=(ReviewWarning(text, text, text, text, text, text),),
        remarks=(text,),
    )


TEXTS = st.text(min_size=1, max_size=30) | st.text(alphabet="<>&\"'{}\x00\x1b\u202e\ud800 a", min_size=1, max_size=30)


@given(text=TEXTS)
def test_any_text_leaves_page_and_picture_valid(text):
    found = hostile_explanation(text)
    parse(render_explanations([found]))
    picture_of(found)


def test_hostile_names_are_shown_as_they_are():
    found = hostile_explanation(HOSTILE)
    tree = parse(render_explanations([found]))
    assert [each.tag for each in tree.iter() if each.tag in ("img", "script")] == ["script"]
    assert HOSTILE in text_of(next(tree.iter("h4")))
    assert {each.tag for each in picture_of(found).iter()} == {
        SVG + name for name in ("svg", "title", "desc", "style", "text", "rect")
    }


def test_picture_says_in_words_what_it_shows():
    picture = picture_of(explanation(group(held(), outcome("usable", ("gpu-1",)), if_empty=True)))
    assert picture.find(f"{SVG}title").text == "Where it fits: pod team-a/train"
    assert picture.find(f"{SVG}desc").text == (
        "pod team-a/train: full. Fits nowhere now. node-1: would fit if nothing were in use; 1 could be allocated, 1 in use."
    )


def test_picture_has_a_cell_with_a_title_for_each_device():
    picture = picture_of(explanation(group(held(), outcome("usable", ("gpu-1",)))))
    titles = [each.find(f"{SVG}title").text for each in picture.iter(f"{SVG}rect") if len(each)]
    assert titles == ["gpu-0: in use by team-b/run", "gpu-1: could be allocated"]


def test_picture_of_eight_columns_stays_within_its_width():
    groups = [group(held("x" * 200, [f"{number}-{'y' * 100}"]), nodes=("z" * 300,)) for number in range(8)]
    picture = picture_of(explanation(*groups))
    width = int(picture.get("width"))
    assert all(int(each.get("x")) + int(each.get("width")) <= width for each in picture.iter(f"{SVG}rect"))
    longest = max(len(each.text) * 7 + int(each.get("x")) for each in picture.iter(f"{SVG}text"))
    assert longest <= width


def test_colours_of_the_picture_follow_the_scheme():
    style = picture_of(explanation()).find(f"{SVG}style").text
    light, _, dark = style.partition("@media(prefers-color-scheme:dark)")
    coloured = {"text", "title", "quiet", "frame", "chosen", "usable", "in-use", "unsuitable", "good", "warn", "bad"}
    for half in (light, dark):
        assert coloured <= set(re.findall(r"\.([a-z-]+)", half))


@pytest.mark.parametrize("colour", ["#ffffff", "#0d1117"], ids=["light", "dark"])
def test_colours_of_the_picture_have_contrast_on_both_backgrounds(colour):
    style = picture_of(explanation()).find(f"{SVG}style").text
    for found in set(re.findall(r"#[0-9a-f]{6}", style)):
        assert contrast(found, colour) >= 3, found


def contrast(one, other):
    """The contrast of two colours by WCAG 2.2."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour):
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [each / 12.92 if each <= 0.03928 else ((each + 0.055) / 1.055) ** 2.4 for each in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_parser_of_these_tests_refuses_what_is_invalid():
    with pytest.raises(html5lib.html5parser.ParseError):
        parse("<!doctype html><title>x</title><p></b>")
