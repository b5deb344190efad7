"""The admitted objects and their ResourceClaimTemplates, or the JSON Patch of a single object."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from webhook.cli.review.text import show_messages
from webhook.cli.text_layout import dump_all, json_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.kubernetes.objects import Object
    from webhook.cli.review import TextOptions
    from webhook.cli.review.review_report import Review


def show_yaml(review: Review, options: TextOptions) -> None:
    """Print the objects to keep instead of the originals; to standard error what kubectl would print."""
    show_messages(review)
    click.echo(dump_all(_documents(review)), nl=False)


def _documents(review: Review) -> Iterator[Object]:
    """The admitted objects, each followed by its new templates, unless a template is itself under review."""
    written = {
        (result.subject.request.namespace, result.subject.name)
        for result in review.results
        if result.subject.request.kind == "ResourceClaimTemplate"
    }
    for result in review.results:
        if not result.is_refused and result.after is not None:
            yield result.after
            for template in result.templates:
                if (template.namespace, template.name) not in written:
                    yield template.manifest()
                    written.add((template.namespace, template.name))


def show_patch(review: Review, options: TextOptions) -> None:
    """Print the JSON Patch of a single object, and to standard error what kubectl would print.

    Raises:
        click.UsageError: The review has not exactly one result.
    """
    results = review.results
    if len(results) != 1:
        raise click.UsageError(f"-o patch prints the patch of one object, and there are {len(results)}")
    show_messages(review)
    if not results[0].is_refused:
        click.echo(json_text(list(results[0].patch)))
