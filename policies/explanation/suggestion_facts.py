"""What suggestions are tried on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from policies.explanation.cluster import Cluster
    from policies.explanation.question import Question
    from policies.explanation.solver import Ask
    from policies.explanation.survey import Survey
    from policies.explanation.taken import Taken
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["Facts"]


@dataclass(frozen=True, slots=True)
class Facts:
    """A question that does not fit everywhere, what was found out about it, and the cluster."""

    question: Question
    ask: Ask
    survey: Survey
    cluster: Cluster
    taken: Taken
    view: ClusterView
    settings: GPUAdmissionPolicy
