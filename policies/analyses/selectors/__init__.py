"""The workbench for selectors: which devices they match, why, and what an edit changes.

`selector_sets_of` and `selector_set_of_expression` return what can be analyzed, and `analyze` analyzes it. The result is data;
callers render it.
"""

from policies.analyses.selectors.analysis import analyze
from policies.analyses.selectors.selector_report import (
    Analysis,
    AnalysisJSON,
    Clause,
    DeviceChange,
    DeviceRow,
    DeviceVerdict,
    EditComparison,
    EditEffect,
    ExcludedBy,
    SelectorProblem,
    SelectorReport,
    Truth,
    analysis_json,
)
from policies.analyses.selectors.selector_sets import (
    SelectorSet,
    edited_selector_set,
    selector_set_of_expression,
    selector_sets_of,
)

__all__ = [
    "Analysis",
    "AnalysisJSON",
    "Clause",
    "DeviceChange",
    "DeviceRow",
    "DeviceVerdict",
    "EditComparison",
    "EditEffect",
    "ExcludedBy",
    "SelectorProblem",
    "SelectorReport",
    "SelectorSet",
    "Truth",
    "analysis_json",
    "analyze",
    "edited_selector_set",
    "selector_set_of_expression",
    "selector_sets_of",
]
