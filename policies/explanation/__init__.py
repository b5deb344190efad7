"""Explains where a pod, claim, template or workload fits, why not elsewhere, and what to change.

`questions` makes questions of a document, one for each pod template; `explain` answers one: the solver allocates the
claims on each node, and reasons, suggestions and remarks go into the report. Reports are data; the callers render them.
Facts come from a ClusterView, which may not know all of them: missing facts are reported, never guessed.
"""

from __future__ import annotations

from policies.explanation.audience import EVERYTHING, Audience
from policies.explanation.cluster import READ_FROM, warm
from policies.explanation.explain import explain
from policies.explanation.group_report import DeviceOutcome, NodeGroup, OutcomeState, Reason, ReasonKind
from policies.explanation.question import NamedClaim, Obstacle, ObstacleKind, Question
from policies.explanation.questions import questions
from policies.explanation.redacted import name_redactor
from policies.explanation.report import Change, Explanation, Feasibility, Suggestion

__all__ = [
    "EVERYTHING",
    "READ_FROM",
    "Audience",
    "Change",
    "DeviceOutcome",
    "Explanation",
    "Feasibility",
    "NamedClaim",
    "NodeGroup",
    "Obstacle",
    "ObstacleKind",
    "OutcomeState",
    "Question",
    "Reason",
    "ReasonKind",
    "Suggestion",
    "explain",
    "name_redactor",
    "questions",
    "warm",
]
