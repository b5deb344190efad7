"""The workbench for selectors: which devices they match, why, and what an edit changes.

`selections_of` and `selection_of_expression` return what can be analyzed, and `analyze` analyzes it. The result is data;
callers render it.
"""

from policies.dra.workbench.analysis import analyze
from policies.dra.workbench.report import (
    Analysis,
    AnalysisJSON,
    Change,
    Comparison,
    DeviceChange,
    DeviceRow,
    Truth,
    Verdict,
)
from policies.dra.workbench.selections import Selection, edited_selection, selection_of_expression, selections_of
from policies.dra.workbench.selector_report import ClauseReport, SelectorProblem, SelectorReport

__all__ = [
    "Analysis",
    "AnalysisJSON",
    "Change",
    "ClauseReport",
    "Comparison",
    "DeviceChange",
    "DeviceRow",
    "Selection",
    "SelectorProblem",
    "SelectorReport",
    "Truth",
    "Verdict",
    "analyze",
    "edited_selection",
    "selection_of_expression",
    "selections_of",
]
