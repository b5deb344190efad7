"""Gathers what is wrong with an expression, as cel-go's `common.Errors` does."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from policies.dra.cel.errors import CelCompileError, Issue

__all__ = ["IssueList"]

_MOST_ISSUES = 100
"""cel-go keeps no more."""


class IssueList:
    """Issues of one expression, in the order in which they were found."""

    def __init__(self, text: str) -> None:
        """Args: the expression."""
        self._text = text
        self._line_ends = list(accumulate(len(line) + 1 for line in text.split("\n")))
        self._issues: list[Issue] = []

    def report(self, offset: int, message: str) -> None:
        """Note that something is wrong at an offset, in code points, or nowhere if that is negative.

        What is beyond the hundredth is left out.
        """
        if len(self._issues) < _MOST_ISSUES:
            self._issues.append(Issue(message, *self._place(offset)))

    def raise_if_any(self) -> None:
        """Refuse the expression if anything was reported.

        Raises:
            CelCompileError: with the issues in the order of their places.
        """
        if self._issues:
            in_order = sorted(self._issues, key=lambda issue: (issue.line, issue.column))
            raise CelCompileError(tuple(in_order), self._text)

    def refuse(self, offset: int, message: str) -> CelCompileError:
        """The error for an expression that Kubernetes refuses as a whole, without telling a place."""
        self._issues.clear()
        self.report(offset, message)
        return CelCompileError(tuple(self._issues), self._text, located=False)

    def _place(self, offset: int) -> tuple[int, int]:
        """Line and column; cel-go's `NoLocation` is -1 and 0 as it is printed, and an empty text has no first column."""
        if offset < 0:
            return -1, 0
        if not self._text:
            return 1, 0
        line = bisect_right(self._line_ends, offset)
        start = self._line_ends[line - 1] if line else 0
        return line + 1, offset - start + 1
