"""Errors of compiling and evaluating an expression, and the bound on the work of one evaluation."""

from __future__ import annotations

import threading
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate

NO_OVERLOAD = "no such overload"
"""cel-go's message for arguments that no overload takes."""
_WIDEST_CARET_LINE = 200
"""Longer source lines are cut around the caret, so that an issue stays readable in a terminal."""


@dataclass(frozen=True, slots=True)
class Issue:
    """One thing wrong with an expression, at a place in its text."""

    message: str
    line: int
    """From 1; -1 if Kubernetes reports no place."""
    column: int
    """In code points, from 1; 0 if Kubernetes reports no place."""


class CelCompileError(ValueError):
    """An expression that Kubernetes refuses to compile.

    `str()` of it is the text the API server prints, caret included; `message`, `line` and `column` are those of the
    first issue.
    """

    def __init__(self, issues: tuple[Issue, ...], text: str, *, located: bool = True) -> None:
        """Take issues in the order of their places; `located` if Kubernetes reports the places."""
        self.issues = issues
        self.text = text
        self.located = located
        first = issues[0]
        self.message = first.message
        self.line = first.line
        self.column = first.column
        lines = text.split("\n")
        shown = [f"ERROR: <input>:{each.line}:{each.column}: {each.message}{_caret(each, lines)}" for each in issues]
        super().__init__("compilation failed: " + "\n".join(shown) if located else first.message)

    def without_traceback(self) -> CelCompileError:
        """The same error without traceback and context.

        An error that was raised keeps the frames that it passed, and with them all that was at hand there: a whole
        cluster. Errors are cached by many texts, so what is cached is never raised itself.
        """
        return CelCompileError(self.issues, self.text, located=self.located)


class CelRuntimeError(Exception):
    """A selector that fails on a device: Kubernetes then aborts the scheduling of the pod on every node."""

    def __init__(self, message: str) -> None:
        """Take the message that Kubernetes uses, for example `no such key: model`."""
        self.message = message
        super().__init__(message)


class EvaluationAborted(Exception):  # noqa: N818 - expressions cannot absorb it as an error
    """An evaluation that ends at once: `||` and `&&` do not absorb it. Selectors raise CelRuntimeError."""

    def __init__(self, message: str) -> None:
        """Take the message that Kubernetes uses."""
        self.message = message
        super().__init__(message)


def _caret(issue: Issue, lines: list[str]) -> str:
    """The source line and a caret, as cel-go's `common.Errors.ToDisplayString` shows them.

    Under characters that are not ASCII it has dots, and a caret, of full width.
    """
    if not (0 < issue.line <= len(lines) and issue.column):
        return ""
    source = lines[issue.line - 1]
    start = max(0, issue.column - _WIDEST_CARET_LINE // 2) if len(source) > _WIDEST_CARET_LINE else 0
    shown = source[start : start + _WIDEST_CARET_LINE].replace("\t", " ")
    before = issue.column - 1 - start
    dots = "".join("." if character.isascii() else "\uff0e" for character in shown[:before])
    caret = "^" if shown[before : before + 1].isascii() else "\uff3e"
    return f"\n | {shown}\n | {dots}{caret}"


_MOST_ISSUES = 100
"""cel-go keeps no more."""


class IssueList:
    """Issues of one expression, in the order in which they were found."""

    def __init__(self, text: str) -> None:
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
        """Line and column, as cel-go prints them: -1 and 0 for no location, 1 and 0 in an empty text."""
        if offset < 0:
            return -1, 0
        if not self._text:
            return 1, 0
        line = bisect_right(self._line_ends, offset)
        start = self._line_ends[line - 1] if line else 0
        return line + 1, offset - start + 1


STEP_LIMIT = 2_500_000
"""Steps: a list's element visited, four characters of a string built. The cost limit allows as many characters."""

COST_LIMIT_EXCEEDED = "operation cancelled: actual cost limit exceeded"


class _Meter(threading.local):
    left = STEP_LIMIT


_METER = _Meter()


def begin_evaluation() -> None:
    """Start an evaluation in this thread."""
    _METER.left = STEP_LIMIT


def spend_steps(steps: int) -> None:
    """Count steps before they are made.

    Raises:
        EvaluationAborted: they would be too many.
    """
    if steps > _METER.left:
        raise EvaluationAborted(COST_LIMIT_EXCEEDED)
    _METER.left -= steps


def steps_spent() -> int:
    """The steps that were counted in this thread since the evaluation began."""
    return STEP_LIMIT - _METER.left
