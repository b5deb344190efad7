"""Namespaces that an option names: one that cannot be, or is not there, is a mistake and no good news."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from policies.kubernetes.names import is_dns_label
from policies.kubernetes.printable import shown

if TYPE_CHECKING:
    from policies.view import ClusterView

__all__ = ["check_exists", "check_name"]


def check_name(namespace: str) -> None:
    """Refuse what no namespace can be called; empty stands for all of them.

    Raises:
        click.UsageError: None can be called so.
    """
    if namespace and not is_dns_label(namespace):
        raise click.UsageError(f"no namespace can be called {shown(namespace)}")


def check_exists(view: ClusterView, namespace: str) -> None:
    """Refuse a namespace that certainly does not exist: nothing found in a misspelt one would look like good news.

    Raises:
        click.UsageError: There is none.
    """
    if namespace and view.get("Namespace", namespace) is None:
        raise click.UsageError(f"there is no namespace {namespace}")
