"""Explains where a pod, claim, template or workload fits, why not elsewhere, and what to change.

`explain` answers a question of `policies.outcome`: the groups of nodes with their reasons, suggestions and remarks. Reports
are data; the callers render them.
"""

from __future__ import annotations

from policies.analyses.explain.explain import explain
from policies.analyses.explain.redacted import name_redactor
from policies.analyses.explain.report import Change, Explanation, Suggestion

__all__ = [
    "Change",
    "Explanation",
    "Suggestion",
    "explain",
    "name_redactor",
]
