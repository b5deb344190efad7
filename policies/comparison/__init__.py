"""Compares where pods and claims find a place, and what quotas count, in two situations.

A situation is a view of a cluster and the administrator's settings. `subjects_of` finds what to compare, each pod template
once; `compare_fits` says what is kept, lost, gained or unknown; `compare_limits` and `quota_refusals` do so for quotas.
"""

from __future__ import annotations

from policies.comparison.comparison import (
    MOST_SUBJECTS,
    FitComparison,
    Outcome,
    affected_subjects,
    compare_fits,
)
from policies.comparison.fits import Fit, FitFinder, Situation
from policies.comparison.quotas import (
    LimitComparison,
    LimitUse,
    QuotaRefusal,
    compare_limits,
    quota_refusals,
)
from policies.comparison.subjects import Subject, subjects_of

__all__ = [
    "MOST_SUBJECTS",
    "Fit",
    "FitComparison",
    "FitFinder",
    "LimitComparison",
    "LimitUse",
    "Outcome",
    "QuotaRefusal",
    "Situation",
    "Subject",
    "affected_subjects",
    "compare_fits",
    "compare_limits",
    "quota_refusals",
    "subjects_of",
]
