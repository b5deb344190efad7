"""The JSON Patch of a single object."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from webhook.cli.review_outputs.text import show_messages
from webhook.cli.text_layout import json_text

if TYPE_CHECKING:
    from webhook.cli.review_outputs import TextOptions
    from webhook.cli.review_report import Review

__all__ = ["show"]


def show(review: Review, options: TextOptions) -> None:
    """Print the patch, and to standard error what kubectl would print.

    Raises:
        click.UsageError: The review has not exactly one result.
    """
    results = review.results
    if len(results) != 1:
        raise click.UsageError(f"-o patch prints the patch of one object, and there are {len(results)}")
    show_messages(review)
    if not results[0].is_refused:
        click.echo(json_text(list(results[0].patch)))
