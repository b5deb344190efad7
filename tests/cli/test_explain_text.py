"""Explanations as text."""

from __future__ import annotations

import pytest

from policies.analyses.explain import Change, Explanation, Suggestion
from policies.kubernetes.objects import FieldPath
from policies.outcome import Feasibility, NodeGroup, Obstacle, ObstacleKind, Reason, ReasonKind
from policies.placement.node_conditions import met_wishes
from policies.rules.decision import Finding, Severity
from webhook.cli.explain.explanations import text as coloured


def text(*explanations, width=100):
    """What is printed where nobody sees colours."""
    import click

    return click.unstyle(coloured(explanations, width))


FULL = Explanation(
    "ResourceClaim team-a/big",
    Feasibility.FULL,
    "no node fits now, 2 of 9 would if nothing were in use",
    nodes=9,
    fit_if_empty=2,
    replicas=0,
    groups=(
        NodeGroup(
            2,
            ("gpu-h100-01", "gpu-h100-02"),
            fits=False,
            fits_if_empty=True,
            reason=Reason(
                ReasonKind.DEVICES,
                "4 of 8 devices can serve request gpu",
                (
                    "gpu-0..gpu-3 are in use by team-b/train-0 (pod team-b/train)",
                    "gpu-4..gpu-7 are 40Gi, 80Gi requested",
                ),
            ),
        ),
        NodeGroup(
            7,
            ("gpu-t4-01", "gpu-t4-02", "gpu-t4-03"),
            fits=False,
            fits_if_empty=False,
            reason=Reason(ReasonKind.TAINT, "the taint nvidia.com/gpu=present:NoSchedule is not tolerated"),
        ),
    ),
    suggestions=(
        Suggestion(Change.COUNT, "request 4 devices instead of 8 in request gpu", "big", "gpu", 2),
        Suggestion(Change.SELECTOR, "leave out the condition on memory", "big", "gpu", 1, True, True),
    ),
    remarks=("pods are unknown, so nodes count as empty of them",),
)


def test_answer_is_counted_tabled_and_followed_by_what_would_help():
    assert (
        text(FULL)
        == """\
ResourceClaim team-a/big  full
No node fits now, 2 of 9 would if nothing were in use.

NODES  FIT NOW  FIT IF EMPTY  REPLICAS NOW
9      0        2             0

NODES  FITS      NAMES        WHY
    2  if empty  gpu-h100-01  4 of 8 devices can serve request gpu.
                 gpu-h100-02  - gpu-0..gpu-3 are in use by team-b/train-0 (pod team-b/train).
                              - gpu-4..gpu-7 are 40Gi, 80Gi requested.
    7  no        gpu-t4-01    The taint nvidia.com/gpu=present:NoSchedule is not tolerated.
                 gpu-t4-02
                 gpu-t4-03
                 and 4 more

What would help:
- Request 4 devices instead of 8 in request gpu; then it fits on 2 nodes
- Leave out the condition on memory; then it would fit on at least 1 node if nothing were in use

Note: pods are unknown, so nodes count as empty of them."""
    )


def test_remedy_names_the_place_where_it_fits():
    fits = NodeGroup(1, ("gpu-h100-01",), fits=True, fits_if_empty=True, devices=("gpu: gpu-0..gpu-3",))
    explanation = Explanation(
        "pod team-a/train",
        Feasibility.FITS,
        "1 node fits",
        nodes=1,
        fit_now=1,
        fit_if_empty=1,
        replicas=2,
        replicas_at_least=True,
        groups=(fits,),
        converted_to="gpu-0a1b",
    )
    assert (
        text(explanation)
        == """\
pod team-a/train  fits
1 node fits.

NODES  FIT NOW  FIT IF EMPTY  REPLICAS NOW
1      1        1             2 or more

NODES  FITS  NAMES        WHY
    1  yes   gpu-h100-01  It would get gpu: gpu-0..gpu-3.

Note: conversion creates ResourceClaimTemplate gpu-0a1b for the GPUs of the pod."""
    )


def test_obstacles_come_with_rule_and_remedy_and_without_tables():
    explanation = Explanation(
        "pod team-a/train",
        Feasibility.BLOCKED,
        "it is refused before scheduling",
        obstacles=(
            Obstacle(ObstacleKind.REFUSED, '"0.5" is not a whole number', "request whole GPUs", "GA302"),
            Obstacle(ObstacleKind.MISSING, "there is no DeviceClass gpu"),
        ),
    )
    assert (
        text(explanation)
        == """\
pod team-a/train  blocked
It is refused before scheduling.
- "0.5" is not a whole number; request whole GPUs [GA302]
- there is no DeviceClass gpu"""
    )


def test_warning_of_review_stands_below_the_answer():
    finding = Finding(met_wishes.rule, Severity.WARN, FieldPath(["metadata"]), "none has H200*", "wait for such a node")
    explanation = Explanation(
        "pod a/b", Feasibility.IMPOSSIBLE, "fits none of 3 nodes", warnings=(finding,), remarks=("no Pods are known",)
    )
    assert (
        text(explanation)
        == """\
pod a/b  impossible
Fits none of 3 nodes.
Warning: Wait for such a node: none has H200*; metadata [GA404]

Note: no Pods are known."""
    )


def test_nodes_that_are_not_known_to_fit_have_a_column():
    explanation = Explanation("pod a/b", Feasibility.UNKNOWN, "gave up", nodes=3, unknown_nodes=3, replicas=None)
    assert text(explanation).splitlines()[3:] == [
        "NODES  FIT NOW  FIT IF EMPTY  UNKNOWN  REPLICAS NOW",
        "3      0        0             3        unknown",
    ]


@pytest.mark.parametrize(
    ("groups", "nodes", "line"),
    [(1, 1, "and 1 more group with 1 node"), (12, 340, "and 12 more groups with 340 nodes")],
)
def test_groups_that_are_left_out_are_counted(groups, nodes, line):
    group = NodeGroup(1, ("a",), fits=True, fits_if_empty=True)
    explanation = Explanation(
        "pod a/b", Feasibility.FITS, "fits", groups=(group,), groups_left_out=groups, nodes_left_out=nodes
    )
    assert text(explanation).splitlines()[-1] == line


def test_text_that_was_cut_has_no_full_stop():
    group = NodeGroup(1, ("a",), False, False, Reason(ReasonKind.DEVICES, "x ...", ("y ...",)))
    explanation = Explanation("pod a/b", Feasibility.FULL, "no ...", groups=(group,), remarks=("z...",))
    assert "...." not in text(explanation)


def test_several_answers_are_counted_at_the_end():
    fits = Explanation("pod a/b", Feasibility.FITS, "1 node fits")
    assert text(fits, FULL, fits).splitlines()[-2:] == ["", "3 explanations: 2 fits, 1 full"]


def test_sentence_that_may_begin_with_a_name_keeps_its_spelling():
    group = NodeGroup(1, ("a",), False, False, Reason(ReasonKind.DEVICES, "gpu-0 is in use", ("train has it",)))
    lines = text(Explanation("pod a/b", Feasibility.FULL, "48 cpu requested", groups=(group,))).splitlines()
    assert [line.split("  ")[-1].strip() for line in lines if line] == [
        "full",
        "48 cpu requested.",
        "WHY",
        "gpu-0 is in use.",
        "- train has it.",
    ]


@pytest.mark.parametrize("width", [60, 80, 140])
def test_lines_stay_within_the_width(width):
    assert max(map(len, text(FULL, width=width).splitlines())) <= width


def test_long_names_of_nodes_are_cut_into_lines_and_leave_room_for_the_reason():
    group = NodeGroup(1, ("n" * 253,), fits=False, fits_if_empty=False, reason=Reason(ReasonKind.CORDONED, "is " * 40))
    explanation = Explanation("pod a/b", Feasibility.IMPOSSIBLE, "no", groups=(group,))
    lines = text(explanation, width=60).splitlines()
    assert max(map(len, lines)) <= 60
    assert sum(line.count("n" * 3) > 0 for line in lines) == 13


def test_control_characters_move_no_cursor():
    group = NodeGroup(1, ("a\x1b[2Jb",), fits=False, fits_if_empty=False, reason=Reason(ReasonKind.TAINT, "x\x1b\ny"))
    explanation = Explanation("pod \x1b[1A", Feasibility.IMPOSSIBLE, "no\r", groups=(group,), remarks=("\x9b",))
    assert all(line.isprintable() for line in text(explanation).splitlines())
