"""Explanations as JSON, and back."""

from __future__ import annotations

import pytest

from policies.analyses.explain import Explanation
from policies.kubernetes.objects import json_document, parse_document
from policies.outcome import Feasibility, Obstacle, ObstacleKind

EXPLANATION = Explanation("pod team-a/train", Feasibility.BLOCKED, "it fits no node")


def test_cause_for_the_headline_is_no_part_of_the_json():
    failure = Obstacle(ObstacleKind.ALLOCATION_FAILS, "it fails", cause="a selector fails")
    assert json_document(failure, Obstacle) == {
        "kind": "allocation fails",
        "sentence": "it fails",
        "remedy": "",
        "rule": "",
    }


def test_unknown_keys_are_ignored():
    document = {**json_document(EXPLANATION, Explanation), "fromALaterVersion": 1}
    assert parse_document(document, Explanation) == EXPLANATION


def test_value_of_a_later_version_is_named_with_its_place():
    document = {**json_document(EXPLANATION, Explanation), "verdict": "perhaps"}
    with pytest.raises(ValueError, match=r"^0\.verdict: Input should be 'fits', "):
        parse_document([document], list[Explanation])


@pytest.mark.parametrize("document", [None, {}, "text", [None], [{"label": "pod"}]])
def test_other_documents_are_refused(document):
    with pytest.raises(ValueError, match=r"Input should be|required"):
        parse_document(document, list[Explanation])
