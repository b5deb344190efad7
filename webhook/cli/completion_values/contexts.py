"""Contexts of the kubeconfig that begin with what is written so far."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webhook.cli.completion_values.items import items_of, option_value
from webhook.cluster.contexts import context_names

if TYPE_CHECKING:
    import click

    from webhook.cli.completion_values.items import Items

__all__ = ["contexts"]


def contexts(ctx: click.Context, incomplete: str) -> Items:
    """The contexts of the kubeconfig."""
    names = context_names(option_value(ctx, "kubeconfig"))
    return items_of(name for name in names if name.startswith(incomplete))
