"""Explanations as text."""

from __future__ import annotations

import pytest

from policies.analyses.explain import Change, Explanation, Suggestion
from policies.analyses.explain.explanations import Peers, ReviewWarning
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


def test_first_three_lines_are_verdict_reason_and_remedy():
    assert (
        text(FULL)
        == """\
ResourceClaim team-a/big  full
Both fitting nodes are in use.
What would help: request 4 devices instead of 8 in request gpu; then it fits on 2 nodes.
- Or leave out the condition on memory; then it would fit on at least 1 node if nothing were in use

No node fits now, 2 of 9 would if nothing were in use.
NODES  FITS      NAMES        WHY
    2  if empty  gpu-h100-01  4 of 8 devices can serve request gpu.
                 gpu-h100-02  - gpu-0..gpu-3 are in use by team-b/train-0 (pod team-b/train).
                              - gpu-4..gpu-7 are 40Gi, 80Gi requested.
    7  no        gpu-t4-01    The taint nvidia.com/gpu=present:NoSchedule is not tolerated.
                 gpu-t4-02
                 gpu-t4-03
                 and 4 more

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
It is refused: "0.5" is not a whole number [GA302]
What would help: request whole GPUs.
- there is no DeviceClass gpu"""
    )


def test_warning_that_says_why_no_node_fits_is_the_reason():
    finding = Finding(met_wishes.rule, Severity.WARN, FieldPath(["metadata"]), "none has H200*", "wait for such a node")
    warning = ReviewWarning.of(finding)
    explanation = Explanation(
        "pod a/b", Feasibility.IMPOSSIBLE, "fits none of 3 nodes", warnings=(warning,), remarks=("no Pods are known",)
    )
    assert (
        text(explanation)
        == """\
pod a/b  impossible
None has H200*; metadata [GA404]
What would help: wait for such a node.

Note: no Pods are known."""
    )


def text_of_head(verdict, replicas, peers):
    reason = Reason(ReasonKind.DEVICES, "too few devices")
    fits = verdict is Feasibility.FITS
    explanation = Explanation(
        "pod a/web-1",
        verdict,
        "fits 2 of 9 nodes now",
        nodes=9,
        fit_now=2 if fits else 0,
        fit_if_empty=3,
        replicas=replicas,
        groups=(NodeGroup(1, ("n",), fits, True, None if fits else reason),),
        peers=peers,
    )
    return text(explanation, width=140).splitlines()[1]


@pytest.mark.parametrize(
    ("verdict", "replicas", "pods", "bound", "line"),
    [
        ("fits", 5, 3, 0, "All 3 pods of ReplicaSet web fit now, on 2 of 9 nodes."),
        ("fits", 1, 1, 0, "The pod of ReplicaSet web fits now, on 2 of 9 nodes."),
        (
            "fits",
            1,
            4,
            1,
            "1 of the 3 waiting pods of ReplicaSet web fits now; no node has room for the others; 1 of 4 has a node.",
        ),
        ("fits", 2, 3, 3, "All 3 pods of ReplicaSet web have a node already; one more fits 2 of 9 nodes now."),
        (
            "full",
            0,
            6,
            4,
            "None of the 2 waiting pods of ReplicaSet web fits now: all 3 fitting nodes are in use; 4 of 6 have a node.",
        ),
        (
            "full",
            0,
            2,
            1,
            "The waiting pod of ReplicaSet web fits nowhere now: all 3 fitting nodes are in use; 1 of 2 has a node.",
        ),
        ("full", 0, 1, 1, "Its pod has a node already; one more fits nowhere now: all 3 fitting nodes are in use."),
        ("impossible", 0, 2, 1, "No node fits: too few devices; 1 of 2 has a node."),
    ],
)
def test_head_says_how_many_pods_of_a_workload_fit(verdict, replicas, pods, bound, line):
    found = text_of_head(Feasibility(verdict), replicas, Peers("ReplicaSet web", pods, bound))
    assert found == line


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
    found = Explanation("pod a/b", Feasibility.FULL, "48 cpu requested", nodes=1, fit_if_empty=1, groups=(group,))
    lines = text(found).splitlines()
    assert [line.split("  ")[-1].strip() for line in lines if line] == [
        "full",
        "The only fitting node is in use.",
        "What would help: nothing but the end of what holds the devices there.",
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
