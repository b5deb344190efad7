"""IDs of rules that begin with what is written so far."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from webhook.cli.completion_values.items import Items

__all__ = ["rule_ids"]

_TITLES = "rule_titles.txt"
"""The rules, a line for each; importing all of them takes a second."""


def rule_ids(incomplete: str) -> Items:
    """The IDs of rules, with their titles."""
    lines = (files("policies") / _TITLES).read_text(encoding="utf-8").splitlines()
    found = (line.partition(" ") for line in lines if line.startswith(incomplete.upper()))
    return [CompletionItem(rule_id, help=title) for rule_id, _, title in found]
