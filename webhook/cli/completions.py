"""Completion of values by the shells; the values are looked up only while a shell completes."""

from __future__ import annotations

from contextlib import redirect_stderr
from io import StringIO
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    import click
    from click.shell_completion import CompletionItem

    Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem[Any]]]
    Values = Literal["contexts", "kinds", "namespaces", "objects", "products", "rules"]

__all__ = ["complete_from", "complete_paths"]


def complete_from(values: Values, *, or_paths: bool = False) -> Complete:
    """Completes a parameter by values of `completion_values`, silently by nothing if that fails.

    With `or_paths`, the shell completes names of files and folders if there is no other value.
    """

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[Any]]:
        # Whatever fails, an error message would be printed into the command line that the user is writing.
        try:
            with redirect_stderr(StringIO()):
                found = _items(values, ctx, incomplete)
        except Exception:  # noqa: BLE001 - see above
            found = []
        return found or (complete_paths(ctx, param, incomplete) if or_paths else [])

    return complete


def complete_paths(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem[Any]]:
    """Leaves the names of files and folders to the shell."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def _items(values: Values, ctx: click.Context, incomplete: str) -> list[CompletionItem[Any]]:
    """The values that begin with what is written so far."""
    match values:
        case "contexts":
            from webhook.cli.completion_values.contexts import contexts

            return contexts(ctx, incomplete)
        case "kinds":
            from webhook.cli.completion_values.ruled_kinds import kinds

            return kinds(incomplete)
        case "namespaces":
            from webhook.cli.completion_values.objects import namespaces

            return namespaces(ctx, incomplete)
        case "objects":
            from webhook.cli.completion_values.objects import objects

            return objects(ctx, incomplete)
        case "products":
            from webhook.cli.completion_values.products import products

            return products(incomplete)
        case "rules":
            from webhook.cli.completion_values.rule_ids import rule_ids

            return rule_ids(incomplete)
