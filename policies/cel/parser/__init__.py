"""Reads an expression into the tree that cel-go v0.26.0 makes of it, macros expanded.

A tree that `parse` returns has at most `parts.MAX_DEPTH` (260) levels, so that code which recurses over it with up to
three frames for a node stays within Python's default limit; and at most `parts.MAX_NODES` (20,000) nodes. No node occurs
twice in a tree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, cast

from policies.cel.errors import IssueList
from policies.cel.parser.parts import TooLarge
from policies.cel.parser.syntax_errors import MAX_NESTING, mistakes
from policies.cel.parser.tokens import Mistake

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.cel.parser.parts import Part
    from policies.cel.syntax import Expression

__all__ = ["parse"]


_MOST_CODE_POINTS = 100_000
"""cel-go's expressionSizeCodePointLimit; Kubernetes refuses more than 10 KiB before it gets so far."""

_RULES_PER_LEVEL = 3
"""One bracket or question mark opens at most so many of a kind of ANTLR's rules."""

_NOWHERE = -1
"""The offset of issues for which cel-go reports no place."""


def parse(text: str, *, escaped_names: bool = False) -> Expression:
    """The tree of an expression.

    Args:
        text: the expression.
        escaped_names: True if names of fields may stand between backticks, as they may since cel-go v0.28.

    Raises:
        CelCompileError: if it is not an expression, or nests deeper or is larger than cel-go or MAX_DEPTH allow.
    """
    from lark.exceptions import UnexpectedInput

    from policies.cel.parser.grammar import NO_ESCAPED_NAMES, Misplaced, cel_parser

    if len(text) > _MOST_CODE_POINTS:
        limit = f"size: {len(text)}, limit {_MOST_CODE_POINTS}"
        _refuse(text, [Mistake(None, f"expression code point size exceeds limit: {limit}")])
    if sum(map(text.count, "([{?")) >= MAX_NESTING // _RULES_PER_LEVEL:
        found = mistakes(text)
        if found and found[-1].offset is None:
            _refuse(text, found)
    try:
        part = cast("Part", cel_parser().parse(text))
    except TooLarge as error:
        _refuse(text, [Mistake(None, str(error))])
    except (Misplaced, UnexpectedInput) as error:
        offset = error.offset if isinstance(error, Misplaced) else cast("int | None", error.pos_in_stream) or 0
        unexpected = f"Syntax error: unexpected {text[offset : offset + 1]!r}"
        _refuse(text, mistakes(text) or [Mistake(offset, unexpected)])
    # Without escaped names, cel-go does not look at the values of such fields.
    complaints = [
        each
        for each in part.complaints
        if not (each.message == NO_ESCAPED_NAMES if escaped_names else each.is_of_escaped_field)
    ]
    if complaints:
        _refuse(text, [Mistake(each.offset, each.message) for each in complaints])
    return part.node


def _refuse(text: str, found: Sequence[Mistake]) -> NoReturn:
    issues = IssueList(text)
    for offset, message in found:
        issues.report(_NOWHERE if offset is None else offset, message)
    issues.raise_if_any()
    raise AssertionError("refused without a reason")
