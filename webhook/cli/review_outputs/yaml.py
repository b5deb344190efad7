"""The admitted objects and their ResourceClaimTemplates, to keep instead of the originals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from webhook.cli.dump import dump_all
from webhook.cli.review_outputs.text import show_messages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.kubernetes.objects import Object
    from webhook.cli.review_outputs import TextOptions
    from webhook.cli.review_report import Review

__all__ = ["show"]


def show(review: Review, options: TextOptions) -> None:
    """Print the objects, and to standard error what kubectl would print."""
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
