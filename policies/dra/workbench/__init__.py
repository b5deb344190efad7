"""The workbench for selectors: which devices they match, why, and what an edit changes.

`selector_sets_of` and `selector_set_of_expression` return what can be analyzed, and `analyze` analyzes it. The result is data;
callers render it.
"""

from policies.dra.workbench.analysis import analyze
from policies.dra.workbench.analysis_json import AnalysisJSON, analysis_json
from policies.dra.workbench.report import (
    Analysis,
    DeviceChange,
    DeviceRow,
    DeviceVerdict,
    EditComparison,
    EditEffect,
    Truth,
)
from policies.dra.workbench.selector_report import Clause, SelectorProblem, SelectorReport
from policies.dra.workbench.selector_sets import (
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
