"""What a condition says, by the verdict of the explanation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.analyses.explain import Change, Explanation, Suggestion
from policies.analyses.waiting import LONGEST_MESSAGE, waiting_result
from policies.outcome import Feasibility, NodeGroup, Obstacle, ObstacleKind, Reason, ReasonKind

SILENT = (Feasibility.FITS, Feasibility.SCHEDULED, Feasibility.UNKNOWN)


def explanation(verdict=Feasibility.FULL, headline="fits none of 2 nodes now", **fields):
    return Explanation("pod team-a/train", verdict, headline, **fields)


def group(sentence, count=1):
    return NodeGroup(count, (), fits=False, fits_if_empty=True, reason=Reason(ReasonKind.RESOURCES, sentence))


@pytest.mark.parametrize("verdict", SILENT)
def test_pod_that_fits_or_is_unknown_gets_no_condition(verdict):
    assert waiting_result(explanation(verdict)) is None


@pytest.mark.parametrize(
    ("verdict", "reason"), [(Feasibility.FULL, "NoNodeFitsNow"), (Feasibility.IMPOSSIBLE, "NoNodeFits")]
)
def test_reason_is_the_verdict(verdict, reason):
    assert waiting_result(explanation(verdict)).reason == reason


def test_guessed_nodes_give_no_condition():
    assert waiting_result(explanation(nodes_guessed=True)) is None


OF_BOUND_PODS = {ObstacleKind.START_FAILS, ObstacleKind.DEVICE_UNHEALTHY}
"""A pod that is bound gets no condition."""


@pytest.mark.parametrize(
    "kind", [each for each in ObstacleKind if each not in {*OF_BOUND_PODS, ObstacleKind.FACT_UNKNOWN}]
)
def test_every_obstacle_has_a_reason(kind):
    found = waiting_result(explanation(Feasibility.BLOCKED, "it fits no node", obstacles=(Obstacle(kind, "no"),)))
    assert found.reason.isalpha()
    assert found.message == "It fits no node. No."
    assert found.is_before_scheduling is (kind in (ObstacleKind.MISSING, ObstacleKind.QUOTA_EXCEEDED))


def test_message_has_the_verdict_the_smallest_change_and_the_reasons():
    suggestion = Suggestion(Change.COUNT, "request 4 devices instead of 8 in request gpu", "gpu", "gpu", 3)
    other = Suggestion(Change.COUNT, "request 2 devices instead of 8 in request gpu", "gpu", "gpu", 5)
    found = waiting_result(
        explanation(
            suggestions=(suggestion, other), groups=(group("8 devices needed, 4 are free", 3), group("cordoned"))
        )
    )
    assert found.message == (
        "Fits none of 2 nodes now. Smallest change that helps: request 4 devices instead of 8 in request gpu; then it fits "
        "on 3 nodes. 3 nodes: 8 devices needed, 4 are free. 1 node: cordoned."
    )


def test_message_for_another_scheduler_says_so():
    assert waiting_result(explanation(), "volcano").message == (
        "Fits none of 2 nodes now. This is what the default scheduler would find; the pod is for scheduler volcano."
    )
    assert waiting_result(explanation(), "default-scheduler") == waiting_result(explanation())


@given(
    headline=st.text(min_size=1, max_size=3000),
    sentences=st.lists(st.text(min_size=1, max_size=500), max_size=6),
    remedy=st.text(max_size=500),
)
def test_message_is_one_line_that_an_event_can_hold(headline, sentences, remedy):
    found = waiting_result(
        explanation(
            Feasibility.BLOCKED,
            headline,
            obstacles=(Obstacle(ObstacleKind.ALLOCATION_FAILS, sentences[0] if sentences else "no", remedy),),
            groups=tuple(map(group, sentences)),
        )
    )
    assert len(found.message.encode()) <= LONGEST_MESSAGE
    assert found.message.isprintable()
