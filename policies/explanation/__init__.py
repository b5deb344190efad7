"""Explains where a pod, claim, template or workload would fit, why not elsewhere, and what to change.

`questions` makes questions of a document, one for each pod template; `explain` answers one. Answers are data: rendering
them is for who asks. Facts come from a ClusterView, which may not know all: what is missing is told, never guessed.
"""

from __future__ import annotations

from policies.explanation.explain import explain
from policies.explanation.question import NamedClaim, Obstacle, ObstacleKind, Question
from policies.explanation.questions import questions
from policies.explanation.report import Change, Explanation, Feasibility, NodeGroup, Reason, ReasonKind, Suggestion

__all__ = [
    "Change",
    "Explanation",
    "Feasibility",
    "NamedClaim",
    "NodeGroup",
    "Obstacle",
    "ObstacleKind",
    "Question",
    "Reason",
    "ReasonKind",
    "Suggestion",
    "explain",
    "questions",
]
