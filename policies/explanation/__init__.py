"""Explains where a pod, claim, template or workload would fit, why not elsewhere, and what to change.

`questions` makes questions of a document, one for each pod template; `explain` answers one. Answers are data: rendering
them is for who asks. Facts come from a ClusterView, which may not know all: what is missing is told, never guessed.
"""

from __future__ import annotations

from policies.explanation.explain import explain
from policies.explanation.question import NamedClaim, Obstacle, ObstacleKind, Question
from policies.explanation.questions import questions
from policies.explanation.report import Change, Explanation, NodeGroup, Reason, ReasonKind, Suggestion, Verdict

__all__ = [
    "Change",
    "Explanation",
    "NamedClaim",
    "NodeGroup",
    "Obstacle",
    "ObstacleKind",
    "Question",
    "Reason",
    "ReasonKind",
    "Suggestion",
    "Verdict",
    "explain",
    "questions",
]
