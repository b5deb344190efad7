"""Explains where a pod, claim, template or workload fits, why not elsewhere, and what to change.

`explain` answers a question of `policies.outcome`: the groups of nodes with their reasons, suggestions and remarks. `headroom` says
how many more of an object limits and devices admit. Reports are data; the callers render them.
"""

from __future__ import annotations

from policies.analyses.explain.explain import explain
from policies.analyses.explain.explanations import Change, Explanation, Suggestion, name_redactor
from policies.analyses.explain.headroom import Headroom, headroom

__all__ = ["Change", "Explanation", "Headroom", "Suggestion", "explain", "headroom", "name_redactor"]
