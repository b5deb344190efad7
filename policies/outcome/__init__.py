"""The outcome for a pod, claim or workload on a cluster, now or after a change.

`questions` makes questions of a document; `simulate` answers one: which nodes fit, why the others do not, how many replicas
fit, and what a changed question would do. `subjects_of` finds the workloads of a cluster; `compare_fits`, `compare_limits`
and `compare_refusals` compare two clusters. Facts come from a ClusterView, which may not know all of them: missing facts are
reported, never guessed.
"""

from __future__ import annotations

from policies.outcome.claims import NamedClaim, Obstacle, ObstacleKind
from policies.outcome.comparison import (
    MOST_SUBJECTS,
    FitComparer,
    FitComparison,
    LimitComparison,
    Outcome,
    QuotaRefusal,
    affected_subjects,
    certain_fits,
    certain_limits,
    compare_fits,
    compare_limits,
    compare_refusals,
    freed_limits,
)
from policies.outcome.fits import DeviceRoom, Fit, FitFinder, Situation, device_room, templates_of_claims
from policies.outcome.node_groups import Certainty, DeviceOutcome, NodeGroup, OutcomeState
from policies.outcome.outcome import READ_FROM, Feasibility, PlacementOutcome, simulate, warm
from policies.outcome.question import Question, pod_question, question_warnings, questions
from policies.outcome.reasons import EVERYTHING, Audience, Reason, ReasonKind
from policies.outcome.replicas import ReplicaCount
from policies.outcome.trials import DeviceShortage, RejectedDevices, RequestShortage
from policies.outcome.workloads import Subject, subjects_of, workload_subjects

__all__ = [
    "EVERYTHING",
    "MOST_SUBJECTS",
    "READ_FROM",
    "Audience",
    "Certainty",
    "DeviceOutcome",
    "DeviceRoom",
    "DeviceShortage",
    "Feasibility",
    "Fit",
    "FitComparer",
    "FitComparison",
    "FitFinder",
    "LimitComparison",
    "NamedClaim",
    "NodeGroup",
    "Obstacle",
    "ObstacleKind",
    "Outcome",
    "OutcomeState",
    "PlacementOutcome",
    "Question",
    "QuotaRefusal",
    "Reason",
    "ReasonKind",
    "RejectedDevices",
    "ReplicaCount",
    "RequestShortage",
    "Situation",
    "Subject",
    "affected_subjects",
    "certain_fits",
    "certain_limits",
    "compare_fits",
    "compare_limits",
    "compare_refusals",
    "device_room",
    "freed_limits",
    "pod_question",
    "question_warnings",
    "questions",
    "simulate",
    "subjects_of",
    "templates_of_claims",
    "warm",
    "workload_subjects",
]
