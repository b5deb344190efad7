"""The outcome for a pod, claim or workload on a cluster, now or after a change.

`questions` makes questions of a document; `simulate` answers one: which nodes fit, why the others do not, how many replicas
fit. `subjects_of` finds the workloads of a cluster; `compare_fits`, `compare_limits` and `quota_refusals` compare two
clusters. Facts come from a ClusterView, which may not know all of them: missing facts are reported, never guessed.
"""

from __future__ import annotations

from policies.outcome.allocation import (
    AllocationProblem,
    Solution,
    SolutionState,
    Solver,
    allocation_problem,
    claims_may_serve_resources,
    device_names,
)
from policies.outcome.claims import NamedClaim, Obstacle, ObstacleKind
from policies.outcome.cluster import (
    EVERYTHING,
    OTHER_NAMESPACES,
    READ_FROM,
    Audience,
    Cluster,
    Holders,
    Holding,
    Nodes,
    ResourceUsage,
    read_cluster,
    used_amounts,
    warm,
)
from policies.outcome.comparison import (
    MOST_SUBJECTS,
    FitComparer,
    FitComparison,
    Outcome,
    affected_subjects,
    compare_fits,
)
from policies.outcome.device_reasons import DeviceMismatch, constraint_words
from policies.outcome.fits import Fit, Situation
from policies.outcome.grants import Grant, QualityChange
from policies.outcome.nodes import NodeChecks, is_cordoned, preventing_taints
from policies.outcome.outcome import Feasibility, PlacementOutcome, simulate
from policies.outcome.question import Question, pod_question, question_warnings, questions
from policies.outcome.quotas import LimitComparison, LimitUse, QuotaRefusal, compare_limits, quota_refusals
from policies.outcome.reasons import Reason, ReasonKind, Taint
from policies.outcome.rejected_devices import (
    OF_CAPACITY,
    DeviceRejection,
    Tallies,
    Tally,
    described_rejections,
    value_of,
)
from policies.outcome.survey import AlikeNodes, Survey
from policies.outcome.workloads import Subject, subjects_of

__all__ = [
    "EVERYTHING",
    "MOST_SUBJECTS",
    "OF_CAPACITY",
    "OTHER_NAMESPACES",
    "READ_FROM",
    "AlikeNodes",
    "AllocationProblem",
    "Audience",
    "Cluster",
    "DeviceMismatch",
    "DeviceRejection",
    "Feasibility",
    "Fit",
    "FitComparer",
    "FitComparison",
    "Grant",
    "Holders",
    "Holding",
    "LimitComparison",
    "LimitUse",
    "NamedClaim",
    "NodeChecks",
    "Nodes",
    "Obstacle",
    "ObstacleKind",
    "Outcome",
    "PlacementOutcome",
    "QualityChange",
    "Question",
    "QuotaRefusal",
    "Reason",
    "ReasonKind",
    "ResourceUsage",
    "Situation",
    "Solution",
    "SolutionState",
    "Solver",
    "Subject",
    "Survey",
    "Taint",
    "Tallies",
    "Tally",
    "affected_subjects",
    "allocation_problem",
    "claims_may_serve_resources",
    "compare_fits",
    "compare_limits",
    "constraint_words",
    "described_rejections",
    "device_names",
    "is_cordoned",
    "pod_question",
    "preventing_taints",
    "question_warnings",
    "questions",
    "quota_refusals",
    "read_cluster",
    "simulate",
    "subjects_of",
    "used_amounts",
    "value_of",
    "warm",
]
