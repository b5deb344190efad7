"""Items of completion, and the options that are written before them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from collections.abc import Iterable

    import click

__all__ = ["Items", "items_of", "option_value"]

Items = list[CompletionItem[Any]]

_HARMLESS = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_@%+=:,./-]*")
"""Values that no shell reads as anything else than a word. Shells insert values as they are, and files have any names."""


def items_of(values: Iterable[str]) -> Items:
    """An item for each value that no shell could misread."""
    return [CompletionItem(value) for value in values if _HARMLESS.fullmatch(value)]


def option_value(ctx: click.Context, name: str) -> Any:
    """The value of an option of the command, or of the group that it belongs to."""
    for each in (ctx, ctx.parent):
        if each is not None and each.params.get(name):
            return each.params[name]
    return None
