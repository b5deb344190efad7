"""Completion of values by the shells; the values are looked up only while a shell completes."""

from __future__ import annotations

from contextlib import redirect_stderr
from io import StringIO
from typing import TYPE_CHECKING, Any, Literal

from webhook.cli.lazy_modules import lazy_module

if TYPE_CHECKING:
    from collections.abc import Callable

    import click
    from click.shell_completion import CompletionItem

    Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem[Any]]]
    Values = Literal["contexts", "kinds", "namespaces", "objects", "products", "rules"]

__all__ = ["complete_from", "complete_paths"]


def complete_from(values: Values, *, or_paths: bool = False) -> Complete:
    """Completes a parameter by a function of `completion_values`, silently by nothing if that fails.

    With `or_paths`, the shell completes names of files and folders if there is no other value.
    """

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[Any]]:
        # Whatever fails, an error message would be printed into the command line that the user is writing.
        try:
            with redirect_stderr(StringIO()):
                found: list[CompletionItem[Any]] = getattr(lazy_module("completion values"), values)(ctx, incomplete)
        except Exception:  # noqa: BLE001 - see above
            found = []
        return found or (complete_paths(ctx, param, incomplete) if or_paths else [])

    return complete


def complete_paths(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem[Any]]:
    """Leaves the names of files and folders to the shell."""
    from click.shell_completion import CompletionItem  # noqa: PLC0415 - only needed while a shell completes

    return [CompletionItem(incomplete, type="file")]
