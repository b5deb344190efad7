"""Decides on admission requests: the one pipeline of concerns, and reviews by a view."""

from policies.admission.concerns import load_rules
from policies.admission.pipeline import Charge, Course, Ensure, Failure, Finish, Judge, Part, Read, Step, decide
from policies.admission.review import entries_called, judge, review, review_concern
from policies.admission.severities import finish

__all__ = [
    "Charge",
    "Course",
    "Ensure",
    "Failure",
    "Finish",
    "Judge",
    "Part",
    "Read",
    "Step",
    "decide",
    "entries_called",
    "finish",
    "judge",
    "load_rules",
    "review",
    "review_concern",
]
