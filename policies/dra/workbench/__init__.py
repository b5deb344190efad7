"""The workbench for selectors: what they say of each device, why, at what cost, and after an edit.

`selector_sets_of` and `selector_set_of_expression` say what is analyzed, `analyze` makes the table. The result is data; the
callers render it.
"""

from policies.dra.workbench.analysis import analyze
from policies.dra.workbench.report import (
    Analysis,
    AnalysisJSON,
    ClauseReport,
    DeviceChange,
    DeviceRow,
    DeviceVerdict,
    EditComparison,
    EditEffect,
    SelectorProblem,
    SelectorReport,
    Truth,
)
from policies.dra.workbench.selector_sets import (
    SelectorSet,
    edited_selector_set,
    selector_set_of_expression,
    selector_sets_of,
)

__all__ = [
    "Analysis",
    "AnalysisJSON",
    "ClauseReport",
    "DeviceChange",
    "DeviceRow",
    "DeviceVerdict",
    "EditComparison",
    "EditEffect",
    "SelectorProblem",
    "SelectorReport",
    "SelectorSet",
    "Truth",
    "analyze",
    "edited_selector_set",
    "selector_set_of_expression",
    "selector_sets_of",
]
