"""The workbench for selectors: what they say of each device, why, at what cost, and after an edit.

`selections_of` and `selection_of_expression` say what is analyzed, `analyze` makes the table. The result is data; the
callers render it.
"""

from policies.dra.workbench.analysis import analyze
from policies.dra.workbench.report import (
    Analysis,
    AnalysisJSON,
    Change,
    ClauseReport,
    Comparison,
    DeviceChange,
    DeviceRow,
    SelectorProblem,
    SelectorReport,
    Truth,
    Verdict,
)
from policies.dra.workbench.selections import Selection, edited_selection, selection_of_expression, selections_of

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
